"""Codes of stores: files, records, locks, and what the operating system and LMDB say."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-STO-001": """5 a record whose checksum does not match

        Why: The bytes of a record, or of an old version of one, are not those that were written. It is never printed.
        Do: ``sowctl replay`` for the topic rebuilds the store from the journal; ``sowctl store repair`` saves what is
        sound where there is no journal.
        """,
    "SOW-STO-002": """5 a record whose parts do not fit

        Why: The lengths that a record gives for its parts do not add up to its own.
        Do: ``sowctl replay`` for the topic, or restore the file from a copy.
        """,
    "SOW-STO-003": """5 a store that is not consistent

        Why: Keys are out of order, cannot be found, or are not as many as the store counts. Answers from it could
        lack records.
        Do: ``sowctl replay`` for the topic, or restore the file from a copy.
        """,
    "SOW-STO-004": """5 a version whose key is wrong

        Why: The key of a retained version does not say what its value says about record, time or txid.
        Do: ``sowctl replay`` for the topic, or restore the file from a copy.
        """,
    "SOW-STO-010": """5 no SOW file

        Why: The file is not a store: its beginning or one of its parts is not that of one.
        Do: Correct the path or FileName, or rebuild the topic with ``sowctl replay``.
        """,
    "SOW-STO-011": """9 a store of a newer format

        Why: A later release wrote the file in a format that this one does not know.
        Do: Use that release, or a later one.
        """,
    "SOW-STO-012": """5 a damaged meta record

        Why: The record that says whose store it is and how far it has come does not have its checksum.
        Do: ``sowctl replay`` for the topic, or restore the file from a copy.
        """,
    "SOW-STO-013": """5 a damaged sequence number

        Why: The highest sequence number of a publisher does not have its checksum, so that repeated messages could
        not be told from new ones.
        Do: ``sowctl replay`` for the topic, or restore the file from a copy.
        """,
    "SOW-STO-020": """10 no such store

        Why: There is no file at this path.
        Do: Publish to the topic, rebuild it with ``sowctl replay``, or correct the path.
        """,
    "SOW-STO-021": """5 no sound LMDB file

        Why: The first pages of the file are not those of an LMDB file, or it is no regular file. Another program
        wrote to it, or it was copied while it was written.
        Do: ``sowctl replay`` for the topic, or restore the file from a copy. Copy stores with ``sowctl snapshot``.
        """,
    "SOW-STO-022": """5 a cut end

        Why: The file is shorter than its own pages need: a copy that ended early, or a file system that lost the end.
        Do: ``sowctl replay`` for the topic, or restore the file from a copy.
        """,
    "SOW-STO-023": """5 a damaged page

        Why: A page of the LMDB file is not what LMDB writes, or does not belong where it is. Pages are proven before
        LMDB follows them, as it may end the process.
        Do: ``sowctl replay`` for the topic, or restore the file from a copy.
        """,
    "SOW-STO-024": """8 a store of another definition

        Why: The configuration has changed what makes a record's identity, or the file belongs to another instance or
        topic. Writing would mix records under two kinds of keys; reading is allowed.
        Do: Put the former definition back, give the topic another FileName, or after a change of Key use ``sowctl
        replay --rekey``.
        """,
    "SOW-STO-025": """8 a store that is there already

        Why: A new store was to be put at a place where another process has just made one.
        Do: Run the command again.
        """,
    "SOW-STO-026": """8 a store that was opened for reading

        Why: A program asked a store to be written that it had opened read-only.
        Do: Open it for writing.
        """,
    "SOW-STO-027": """8 a handle that cannot be used here

        Why: A store is open in this process already, or its handle came along from a parent process, where LMDB's
        locks did not.
        Do: Open the store after the fork; read the result of a query to its end, or close it, before writing to its
        topic.
        """,
    "SOW-STO-028": """8 a snapshot in the way

        Why: The store must be opened anew or its map must grow, and a query of this process still reads from it.
        Do: Read the result to its end, or close it, before writing.
        """,
    "SOW-STO-030": """11 a store that another process writes to

        Why: The writer's lock was not free within ``--lock-wait``. The message names the process where that is known.
        Do: Wait longer with ``--lock-wait``, or end that process.
        """,
    "SOW-STO-031": """11 a store that is being opened or replaced

        Why: Another process holds the gate that opening and replacing pass one at a time, for longer than that ever
        takes: it was stopped in that moment. The message names it where that is known.
        Do: Try again; let a stopped process go on, or end it.
        """,
    "SOW-STO-032": """11 no free reader slot

        Why: As many readers as LMDB has slots for are reading this store.
        Do: End some of them and try again.
        """,
    "SOW-STO-040": """6 no room

        Why: The disk or the quota is full, or the size of files is limited. The file holds the state before the
        transaction.
        Do: Free some space or raise the limit. Do not publish messages again that the command counts as durable: they
        are in the journal, queries print them, and the next command that writes to the topic, or ``sowctl replay``,
        brings them into the store. Where the command says where the rest of the input begins, publish from there. Where
        it counts no message as durable, as for a topic without a journal, run it again.
        """,
    "SOW-STO-041": """6 not permitted

        Why: This process may not read or write the store, its directory, or the lock files beside it.
        Do: Ask for read permission on the file and its directory; to write, for write permission on both and on the
        ``-lock``, ``-gate`` and ``-writer`` files.
        """,
    "SOW-STO-042": """6 an error of the operating system

        Why: Opening, reading, writing or syncing the store failed for a reason that has no code of its own; after a
        failed commit the message says which state the file holds.
        Do: Remove the cause that the message names, and start again.
        """,
    "SOW-STO-043": """6 not enough address space

        Why: A store is mapped into memory as a whole, and the limit on virtual memory leaves no room for it.
        Do: Raise the limit (``ulimit -v``).
        """,
    "SOW-STO-044": """6 a handle that failed before

        Why: A commit or sync of this process failed, and what LMDB has in memory may differ from the file since then.
        Do: Find out why the disk failed, then start again.
        """,
    "SOW-STO-045": """6 an unfinished lock file

        Why: A process was killed at the moment in which it made the lock file of a store that nobody had open. At that
        moment a program that is not part of this toolkit opened the store, and it has it open since. Writing now
        would give numbers of transactions twice. The store itself is whole.
        Do: End the processes that have the store open, then try again.
        """,
    "SOW-STO-050": """5 a store that ends the process that reads it

        Why: ``check`` reads stores in a process of its own, and that process was ended by a page that lies, or by an
        error it could not report.
        Do: ``sowctl replay`` for the topic, or restore the file from a copy.
        """,
    "SOW-STO-051": """5 counts that are wrong

        Why: The numbers of records, versions, bytes or publishers, the digest, or the position are not what reading
        the whole store found.
        Do: ``sowctl replay`` for the topic, or restore the file from a copy.
        """,
    "SOW-STO-052": """5 a damaged expiry index

        Why: The list of when records expire does not have its checksums, or is not that of the records.
        Do: ``sowctl replay`` for the topic, or restore the file from a copy.
        """,
    "SOW-STO-053": """5 versions that cannot be

        Why: Versions of a record are out of order or newer than the current one, or something is marked as deleted
        that cannot be.
        Do: ``sowctl replay`` for the topic, or restore the file from a copy.
        """,
    "SOW-STO-054": """5 a lost write

        Why: The meta record is of another transaction than the pages: the disk acknowledged a write and lost it.
        Do: ``sowctl replay`` for the topic, or restore the file from a copy; mistrust the disk.
        """,
    "SOW-STO-055": """5 a damaged change list

        Why: The list of changed keys, from which memo indexes catch up, does not have its checksums.
        Do: ``sowctl replay`` for the topic, or restore the file from a copy.
        """,
    "SOW-STO-056": """5 trees of pages that are damaged

        Why: The branches of a store do not lead to its leaves: a page is not what the branch above it says, is in use
        twice, or in use and free. Records below it may be missing from answers.
        Do: ``sowctl replay`` for the topic; where no journal has it, ``sowctl store repair`` saves what is sound.
        See: sowctl-store-check(1)
        """,
    "SOW-STO-057": """0 pages that are neither in use nor free

        Why: Some pages of a store belong to no tree and are not in the list of free pages. Nothing is lost but their
        room. It is a warning.
        Do: ``sowctl store compact`` gets the room back.
        See: sowctl-store-check(1)
        """,
    "SOW-STO-060": """0 a spare meta page that was not written whole

        Why: LMDB keeps two meta pages. The one that is not in use is mixed from two states; the other is sound and
        the store complete. It is a warning.
        Do: Nothing: the next publish to the topic writes it anew.
        """,
    "SOW-STO-061": """11 a store that was written while it was read without locks

        Why: This process may not use the lock files, and a writer went on meanwhile: what was read may be of two
        states.
        Do: Run it again; with write permission on the ``-lock`` file it can be read while others write.
        """,
    "SOW-STO-062": """8 a file with several names

        Why: The store has hard links. Locks go by name, so two writers could change one file at once; and such a link
        is no backup, as it changes too.
        Do: Replace the other names by copies; the hint shows how to find them.
        """,
    "SOW-STO-070": """8 a place that is taken

        Why: At the store's path is a directory, a device or another thing that is no regular file.
        Do: Give the topic another FileName.
        """,
    "SOW-STO-071": """5 a store of which nothing can be read

        Why: Neither of LMDB's meta pages leads anywhere, and no journal reaches back to the topic's first entry. The
        file is not changed.
        Do: Restore the file from a copy, or put the older journals back, there or in the archive, and repair again.
        See: sowctl-store-repair(1)
        """,
    "SOW-STO-072": """8 a store whose last state cannot be read

        Why: The pages that lead to the state of the last transaction are damaged. The state before it is sound, but
        records that the last transaction deleted would come back with it, and no journal says which these are.
        Do: ``sowctl store repair --earlier`` takes that state; or restore the file from a copy.
        See: sowctl-store-repair(1)
        """,
    "SOW-STO-073": """8 a store whose owner cannot be told

        Why: The meta record, which says to which topic the store belongs, cannot be read, and the file was given by
        its path.
        Do: Name the topic instead of the file, with the configuration that has it.
        See: sowctl-store-repair(1)
        """,
}
