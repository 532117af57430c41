"""The verbs of upkeep, one module for each command; none imports another, what two share stands in ``engine/upkeep``.

* ``journal_search``: entries by key, client, time, filter, pattern.
* ``journal_check``: every byte of a journal, read and compared.
* ``compact``: stores without free pages.
"""
