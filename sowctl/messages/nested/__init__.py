"""Typed trees: bson and msgpack; and what other types of trees share with them.

* ``type``: what both are: readers, selections, merges, views; ``bson``, ``msgpack``: what each has of its own
* ``bsonlib``: the library of bson; ``bsonscan``: where a payload of it is broken
* ``paths``: readers of paths in decoded trees; ``write``: deltas, constructed fields and select lists on them
* ``view``: any message as a line of JSON
"""
