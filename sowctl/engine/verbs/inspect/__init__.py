"""Verbs that describe records and their origin; they change nothing.

* ``schema``: the paths of messages and their types.
* ``stats``: statistics of fields, and of the journal.
* ``diff``: the differences between two states.
* ``blame``: which entry set each field of a record.
"""
