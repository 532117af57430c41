"""Typed trees: bson and msgpack; and code shared with other types of trees.

* ``type``: the base of both types: readers, selections, merges, views.
* ``bson``: bson.
* ``msgpack``: msgpack.
* ``bsonlib``: the library of bson.
* ``bsonscan``: finding the fault in an invalid bson payload.
* ``paths``: readers of paths in decoded trees.
* ``write``: deltas, constructed fields and select lists on trees.
* ``view``: a message as a line of JSON.
"""
