"""From journal entries to stored records: a store follows from its journal alone. In the order in which data passes:

* ``blocks``: which entries of a block are asked for, and what they are as stored values.
* ``memtable``: the journal's tail behind a store, newest value per key: in sorted runs, then in memory.
* ``entry_columns``: what large batches publish, by columns, until its stored values are asked for.
* ``merge_layers``: what several layers have changed, in key order, by itself and among a store's records.
* ``limits``: how much a memtable holds, and which of the next three ways it goes.
* ``apply``: a memtable into a store, in one transaction with the store's position.
* ``removal``: what has expired, and versions outside of the window, out of a store.
* ``runs``: a memtable into a sorted run beside the store; which runs continue a store.
* ``compaction``: store and memtable into a new file in the store's place.
* ``keyfilter``: which keys store and runs may have, so that new ones need not be searched for.
* ``journal_fold``: a topic's whole journal into a new store, in two passes and bounded memory.
* ``changefeed``: what entries did to records, with the record before: the fold, entry by entry.
* ``spill``: the sort by key that folding needs, and parts kept for later, in files where memory does not do.
* ``rebuild``: a new store filled, made up to date and put in the place of the old one.
* ``tempstore``: a store in a temporary directory, for what is read once.
"""
