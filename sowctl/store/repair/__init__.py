"""Looking after a store: where its pages are, a tight copy of it, what can be saved of a damaged one.

Called by the engine's room of the same name. In the order in which one module uses another:

    pagefile    LMDB's pages with plain reads: nothing that stands in them can end the process
    space       pages in use, free, and kept for readers; who these readers are
    structure   the trees without their leaves
    verified    the record of what was read when
    partial     a check of structure and a part of the data, in the process of a check
    leftovers   files that killed builders left beside a store
    salvage     what is sound of a damaged store, and only what it held
    aside       a damaged file under a second name
    copying     a copy in key order, kept up with writers until it takes the store's place
"""
