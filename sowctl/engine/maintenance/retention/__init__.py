"""Retention of files: how long and where, by the Actions of a configuration and by what a person asks for.

* ``journals``: the journal of an instance for this room: its lock, its files.
* ``archive``: finished files of the journal into its archive.
* ``compression``: finished files made smaller where they lie.
* ``holders``: who still needs which entries of the journal.
* ``prune``: the oldest files removed, as far as nobody does.
* ``action_log``: when the actions of a configuration last ran.
* ``actions``: which of them are due, and their steps carried out.
* ``repairing``: damage cut out, a torn end cut off.
"""
