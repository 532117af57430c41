"""LMDB's file as bytes: the format of its pages, their references, and their errors. Does not use LMDB.

* ``layout``: constants and structs of pages, nodes and trees; defined only here.
* ``meta_page``: the two meta pages: their content, and which one is in use.
* ``check``: requirements for one page, for readers and writers that follow it.
* ``walk``: all pages and entries of trees, sub-databases and free list, tolerating any damage.
* ``locate``: the nodes of many pages, and the records of a state, in columns, with numpy.
* ``column_check``: ``check`` for many leaves at once, with numpy.
"""
