"""Proof that LMDB may follow a page, before it does (``sow-store(5)``, "How to read").

LMDB maps the file and follows what stands in it: a wrong number in a page can end the process. So every page is read
with a plain read and proven before LMDB is sent to it: it has its own number and kind, its nodes fill its end without
a gap, its keys ascend and lie between those of the branch above, its children and overflow pages lie in the file.
Readers of entries in a row, and of a few keys, take them from the pages that were read: LMDB holds their state, by its
table of readers, and is not asked for more.

    limits       how much is proven at once, and kept
    page         one page by itself
    columns      many leaves at once, with numpy, where thousands are read or written
    tree         the pages of a sub-database: paths from the root, the leaves beside them
    freelist     the list of free pages, which a writer takes pages from
    transaction  LMDB's transaction and cursors; each operation is preceded by the proof of the pages that it touches
"""
