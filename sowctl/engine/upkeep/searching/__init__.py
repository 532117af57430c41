"""Entries of a journal: found without reading all of it, and told as records.

* ``entries``: entries as records for output, and the topics that a name may mean.
"""
