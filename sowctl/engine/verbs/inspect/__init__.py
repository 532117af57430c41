"""Verbs that say what is there, and what became of it; none of them changes anything:

* ``schema``: what messages consist of. ``stats``: figures of their fields, and of the journal.
* ``diff``: two states compared. ``blame``: who set which field of a record, and when.
"""
