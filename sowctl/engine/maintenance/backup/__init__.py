"""Backups: all of an instance as of one instant, and an instance made of one (``sow-backup(5)``).

In the order in which data passes:

* ``manifest``: what a backup says of itself, and its bytes.
* ``folder``: a directory of backups: its lock, what is in it, a new one under another name until it is whole.
* ``layout``: where the files of an instance lie within a tree; an instance whose files lie in another tree.
* ``file_copy``: files linked or copied, with their digests.
* ``creation``: the moment, for which journal and stores are held, and a backup from that moment on.
* ``verification``: a backup opened as an instance, and its digests compared.
* ``journals``: the files of a journal up to a txid, and the new history behind it.
* ``restore``: an instance of its own, made of a backup.
"""
