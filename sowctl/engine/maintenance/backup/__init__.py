"""Backups: the complete state of an instance at one instant, and restoring it (``sow-backup(5)``).

In the order of processing:

* ``manifest``: the manifest of a backup and its codec.
* ``folder``: a directory of backups: its lock, its backups, and a new one, which has a temporary name until complete.
* ``layout``: the paths of an instance's files in a tree; an instance whose files are in another tree.
* ``file_copy``: linking or copying files, with their digests.
* ``creation``: creating a backup of one instant.
* ``verification``: opening a backup as an instance and comparing its digests.
* ``journals``: the journal files of a backup up to a txid, and the new history after it.
* ``restore``: restoring an instance from a backup.
"""
