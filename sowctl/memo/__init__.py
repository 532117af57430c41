"""Memo indexes: the typed values of one path of every record of a store, in files beside it (``sow-memo(5)``).

They are derived: any of them may be missing, stale or damaged without changing results. This package does not depend on
stores and expressions; the engine combines records, values and predicates. In the order of processing:

* ``builder``: encodes the values of all records as the sections of a file.
* ``valuecodec``: encodes distinct values of several kinds.
* ``format``: header, sections and checksums of a file.
* ``directory``: the files of one store, and the builder's lock.
* ``index``: one path opened for reading: matching records, order, values.
* ``condition``: conditions of a filter that an index evaluates.
* ``rownumbers``: sets of records by their number in key order.
"""
