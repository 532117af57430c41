"""Records by their offset in the store's file, without LMDB's lookup; only :mod:`sowctl.store.read` uses this package.

A filter answered by a memo index yields thousands of row numbers. The offsets of their records are known from a memo
file or from LMDB's pages, so they are read at these offsets and verified by their checksums, instead of being searched
key by key. Records that fail verification are looked up through LMDB: without this package results are the same, but
slower.

* ``offset_read``: reads values at known offsets; looks up the others.
* ``record_offsets``: all records of a state, for building memo indexes.
* ``line_pages``: all records of a state as lines of text, page by page, for readers of columns.
* ``batch_read``: many values in one run of bytes, verified by one checksum.
"""
