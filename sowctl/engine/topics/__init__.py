"""The configured topics, resolved before any data is opened. In the order of processing:

* ``targets``: a TARGET resolved to a topic, logical topics, a pattern of names, or a store file.
* ``patterns``: the topics that a regular expression matches.
* ``derived_topics``: a view, conflated topic or queue as the topic that readers see.
* ``storefile``: files that are not stores, at a path where a store is expected.
* ``queuestates``: the state files of queues, and how far they prove that the journal was synced.
* ``positions``: positions of stores and journals, and which journal covers which store.
* ``histories``: positions of histories that a restore ended.
* ``log_places``: bookmarks and txids as instants.
* ``expiration``: when a record expires, for one timestamp and for columns.
* ``retention``: the versions of a key that History keeps.
"""
