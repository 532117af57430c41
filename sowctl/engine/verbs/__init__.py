"""The verbs: one module for each command on an instance, with the name of the command.

No verb imports another; code that two of them share is in a lower layer. In the order of a record's life:

* ``publish``: publish messages; acknowledged when they are in the journal and synced.
* ``replace``: make a topic equal to an input.
* ``key``: the SOW keys that messages would get.
* ``eval``: an expression over messages, without an instance.
* ``query``: records by filter.
* ``get``: records by key.
* ``subscribe``: records at one instant, then their changes.
* ``changes``: the changes of a topic's records since a position.
* ``explain``: the plans of a query.
* ``history``: versions of records.
* ``snapshot``: a past state of a topic, as records or as a store file.
* ``delete``: delete records.
* ``expire``: remove expired records.
* ``replay``: build stores from journals.
* ``reindex``: build or remove memo indexes.
* ``conflate``: advancing conflated topics.
* ``view``: views and their caches.
* ``queue``: queues by name, and their messages as records.
* ``bookmark``: the positions in a bookmark store.
* ``upkeep``: maintenance of stores and journals.
* ``inspect``: schemas, statistics and differences.
* ``info``: files, sizes and positions of an instance.
* ``check``: a check of stores and journals.
* ``journal``: files and entries of the journal.

The digest of a topic, which the command ``hash`` prints, is in :mod:`sowctl.engine.sources.digest`, because replay
compares it.
"""
