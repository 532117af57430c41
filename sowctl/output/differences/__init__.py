"""Differences between two things, for people and programs.

* ``records``: differing records, field by field, and the envelopes that turn one side into the other.
* ``changes``: differing values by name, such as those of two configurations.
"""
