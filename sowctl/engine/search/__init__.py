"""Finding records: the options of a query, its plan, the access paths, and order and groups of the result.

In the order of a query:

* ``optiontext``: the option text of a query command, parsed.
* ``terms``: options checked and compiled before any store is opened.
* ``keytext``: the text of a key, parsed.
* ``keyhistory``: the versions of single keys, from a store or the journals.
* ``scan``: opening a target, planning, and executing the plan, in one process or several.
* ``plan``: the plan of a query as a value: by keys, by indexes, or by a full scan.
* ``figures``: the cost figures of plans, each with its measurement.
* ``conditions``: the conditions of a filter that memo indexes can answer.
* ``keylookup``: the records that a filter names by their keys.
* ``index_lookup``: the memo indexes of a store: opened, built, brought up to date.
* ``index_values``: the values of all records, from which indexes are built.
* ``index_access``: the records that memo indexes leave of a filter, and the first records of an order.
* ``matcher``: the filter over batches of stored records, and a source of the records that match.
* ``prefilter``: literal patterns that stored JSON must contain for a filter to be true.
* ``index_fields``: fields of matching records, read from indexes instead of records.
* ``sorter``: sorting results by fields or by time, in bounded memory.
* ``top_k``: the records of a scan that may be among the first of an order, by columns.
* ``external_grouping``: groups in bounded memory, from rows or columns.
* ``unknown_fields``: fields that a query names and no record has.
* ``filter_notes``: notes on filters that mean something else than in SQL.
* ``blocks``: fields of the records of a scan as columns, a block of records at a time.
* ``aggregate``: one message per group of the matching records.

These modules import only :mod:`sowctl.engine.sources` and packages below it.
"""
