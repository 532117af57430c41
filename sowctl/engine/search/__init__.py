"""Finding records: what a query asks for, the way to the records, and what becomes of them. In the order of a query:

``optiontext``         the option text of a query command, read into options
``terms``              options checked and compiled before any store is opened
``keytext``            what the text of a key means
``keyhistory``         the versions of single keys, out of a store or out of the journals
``scan``               a target opened, its plan made and executed, in one process or several
``forked_process``     a further process for a part of a long reading
``plan``               the way to the records, as a value: by keys, by indexes, or by reading all of them
``figures``            the figures that decide about plans, each with the measurement behind it
``conditions``         which conditions of a filter memo indexes can answer
``keylookup``          the records that a filter names by their keys
``index_lookup``       the memo indexes of a store, opened, built, and what has changed since
``index_values``       the values of all records, from which they are built
``index_access``       the records that memo indexes leave of a filter, and the first ones of an order
``matcher``            the filter over batches of stored records
``prefilter``          what stored JSON must show for a filter to be true, looked for before anything is decoded
``index_fields``       fields of matching records from indexes instead of the records
``sorter``             results in an order by fields or by time, in bounded memory
``group_accumulator``  groups in bounded memory, from rows or columns
``unknown_fields``     fields that a query names and no record has
``blocks``             fields of the records of a scan as columns, a block of records at a time
``aggregate``          one message per group of the records that match

Imports make no circle here, and leave the room only for :mod:`sowctl.engine.sources` and what lies below it.
"""
