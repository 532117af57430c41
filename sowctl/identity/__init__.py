"""Identities: SOW keys, hashes of names, bookmarks.

* ``hashes``: the checksums of names and of the expression language.
* ``keys``: SOW keys: 64 bits of identity, 64 bits to detect collisions; conversion to numbers.
* ``keyspace``: columns of keys: equal ranges, order, the last occurrence of each key.
* ``bookmarks``: a publisher's sequence number as text.
"""
