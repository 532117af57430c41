"""Upkeep: stores and journals as what lies on disk, to be searched, checked, mended, packed, kept and removed.

Rooms, each of one matter:

* ``journal_search``: entries of a journal found, followed and bisected.
* ``backup``: all of an instance as of one instant, and an instance made of that.
* ``retention``: how long files are kept, and where: archived, removed, actions of the configuration.
* ``storefiles``: which store files targets mean.
* ``diagnosis``: what may go wrong with an instance where it stands.
* ``compaction``: stores copied tightly, in the place of the old ones.
* ``store_repair``: what is sound of a damaged store, with what the journal has of the rest.
"""
