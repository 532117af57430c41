"""Backups: all of an instance at one instant, and restoring it (``sow-backup(5)``).

In the order of processing:

* ``manifest``: the manifest of a backup and its codec.
* ``folder``: a directory of backups: its lock, its backups, a new one under a temporary name until it is complete.
* ``layout``: the places of an instance's files in a tree; an instance whose files are in another tree.
* ``file_copy``: files linked or copied, with their digests.
* ``creation``: creating a backup from that instant.
* ``verification``: opening a backup as an instance and comparing its digests.
* ``journals``: the journal files of a backup up to a txid, and the new history that begins there.
* ``restore``: an instance made of a backup.
"""
