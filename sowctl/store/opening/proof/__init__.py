"""Proof that LMDB may follow a page, before it does (``sow-store(5)``, "How to read").

LMDB maps the file and trusts its bytes: a wrong number in a page can end the process. So every page is read with a
plain read and checked before LMDB reads it: it has its own number and kind, its nodes fill its end without a gap, its
keys ascend and lie between those of the branch above, its children and overflow pages are in the file. Readers of
consecutive entries, and of a few keys, take them from the pages that were read: LMDB holds their state, by its table of
readers, and is not asked for more.

What one page must be is checked by :mod:`sowctl.store.lmdbfile.check`, and of many leaves at once by
``column_check`` beside it.

* ``limits``: how much is checked at once, and cached.
* ``tree``: the pages of a sub-database: paths from the root, and neighbouring leaves.
* ``freelist``: the list of free pages, from which a writer takes pages.
* ``transaction``: LMDB's transaction and cursors; each operation first checks the pages that it touches.
"""
