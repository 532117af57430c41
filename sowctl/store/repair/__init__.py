"""Maintenance of a store's file: space, partial checks, compaction, salvage; for :mod:`sowctl.engine.maintenance`.

In the order of their dependencies:

* ``pagefile``: LMDB's pages with plain reads, which wrong bytes in them cannot crash.
* ``space``: pages in use, free pages, pages kept for readers, and these readers.
* ``structure``: the trees without their leaves.
* ``checked_ranges``: the record of which keys were checked when.
* ``partial``: a check of the structure and a part of the data, in a child process.
* ``leftovers``: files that killed builders left beside a store.
* ``salvage``: the readable content of a damaged store.
* ``damaged_copy``: a damaged file kept under a second name.
* ``compaction``: a copy in key order, kept up to date with writers until it replaces the store.
"""
