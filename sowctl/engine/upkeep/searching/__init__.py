"""Entries of a journal: found without reading all of it, and told as records.

* ``checking``: all of a journal read and compared, with what stores prove of it.
* ``entries``: entries as records for output, and the topics that a name may mean.
"""
