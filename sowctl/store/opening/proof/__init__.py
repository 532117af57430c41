"""Proof that LMDB can follow a page, before it does (``sow-store(5)``, "How to read").

LMDB maps the file and trusts its bytes: a wrong number in a page can kill the process. So every page is read with a
plain read and checked before LMDB reads it: it has its own number and kind, its nodes fill its end without a gap, its
keys ascend and lie between those of the branch above, its children and overflow pages are in the file. Scans, and
lookups of a few keys, use the pages that were read: LMDB protects their state by its table of readers, and is not
needed otherwise.

:mod:`sowctl.store.lmdbfile.check` checks single pages, and ``column_check`` beside it many leaves at once.

* ``limits``: how much is checked at once, and cached.
* ``tree``: the pages of a sub-database: paths from the root, and neighbouring leaves.
* ``freelist``: the list of free pages, from which a writer takes pages.
* ``transaction``: LMDB's transaction and cursors; each operation first checks the pages that it touches.
"""
