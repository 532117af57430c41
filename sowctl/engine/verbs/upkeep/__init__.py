"""The verbs of maintenance, one module for each command. No verb imports another; shared code is in
``engine/maintenance``.

* ``backup``: create, list and verify backups.
* ``restore``: restore an instance from a backup.
* ``journal_tail``: the last entries, and new ones as they are written.
* ``journal_search``: entries by key, client, time, filter, pattern.
* ``journal_bisect``: the entry after which a condition over a topic's state holds.
* ``journal_check``: a check of all bytes of a journal.
* ``compact``: replace stores by copies without free pages.
* ``clean``: remove files that killed processes left next to stores.
* ``repair``: repair damaged stores from their readable part and the journal.
"""
