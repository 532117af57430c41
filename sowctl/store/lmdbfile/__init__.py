"""LMDB's file as bytes: what its pages look like, where they lead, and what is wrong with them. Knows no LMDB.

* ``layout``: constants and structs of pages, nodes and trees; the only place that knows them.
* ``meta_page``: the two meta pages: what each says, and which one is in use.
* ``check``: what one page must be, for readers and writers that follow it.
* ``walk``: all pages and entries of trees, sub-databases and free list, whatever is wrong with them.
* ``locate``: the nodes of many pages, and the records of a state, in columns, with numpy.
* ``column_check``: ``check`` of many leaves at once, with numpy.
"""
