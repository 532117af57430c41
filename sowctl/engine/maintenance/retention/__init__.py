"""Retention of journal files, by the Actions of a configuration or on request.

* ``journals``: the journal of an instance for this package: its lock, its files.
* ``archive``: moving finished journal files to the archive.
* ``compression``: compressing finished journal files in place.
* ``rotation``: finishing the active journal file.
* ``holders``: the holders that still need entries of the journal.
* ``prune``: removing the oldest files whose entries no holder needs.
* ``action_log``: when the actions of a configuration last ran.
* ``actions``: the due actions, and running their steps.
* ``journal_repair``: cutting out damage, truncating an incomplete end.
"""
