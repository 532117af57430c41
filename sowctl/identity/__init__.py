"""Identities: SOW keys, hashes of names, bookmarks.

* ``hashes``: the checksums of names and of the expression language.
* ``keys``: a SOW key: 64 bits of identity, 64 bits to detect collisions; its number.
* ``keyspace``: columns of keys: equal ranges, order, the last occurrence of each.
* ``bookmarks``: a publisher's sequence number as text.
"""
