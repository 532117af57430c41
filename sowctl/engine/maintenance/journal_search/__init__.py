"""Searching entries of a journal without reading all of it.

* ``criteria``: conditions on entries, tested on a block's header, map and columns.
* ``payloads``: conditions on messages: a filter and a pattern.
* ``match_counts``: the number of matching records of a topic at any txid.
* ``journal_check``: a check of a whole journal, compared with the positions of stores and queues.
* ``entries``: entries as output records, and the topics that a name can mean.
"""
