"""Memo indexes: the typed values of one path of every record of a store, in files beside it (``sow-memo(5)``).

They are derived: any of them may be missing, stale or damaged, and the answers stay. This room knows nothing of stores
and expressions; the engine brings records, values and predicates together. In the order in which data passes:

    build       values of all records -> the sections of a file
    words       distinct values of several kinds as bytes
    format      header, sections and checksums of a file
    directory   the files of one store, and the builder's lock
    column      one path opened for reading: hits, order, values
    condition   what a filter asks of a column
    rownumbers  sets of records by their number in key order
"""
