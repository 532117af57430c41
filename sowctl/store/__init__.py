"""The SOW file: records, history, expiry and meta of one topic in one LMDB file (``sow-store(5)``).

The only room that imports lmdb. In the order in which data passes:

    codec       bytes of a value, keys of versions and expirations
    meta        definition and state of a store
    limits      sizes of what is read and verified together
    integrity   checksums over many values at once, the digest
    lmdberrors  plain words for what LMDB reports
    opening/    from a path to an open LMDB environment: locks, sharing, what a damaged beginning shows; opening/proof
                proves pages before LMDB follows them, or reads them without it
    env         a store as a whole: open, snapshot, write
    builder     a new store, put in the place of the old one
    ordered     entries in key order, and proof that none is left out
    read        what one transaction gives, verified
    snapshot    a read transaction, renewed on demand
    write       changes in one transaction: counts, digest, index
    changes     which keys each transaction touched
    tables      further tables of derived stores, in the same transactions (sow-view(5))
    sortedrun   changes behind a store, in a file of their own (sow-run(5))
    raw/        records by their place in the file, past LMDB; read alone imports it
    queue/      the state files of queues (sow-queue(5))
    check       the check of a store, in a child process
    examine     what that process does
"""
