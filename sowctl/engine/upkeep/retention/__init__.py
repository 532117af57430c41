"""How long files are kept, and where: what the Actions of a configuration say, and what a person asks for.

* ``journals``: the journal of an instance for this room: its lock, its files.
* ``archiving``: finished files of the journal into its archive.
* ``compressing``: finished files made smaller where they lie.
* ``holders``: who still needs which entries of the journal.
* ``pruning``: the oldest files removed, as far as nobody does.
* ``remembered``: when the actions of a configuration last ran.
* ``actions``: which of them are due, and their steps carried out.
* ``repairing``: damage cut out, a torn end cut off.
"""
