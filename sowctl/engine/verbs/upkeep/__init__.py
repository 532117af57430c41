"""The verbs of upkeep, one module for each command; none imports another, what two share stands in
``engine/maintenance``.

* ``backup``: all of an instance as of one instant, proven; ``restore``: an instance made of a backup.
* ``journal_tail``: the last entries, and those that come.
* ``journal_search``: entries by key, client, time, filter, pattern.
* ``journal_bisect``: the entry behind which a condition over a topic's state holds.
* ``journal_check``: every byte of a journal, read and compared.
* ``compact``: stores without free pages. ``clean``: what killed processes left beside stores.
* ``repair``: damaged stores made sound, as far as they and the journal say what was in them.
"""
