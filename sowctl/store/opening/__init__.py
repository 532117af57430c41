"""Opening the LMDB environment of a path (``sow-store(5)``, "Files", "How to read", "Without locks").

* ``access``: the files of a store, and the permissions of this process on them.
* ``locks``: the gate and the writer lock.
* ``meta_pages``: LMDB's meta pages and free list, checked before the file is mapped.
* ``proof``: checks of LMDB's pages before LMDB reads them.
* ``unlocked_watch``: proves for a reader without locks that its state was not overwritten.
* ``handle``: an open environment: transactions, map size, closing.
* ``environment``: opening an environment through the gate.
* ``shared_environments``: one environment for all readers of a process.
* ``current_handle``: the environment of a path, reopened when the file is replaced.
"""
