"""Entries of a journal: found without reading all of it, and told as records.

* ``criteria``: what an entry has to be, asked of a block's header, map and columns; ``payloads``: and of messages.
* ``match_counts``: how many records of a topic match, as of any txid.
* ``journal_check``: all of a journal read and compared, with what stores prove of it.
* ``entries``: entries as records for output, and the topics that a name may mean.
"""
