"""The configured topics, resolved before any data is opened. In the order in which data passes:

* ``targets``: what a TARGET names: a topic, logical topics, a pattern over names, a store file.
* ``patterns``: the names that a regular expression stands for.
* ``derived_topics``: a view, conflated topic or queue as the topic that it is read as.
* ``storefile``: files that are no stores, named by mistake or standing at a topic's place.
* ``queuestates``: the state files of queues, and what they prove of the journal.
* ``positions``: where stores and journals stand to each other: opening both, which journal explains which store.
* ``histories``: positions of histories that a restore ended.
* ``log_places``: bookmarks and txids as instants.
* ``expiration``: when a record expires, for one stamp and for columns of them.
* ``retention``: which versions of a key a topic with History keeps.
"""
