"""Differences between two things, for people and programs.

* ``records``: records that differ, field by field, and the envelopes that turn one side into the other.
* ``changes``: values by name that differ, such as those of two configurations.
"""
