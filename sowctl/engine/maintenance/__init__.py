"""Maintenance of the files of stores and journals.

* ``journal_search``: searching entries of a journal, following and bisecting it.
* ``backup``: backups of the state of an instance at one instant, and restoring them.
* ``retention``: archiving, compressing and removing journal files; actions of the configuration.
* ``reclaimable``: what can be removed when a disk is full, in order.
* ``storefiles``: the store files of targets.
* ``diagnosis``: diagnosis of an instance: file systems, readers, locks, space, clock.
* ``compaction``: replacing stores by copies without free pages.
* ``store_repair``: a new store from the readable part of a damaged one and the journal.
"""
