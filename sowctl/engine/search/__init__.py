"""Finding records: what a query asks for, the way to the records, and what becomes of them. In the order of a query:

``optiontext``  the option text of a query command, read into options
``terms``       options checked and compiled before any store is opened
``keytext``     what the text of a key means
``matcher``     the filter over batches of stored records
``prefilter``   what stored JSON must show for a filter to be true, looked for before anything is decoded
``conditions``  which conditions of a filter memo indexes can answer
``scan``        a target opened and filtered whole, in one process or several
``keylookup``   the records that a filter names by their keys
``memos``       the memo indexes of a store, opened, built, and what has changed since
``indexed``     the records that memo indexes leave of a filter, and the first ones of an order
``memofields``  fields of those records from indexes instead of the records
``sorting``     results in an order by fields or by time, in bounded memory
``aggregate``   one message per group of the records that match

Imports point down this list or to :mod:`sowctl.engine.sources`, never back.
"""
