"""The SOW file: records, history, expiry and meta of one topic in one LMDB file (``sow-store(5)``).

The only package that imports lmdb. In the order of processing:

* ``codec``: the encoding of values; keys of versions and expirations.
* ``meta``: the definition and state of a store.
* ``integrity``: checksums over many values at once, and the digest.
* ``lmdberrors``: errors of LMDB as errors of this program.
* ``lmdbfile``: LMDB's pages as bytes: their layout, walks over them, checks of them.
* ``opening``: opens the LMDB environment of a path: locks, sharing, checks of pages.
* ``env``: a store: open, snapshot, write.
* ``builder``: a new store that replaces the old one.
* ``ordered_entries``: entries in key order, and proof that none is missing.
* ``read``: verified reads in one transaction.
* ``snapshot``: a read transaction, renewed on demand.
* ``write``: changes in one transaction: counts, digest, index.
* ``changes``: the keys that each transaction changed.
* ``tables``: additional tables of derived stores, in the same transactions (sow-view(5)).
* ``sortedrun``: changes after the position of a store, in a separate file (sow-run(5)).
* ``raw``: records by their offset in the file, without LMDB; only ``read`` imports it.
* ``queue``: the state files of queues (sow-queue(5)).
* ``check``: the check of a store, in a child process.
* ``examine``: the program of this child process.
* ``repair``: free space, partial checks, compaction and salvage of stores.
* ``limits``: sizes of batches that are read and verified together, and cache limits.
"""
