"""Codes of stores: files, records, locks, and errors of the operating system and LMDB."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-STO-001": """5 record checksum mismatch

        Why: The bytes of a record, or of a retained version, differ from those that were written. Such a record
        is never printed.
        Do: Run ``sowctl replay TOPIC``; without a journal, ``sowctl store repair TOPIC`` saves the intact records.
        """,
    "SOW-STO-002": """5 inconsistent record lengths

        Why: The lengths of the parts of a record do not add up to the length of the record.
        Do: Run ``sowctl replay TOPIC``; without a journal, ``sowctl store repair TOPIC`` saves the intact records.
        """,
    "SOW-STO-003": """5 inconsistent store

        Why: Keys are out of order, cannot be found, or do not match the counts of the store. Results could lack
        records.
        Do: Run ``sowctl replay TOPIC``; without a journal, ``sowctl store repair TOPIC`` saves the intact records.
        """,
    "SOW-STO-004": """5 wrong version key

        Why: The key of a retained version does not match the record, time or txid in its value.
        Do: Run ``sowctl replay TOPIC``; without a journal, ``sowctl store repair TOPIC`` saves the intact records.
        """,
    "SOW-STO-010": """5 not a SOW file

        Why: The file is not a store: its header or another part is invalid.
        Do: Correct the path or FileName, or rebuild the topic with ``sowctl replay``.
        """,
    "SOW-STO-011": """9 store of a newer format

        Why: The file was written by a later release, in a format that this release does not support.
        Do: Use that release, or a later one.
        """,
    "SOW-STO-012": """5 damaged meta record

        Why: The checksum of the meta record, which has the topic and the position of the store, does not match.
        Do: Run ``sowctl replay TOPIC``; without a journal, ``sowctl store repair TOPIC`` saves the intact records.
        """,
    "SOW-STO-013": """5 damaged sequence number

        Why: The checksum of the highest sequence number of a publisher does not match, so duplicate messages
        could not be detected.
        Do: Run ``sowctl replay TOPIC``; without a journal, ``sowctl store repair TOPIC`` saves the intact records.
        """,
    "SOW-STO-020": """10 no such store

        Why: There is no file at this path.
        Do: Publish to the topic, rebuild it with ``sowctl replay``, or correct the path.
        """,
    "SOW-STO-021": """5 not a valid LMDB file

        Why: The first pages of the file are not those of an LMDB file, or it is not a regular file. Another
        program wrote to it, or it was copied while it was being written.
        Do: Run ``sowctl replay TOPIC``; without a journal, ``sowctl store repair TOPIC`` saves the intact records.
        Use ``sowctl snapshot`` to copy stores.
        """,
    "SOW-STO-022": """5 truncated store

        Why: The file is shorter than its pages require: an incomplete copy, or a file system that lost the end.
        Do: Run ``sowctl replay TOPIC``; without a journal, ``sowctl store repair TOPIC`` saves the intact records.
        """,
    "SOW-STO-023": """5 damaged page

        Why: A page of the LMDB file has invalid content, or belongs elsewhere. Pages are verified before LMDB
        follows them, because a damaged page may crash the process.
        Do: Run ``sowctl replay TOPIC``; without a journal, ``sowctl store repair TOPIC`` saves the intact records.
        """,
    "SOW-STO-024": """8 store of another definition

        Why: The configuration of the record keys was changed, or the file belongs to another instance or topic.
        Writing would mix records with different keys; reading is allowed.
        Do: Restore the previous definition, give the topic another FileName, or after a change of Key use
        ``sowctl replay --rekey``.
        """,
    "SOW-STO-025": """8 store already exists

        Why: Another process has just created a store at this path.
        Do: Run the command again.
        """,
    "SOW-STO-026": """8 store opened read-only

        Why: A program tried to write to a store that it opened read-only.
        Do: Open it for writing.
        """,
    "SOW-STO-027": """8 unusable handle

        Why: The store is already open in this process, or its handle was inherited from a parent process; LMDB
        locks are not inherited.
        Do: Open the store after the fork; read the result of a query to its end, or close it, before writing to
        its topic.
        """,
    "SOW-STO-028": """8 open snapshot

        Why: The store must be reopened or its map must grow, but a query of this process is still reading from
        it.
        Do: Read the result to its end, or close it, before writing.
        """,
    "SOW-STO-030": """11 store locked by another writer

        Why: The writer lock was not released within ``--lock-wait``. The message names the process if it is
        known.
        Do: Wait longer with ``--lock-wait``, or stop that process.
        """,
    "SOW-STO-031": """11 store is being opened or replaced

        Why: Another process holds the lock for opening and replacing the store far longer than usual: it was
        suspended while holding it. The message names the process if it is known.
        Do: Try again; resume the suspended process, or stop it.
        """,
    "SOW-STO-032": """11 no free reader slot

        Why: The maximum number of LMDB readers is reading this store.
        Do: Stop some of them and try again.
        """,
    "SOW-STO-040": """6 no space

        Why: The disk or the quota is full, or the file size is limited. The file holds the state before the
        transaction.
        Do: Free space or raise the limit. Do not publish messages again that the command reports as durable:
        they are in the journal, queries print them, and the next command that writes to the topic, or ``sowctl
        replay``, adds them to the store. If the command reports where the rest of the input begins, publish
        from there. If it reports no message as durable, as for a topic without a journal, run it again.
        """,
    "SOW-STO-041": """6 permission denied

        Why: This process may not read or write the store, its directory, or the lock files beside it.
        Do: Grant read permission on the file and its directory; to write, grant write permission on both and on
        the ``-lock``, ``-gate`` and ``-writer`` files.
        """,
    "SOW-STO-042": """6 operating system error

        Why: Opening, reading, writing or syncing the store failed for a reason without a code of its own; after
        a failed commit, the message says which state the file holds.
        Do: Fix the cause in the message, and run the command again.
        """,
    "SOW-STO-043": """6 not enough address space

        Why: The whole store is mapped into memory, but the limit on virtual memory is too low.
        Do: Raise the limit (``ulimit -v``).
        """,
    "SOW-STO-044": """6 handle failed before

        Why: A commit or sync of this process failed; since then, the state of LMDB in memory may differ from
        the file.
        Do: Find out why the disk failed, then run the command again.
        """,
    "SOW-STO-045": """6 incomplete lock file

        Why: A process was killed while it created the lock file of a store that nobody had open. At that
        moment, a program that is not part of this toolkit opened the store, and still has it open. Writing now
        would assign transaction numbers twice. The store itself is intact.
        Do: Stop the processes that have the store open, then try again.
        """,
    "SOW-STO-050": """5 store crashes its reader

        Why: ``check`` reads each store in a separate process, which was killed because of a damaged page, or
        failed with an error that it could not report.
        Do: Run ``sowctl replay TOPIC``; without a journal, ``sowctl store repair TOPIC`` saves the intact records.
        """,
    "SOW-STO-051": """5 wrong counts

        Why: The number of records, versions, bytes or publishers, the digest, or the position differs from the
        result of reading the whole store.
        Do: Run ``sowctl replay TOPIC``; without a journal, ``sowctl store repair TOPIC`` saves the intact records.
        """,
    "SOW-STO-052": """5 damaged expiration index

        Why: The checksums of the expiration index do not match, or it does not match the records.
        Do: Run ``sowctl replay TOPIC``; without a journal, ``sowctl store repair TOPIC`` saves the intact records.
        """,
    "SOW-STO-053": """5 invalid versions

        Why: Versions of a record are out of order or newer than the current one, or a record is wrongly marked
        as deleted.
        Do: Run ``sowctl replay TOPIC``; without a journal, ``sowctl store repair TOPIC`` saves the intact records.
        """,
    "SOW-STO-054": """5 lost write

        Why: The meta record and the pages are from different transactions: the disk acknowledged a write and
        lost it.
        Do: Run ``sowctl replay TOPIC``; without a journal, ``sowctl store repair TOPIC`` saves the intact records.
        Check the disk.
        """,
    "SOW-STO-055": """5 damaged change list

        Why: The checksums of the list of changed keys, which is used to update memo indexes, do not match.
        Do: Run ``sowctl replay TOPIC``; without a journal, ``sowctl store repair TOPIC`` saves the intact records.
        """,
    "SOW-STO-056": """5 damaged page trees

        Why: The branches of a store do not lead to its leaves: a page does not match the branch above it, is
        used twice, or is both in use and free. Records below it may be missing from results.
        Do: Run ``sowctl replay TOPIC``; without a journal, ``sowctl store repair TOPIC`` saves the intact records.
        See: sowctl-store-check(1)
        """,
    "SOW-STO-057": """0 leaked pages

        Why: Some pages of a store belong to no tree and are not in the list of free pages. Only their space is
        lost. This is a warning.
        Do: ``sowctl store compact`` recovers the space.
        See: sowctl-store-check(1)
        """,
    "SOW-STO-060": """0 incomplete spare meta page

        Why: LMDB keeps two meta pages. The one that is not in use has parts of two states; the other is intact,
        and its state complete. Either a write of it failed, which the publisher was told, or a bit of its
        transaction id is damaged: then the store has the state before its last transaction. A topic with a
        journal reads that transaction from the journal. This is a warning.
        Do: If the topic has a journal, or a publish to it failed, no action is needed: the next publish rewrites
        the page. Otherwise publish the last messages again.
        See: sow-store(5)
        """,
    "SOW-STO-061": """11 store changed while read without locks

        Why: This process may not use the lock files, and a writer changed the store meanwhile: the data read
        may be of two states.
        Do: Run the command again; with write permission on the ``-lock`` file, the store can be read while
        others write.
        """,
    "SOW-STO-062": """8 store with hard links

        Why: The store has several names. Locks are tied to names, so two writers could change the file at the
        same time; and a hard link is not a backup, because it changes, too.
        Do: Replace the other names by copies; the hint shows how to find them.
        """,
    "SOW-STO-070": """8 path is not a regular file

        Why: The path of the store is a directory, a device or another special file.
        Do: Give the topic another FileName.
        """,
    "SOW-STO-071": """5 unreadable store

        Why: Neither of the LMDB meta pages leads to data, and no journal reaches back to the first entry of the
        topic. The file was not changed.
        Do: Restore the file from a copy, or restore the older journals, in place or in the archive, and repair
        again.
        See: sowctl-store-repair(1)
        """,
    "SOW-STO-072": """8 unreadable last state

        Why: The pages of the last transaction are damaged. The previous state is intact, but includes records
        that the last transaction deleted, and no journal identifies them.
        Do: Use the previous state with ``sowctl store repair --earlier``, or restore the file from a copy.
        See: sowctl-store-repair(1)
        """,
    "SOW-STO-073": """8 unknown topic of the store

        Why: The meta record, which has the topic of the store, is unreadable, and the file was named by its
        path.
        Do: Name the topic instead of the file, with its configuration.
        See: sowctl-store-repair(1)
        """,
}
