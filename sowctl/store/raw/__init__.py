"""Records by their place in the store's file, past LMDB's lookup: speed work behind one door, :mod:`sowctl.store.read`.

A filter answered by a memo index yields thousands of row numbers. Where their records lie is known from a memo file or
from LMDB's pages, so they are read there, and proven by their checksums, instead of searched for key by key. Whatever
does not prove sound is looked up through LMDB: without this room answers are the same, and slower.

    tree      where the records of a state lie, by LMDB's pages
    offsets   values read at known offsets; the rest looked up
    whole     all records of a state, for the building of memo indexes
    lined     all records of a state as lines of text, page by page, for what reads columns
    joined    many values in one run of bytes, verified by one checksum
"""
