"""Codes of the transaction log: its files, blocks and entries, and the file of topics beside them."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-JRN-001": """10 no journal here

        Why: The directory has no journal file of this instance: nothing was ever journalled, the directory or the
        instance's name is another one, or all files were lost: then the topics file tells up to which txid they went,
        and what is answered from the journal alone ends with SOW-JRN-013.
        Do: Publish something, or correct JournalDirectory or the instance's Name; put lost files back, or restore a
        backup.
        """,
    "SOW-JRN-002": """5 no journal file

        Why: The file has a journal file's name, and its first bytes are not those of one. It was overwritten, or
        never was one.
        Do: Restore the file from a copy.
        """,
    "SOW-JRN-003": """9 a journal of a newer format

        Why: A later release wrote the file in a format that this one does not know.
        Do: Use that release, or a later one.
        """,
    "SOW-JRN-004": """5 a damaged beginning of a journal file

        Why: The header of the file, or the checkpoint behind it, does not have its checksum or makes no sense. The
        blocks behind it may be sound.
        Do: Restore the file from a copy; ``sowctl check`` says what of it can be read.
        """,
    "SOW-JRN-005": """5 a file of another journal

        Why: The file names another number or another lineage than its place in the row: files of two journals lie in
        one directory, or one was renamed.
        Do: Put together the files of one journal; give a renamed file its own name back.
        """,
    "SOW-JRN-006": """5 a missing journal file

        Why: There are files before and behind this number, and it is in neither the directory nor the archive. The
        entries in it are lost without it.
        Do: Restore the file, compressed or not.
        """,
    "SOW-JRN-010": """5 a damaged block

        Why: The bytes of a block do not have its checksum. Its txids are named where its header can be read; entries
        before and behind it are sound.
        Do: Restore the file from a copy; ``sowctl check`` shows what else is affected. Without a copy
        ``sowctl journal repair`` cuts out what cannot be read, and names what is lost.
        """,
    "SOW-JRN-011": """5 missing txids

        Why: Txids follow one another without gaps, and here some are left out: the end of a file was lost, or part of
        one was cut out.
        Do: Restore the file from a copy.
        """,
    "SOW-JRN-012": """5 a group without end in an earlier file

        Why: A file ends within a group of entries that are visible together, and later files follow. Only the last
        file may end so, after a crash.
        Do: Restore the file from a copy.
        """,
    "SOW-JRN-013": """5 a lost end of the journal

        Why: Entries that were acknowledged, as stores, states of queues or the topics file know, are not in the
        journal. Giving their txids to others would mix two pasts.
        Do: Restore the end from a copy. To go on without it see 'Accepting a loss' in sow-journal(5).
        """,
    "SOW-JRN-014": """5 a contradiction with good checksums

        Why: A block's contents and its lists of topics and publishers, or a checkpoint and the files before it, do
        not agree. No crash makes such a file.
        Do: Restore the file from a copy; report it, for it may be a bug of the writer.
        """,
    "SOW-JRN-015": """2 an instance name that cannot be part of a file name

        Why: Journal files are named after the instance, and this name has a slash, begins with a point, or is too
        long.
        Do: Give the instance another Name.
        """,
    "SOW-JRN-016": """7 a message too large for the journal

        Why: A block has a largest size, and one message must fit into it.
        Do: Split the message, or store it elsewhere and publish where it is.
        """,
    "SOW-JRN-020": """6 the journal cannot be read

        Why: The operating system refused to open or read a file of the journal.
        Do: Look at permissions and at the health of the disk.
        """,
    "SOW-JRN-021": """6 the journal cannot be written

        Why: The operating system refused to make, write or sync a file of the journal: a full disk, a quota, or
        permission. Where entries were being appended, the message says up to which txid all are on disk; none behind
        it was acknowledged.
        Do: Make room, or correct the permission. Then publish the rest of the input, which begins where the command
        says; where it counts no message as durable, run it again. Messages with a client and sequence numbers are not
        published twice in any case.
        """,
    "SOW-JRN-022": """6 a writer that stopped after an error

        Why: An earlier write of this process failed, and what the file holds since then is not known, so this writer
        writes no more.
        Do: Open the journal again, in a program with a new instance; the first error has the cause.
        """,
    "SOW-JRN-030": """11 the journal is locked

        Why: Another process is writing to the journal, and did not finish within ``--lock-wait``.
        Do: Wait for it, or raise ``--lock-wait``. The message names the process where that is known.
        """,
    "SOW-JRN-040": """0 a torn end

        Why: The last file ends within a block, as a crash while writing leaves it. What is torn was never
        acknowledged; it is a warning.
        Do: The next command that writes copies the torn bytes aside and cuts them off.
        """,
    "SOW-JRN-041": """0 a group that was not finished

        Why: The last file ends within a group of entries that were to become visible together. None of them was
        acknowledged; it is a warning.
        Do: The next command that writes closes the group as one that did not happen.
        """,
    "SOW-JRN-042": """5 times that go back

        Why: An entry has an earlier time than the entry of its topic before it. Past states and lifetimes depend on
        times that do not go back within a topic.
        Do: Restore the file from a copy; report it, for no publish writes such an entry.
        """,
    "SOW-JRN-043": """0 a topics file that is not used

        Why: The file that tells how far the journal had been synced cannot be read, or is of another journal. It is
        derived; nothing else is affected.
        Do: Nothing: the next writer writes it again.
        """,
    "SOW-JRN-044": """5 a topics file that contradicts the journal

        Why: The topics file stands at the same block as the journal and lists other positions or publishers.
        Do: Remove the topics file; the next writer makes it from the journal.
        """,
    "SOW-JRN-050": """5 a compressed journal file that cannot be unpacked

        Why: The compressed file is cut off or has been changed.
        Do: Restore it from a copy, compressed or not.
        """,
    "SOW-JRN-051": """5 two files of one number

        Why: A journal file lies in the directory and in the archive, or compressed and not, and the two are not the
        same. Which one is true cannot be told.
        Do: Move the one away that does not belong to this journal.
        """,
    "SOW-JRN-052": """8 a torn end that cannot be cut

        Why: The last file ends within a block or a group, and it is compressed or lies in the archive, where nothing
        is changed.
        Do: Put the file back into the journal's directory, not compressed.
        """,
    "SOW-JRN-053": """6 a topics file that may not be read

        Why: The topics file can prove that acknowledged entries are missing. Publishing without it could give their
        txids away.
        Do: Ask for read permission on it, as on the journal files.
        """,
    "SOW-JRN-054": """5 two histories in one journal

        Why: Every block and every file names the checksum of the block before it. Here it is that of another block: two
        copies of a journal went on separately, and a part of one came to lie behind a part of the other.
        Do: Restore all files of one of the two, and the stores that belong to it. ``sowctl check`` names the place.
        See: sow-journal(5)
        """,
    "SOW-JRN-060": """11 the upkeep of the journal is locked

        Why: Another process moves, compresses, removes or repairs files of this journal, and did not finish within
        ``--lock-wait``. Publishing and reading do not wait for it.
        Do: Wait for it, or raise ``--lock-wait``. The message names the process where that is known.
        """,
    "SOW-JRN-061": """6 a journal file that cannot be moved

        Why: The system refused a step of moving the file into the archive: the disk there is full, a permission is
        missing, or the copy read differently from the original. The file is whole in one of the two places, or in both.
        Do: Make room or correct the permissions, and run the command again: it goes on where it ended.
        """,
    "SOW-JRN-062": """6 a journal file that cannot be removed

        Why: The system refused to remove the file. Those before it are gone; it and those behind it are whole.
        Do: Correct the permissions of the directory, and run the command again.
        """,
    "SOW-JRN-063": """10 a journal file that was removed while it was needed

        Why: Another process removed the oldest files of the journal while this one was still reading them.
        Do: Run the command again; it begins with the first txid that is left, which the message names.
        """,
    "SOW-JRN-070": """6 a journal file that cannot be compressed

        Why: The system refused a step of compressing the file: the disk is full, a permission is missing, or what was
        written read differently. The file is there as it was, or compressed, or both.
        Do: Make room or correct the permissions, and run the command again: it goes on where it ended.
        """,
    "SOW-JRN-071": """0 entries that were cut out

        Why: A part of the journal was damaged, and ``sowctl journal repair`` put a gap in its place. The entries with
        these txids are lost, unless a store has applied them.
        Do: Nothing has to be done. The receipt beside the file has the bytes that stood there.
        See: sowctl-journal-repair(1)
        """,
    "SOW-JRN-072": """6 a journal file that cannot be mended

        Why: The system refused a step of the repair: the disk is full, a permission is missing, or what was written
        read differently. The file is as it was, or mended.
        Do: Make room or correct the permissions, and run the command again.
        See: sowctl-journal-repair(1)
        """,
    "SOW-JRN-080": """5 a damaged manifest

        Why: The manifest of an archive was cut or changed: its checksum is wrong, it lacks segments, or a segment does
        not follow the one before it. The segments may be sound.
        Do: Restore a copy of the manifest; object stores often keep former versions. Or remove it and run ``sowctl
        journal archive --to`` while the files are still in the journal's directory.
        See: sow-archive(5)
        """,
    "SOW-JRN-081": """10 no archive at a URL

        Why: There is no manifest of a journal of this instance at the URL.
        Do: Look at the URL, and at the name of the instance. ``sowctl journal archive --to`` makes an archive.
        See: sow-archive(5)
        """,
    "SOW-JRN-082": """9 a manifest of a later version

        Why: The manifest was written by a later release.
        Do: Use that release, or a later one.
        See: sow-archive(5)
        """,
    "SOW-JRN-083": """5 a segment that is missing

        Why: The manifest names a file that is not there: it was removed, or never copied where an archive was copied.
        Do: Restore it, or run ``sowctl journal archive --to URL --verify`` where its file still is.
        See: sow-archive(5)
        """,
    "SOW-JRN-084": """5 a segment that is another one

        Why: The file has another size or digest than the manifest says: it was replaced, cut or damaged. Or a task of
        Spark found an archive with other entries than its plan had seen: it was made anew at its URL meanwhile.
        Do: In the latter case run the query or job again. Else restore the file, or run ``sowctl journal archive --to
        URL --verify`` where its journal file still is.
        See: sow-archive(5)
        """,
    "SOW-JRN-085": """8 an archive of another journal

        Why: The archive at this URL holds other files under the same numbers, or ends before files that are no longer
        here. Adding to it would make an archive that no reader could read. So would an archive in the directory from
        which the journal's own files are compressed and removed.
        Do: Give another URL. Where files were pruned before they were archived, keep both archives.
        See: sow-archive(5)
        """,
    "SOW-JRN-086": """5 files between an archive and a journal

        Why: The archive ends before the oldest file of the journal's directory, and the files between lie in neither
        of the two: they were pruned before they were sent. Nothing is read, because their entries would be missing.
        Do: Put the files back and send them with ``sowctl journal archive --to URL``. A local JournalArchiveDirectory
        is not looked at where ``--archive`` names a URL: send its files, too. To read what lies at the URL by itself,
        name it as ``--journal``.
        See: sow-archive(5)
        """,
    "SOW-JRN-087": """5 an archive that does not go on here

        Why: The files at the URL are not the beginning of this journal: they are of another one, or of a copy that went
        on by itself. The manifest tells it by lineage, txids and the checksum of the last block.
        Do: Look at the URL, and at the JournalArchiveDirectory.
        See: sow-archive(5)
        """,
}
