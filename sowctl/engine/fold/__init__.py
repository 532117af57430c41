"""Folds journal entries into stored records: the journal alone determines a store. In the order of processing:

* ``blocks``: the entries of a topic in a block, and their stored values.
* ``memtable``: the entries after the position of a store, newest value per key: in sorted runs, then in memory.
* ``entry_columns``: published records of a memtable as columns, encoded into stored values on demand.
* ``merge_layers``: changes of several layers merged in key order, also with the records of a store.
* ``limits``: limits of a memtable, and the figures of flushes, folds and removals.
* ``flush_plan``: decides when and how a memtable is flushed.
* ``apply``: applies a memtable to a store, in one transaction with the store's position.
* ``removal``: removal of expired records, and of versions outside the window.
* ``runs``: writes a memtable to a sorted run beside the store; finds the runs that continue a store.
* ``compaction``: merges store and memtable into a new file that replaces the store.
* ``keyfilter``: a filter of the keys in store and runs, so that new keys need no search.
* ``key_table``: the last entry of every key, looked up by key in bounded memory.
* ``last_per_key``: the last entry of each key, in bounded memory.
* ``journal_fold``: folds a topic's whole journal into a new store, in two passes and bounded memory.
* ``changefeed``: the effect of each entry on its record, with the previous record.
* ``spill``: sorting by key in bounded memory, with temporary files.
* ``rebuild``: fills a new store, brings it up to date, and replaces the old one with it.
* ``tempstore``: a store in a temporary directory.
"""
