"""Following a topic: from a place in the log to what a subscriber is told, and where it goes on after a restart.

* ``bookmarks``: the texts that name a place or a range of the log, as values.
* ``spans``: such a value against a journal: the entries that it means.
"""
