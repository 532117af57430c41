"""Identities: SOW keys, hashes of names, bookmarks.

* ``hashes``: the checksums of names and of the expression language
* ``keys``: a SOW key: 64 bits of identity, 64 to notice a collision; the number that names it
* ``keyspace``: keys by the column: equal parts of their range, their order, the last occurrence of each
* ``bookmarks``: a publisher's sequence as text
"""
