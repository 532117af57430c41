"""Queries: options, plans, access paths, and the order and groups of results.

In the order of a query:

* ``optiontext``: parsing of the option text of a query command.
* ``terms``: options, checked and compiled before any store is opened.
* ``keytext``: parsing of the text of a key.
* ``keyhistory``: the versions of single keys, from a store or the journals.
* ``scan``: opening a target, planning, and executing the plan, in one process or several.
* ``plan``: the plan of a query as a value: by keys, by indexes, or by a full scan.
* ``figures``: the cost figures of plans, each with its measurement.
* ``conditions``: the conditions of a filter that memo indexes can answer.
* ``keylookup``: the records that a filter names by their keys.
* ``index_lookup``: opening, building and updating the memo indexes of a store.
* ``index_values``: the values of all records, from which indexes are built.
* ``index_access``: candidate records of a filter, and the first records of an order, by memo indexes.
* ``matcher``: the filter over batches of stored records, and a source of matching records.
* ``prefilter``: literal patterns that stored JSON must contain for a filter to be true.
* ``index_fields``: fields of matching records, read from indexes instead of records.
* ``sorter``: sorting results by fields or by time, in bounded memory.
* ``top_k``: records of a scan that may be among the first of an order, by columns.
* ``external_grouping``: groups in bounded memory, from rows or columns.
* ``unknown_fields``: fields that a query names but no record has.
* ``filter_notes``: notes on filters whose meaning differs from SQL.
* ``blocks``: fields of scanned records as columns, a block of records at a time.
* ``aggregate``: one message per group of the matching records.

These modules import only :mod:`sowctl.engine.sources` and packages below it.
"""
