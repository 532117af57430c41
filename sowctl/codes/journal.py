"""Codes of the transaction log: its files, blocks and entries, and the file of topics beside them."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-JRN-001": """10 no journal

        Why: The directory has no journal file of this instance: nothing has been written to the journal, the
        directory or the instance name is wrong, or all files were lost. In the last case, the topics file has
        the last txid, and reads that require the journal fail with SOW-JRN-013.
        Do: Publish messages, or correct JournalDirectory or the Name of the instance; restore lost files, or
        restore a backup.
        """,
    "SOW-JRN-002": """5 not a journal file

        Why: The file has the name of a journal file but not its header. It was overwritten, or never was one.
        Do: Restore the file from a copy.
        """,
    "SOW-JRN-003": """9 journal of a newer format

        Why: The file was written by a later release, in a format that this release does not support.
        Do: Use that release, or a later one.
        """,
    "SOW-JRN-004": """5 damaged header of a journal file

        Why: The checksum of the file header, or of the checkpoint after it, does not match, or its content is
        invalid. The following blocks may be intact.
        Do: Restore the file from a copy; ``sowctl check`` reports what is readable.
        """,
    "SOW-JRN-005": """5 file of another journal

        Why: The number or the lineage in the file differs from what its position requires: files of two
        journals are in one directory, or a file was renamed.
        Do: Keep only the files of one journal in the directory; give a renamed file its original name.
        """,
    "SOW-JRN-006": """5 missing journal file

        Why: There are files before and after this number, but it is neither in the directory nor in the
        archive. Without it, its entries are lost.
        Do: Restore the file, compressed or not.
        """,
    "SOW-JRN-010": """5 damaged block

        Why: The checksum of a block does not match. The message has its txids if its header is readable;
        entries before and after it are intact.
        Do: Restore the file from a copy; ``sowctl check`` shows what else is affected. Without a copy, ``sowctl
        journal repair`` cuts out the unreadable part and lists what is lost.
        """,
    "SOW-JRN-011": """5 missing txids

        Why: Txids must be consecutive, but some are missing: the end of a file was lost, or a part was cut out.
        Do: Restore the file from a copy.
        """,
    "SOW-JRN-012": """5 unfinished group in an earlier file

        Why: A file ends within a group of entries that become visible together, but is not the last file. Only
        the last file can end this way, after a crash.
        Do: Restore the file from a copy.
        """,
    "SOW-JRN-013": """5 lost end of the journal

        Why: According to stores, queue states or the topics file, acknowledged entries are missing from the
        journal. Assigning their txids to new entries would mix two histories.
        Do: Restore the end from a copy. To continue without it, see 'Accepting a loss' in sow-journal(5).
        """,
    "SOW-JRN-014": """5 inconsistent journal with valid checksums

        Why: A block does not match its lists of topics and publishers, or a checkpoint does not match the files
        before it. A crash cannot cause this.
        Do: Restore the file from a copy, and report it, because it may be a bug of the writer.
        """,
    "SOW-JRN-015": """2 invalid instance name for file names

        Why: Journal files are named after the instance, but its name has a slash, begins with a dot, or is too
        long.
        Do: Give the instance another Name.
        """,
    "SOW-JRN-016": """7 message too large for the journal

        Why: The message exceeds the maximum block size.
        Do: Split the message, or store it elsewhere and publish a reference.
        """,
    "SOW-JRN-020": """6 journal cannot be read

        Why: The operating system could not open or read a journal file.
        Do: Check the permissions and the disk.
        """,
    "SOW-JRN-021": """6 journal cannot be written

        Why: The operating system could not create, write or sync a journal file: full disk, quota or
        permissions. If entries were being appended, the message has the last txid on disk; no entry after it
        was acknowledged.
        Do: Free space, or correct the permissions. Then publish the rest of the input, from where the command
        says; if it reports no message as durable, run it again. Messages with a client and sequence numbers are
        never published twice.
        """,
    "SOW-JRN-022": """6 writer stopped after an error

        Why: An earlier write of this process failed. The state of the file since then is unknown, so this
        writer refuses further writes.
        Do: Open the journal again, in a program with a new instance; the first error has the cause.
        """,
    "SOW-JRN-030": """11 journal is locked

        Why: Another process is writing to the journal, and did not finish within ``--lock-wait``.
        Do: Wait for it, or increase ``--lock-wait``. The message names the process if it is known.
        """,
    "SOW-JRN-040": """0 torn end

        Why: The last file ends within a block, as after a crash while writing. The incomplete block was never
        acknowledged. This is a warning.
        Do: The next command that writes saves the torn bytes and cuts them off.
        """,
    "SOW-JRN-041": """0 unfinished group

        Why: The last file ends within a group of entries that become visible together. None of them was
        acknowledged. This is a warning.
        Do: The next command that writes closes the group as aborted.
        """,
    "SOW-JRN-042": """5 timestamps out of order

        Why: An entry has an earlier timestamp than the previous entry of its topic. Past states and expirations
        require ascending timestamps within a topic.
        Do: Restore the file from a copy, and report it, because publish never writes such an entry.
        """,
    "SOW-JRN-043": """0 unusable topics file

        Why: The topics file, which has the synced position of the journal, is unreadable or belongs to another
        journal. It is derived data; nothing else is affected.
        Do: No action is needed: the next writer rewrites it.
        """,
    "SOW-JRN-044": """5 topics file contradicts the journal

        Why: The topics file is for the same block as the end of the journal, but lists other positions or
        publishers.
        Do: Remove the topics file; the next writer rebuilds it from the journal.
        """,
    "SOW-JRN-050": """5 compressed journal file cannot be decompressed

        Why: The compressed file is truncated or was changed.
        Do: Restore it from a copy, compressed or not.
        """,
    "SOW-JRN-051": """5 conflicting journal files

        Why: A journal file exists both in the directory and in the archive, or both compressed and
        uncompressed, with different content. It is unknown which one is right.
        Do: Move the file away that does not belong to this journal.
        """,
    "SOW-JRN-052": """8 torn end cannot be cut

        Why: The last file ends within a block or a group, but is compressed or archived, where files are never
        changed.
        Do: Move the file back to the journal directory, uncompressed.
        """,
    "SOW-JRN-053": """6 topics file not readable

        Why: The topics file can prove that acknowledged entries are missing. Publishing without it could assign
        their txids again.
        Do: Grant read permission on the file, as for the journal files.
        """,
    "SOW-JRN-054": """5 two histories in one journal

        Why: Every block and file has the checksum of the previous block. Here, that of another block was found:
        two copies of a journal were continued separately, and a part of one follows a part of the other.
        Do: Restore all files of one of the two, with its stores. ``sowctl check`` reports the position.
        See: sow-journal(5)
        """,
    "SOW-JRN-060": """11 journal maintenance is locked

        Why: Another process is moving, compressing, removing or repairing files of this journal, and did not
        finish within ``--lock-wait``. Publishing and reading are not affected.
        Do: Wait for it, or increase ``--lock-wait``. The message names the process if it is known.
        """,
    "SOW-JRN-061": """6 journal file cannot be moved

        Why: A step of moving the file to the archive failed: full disk, missing permission, or the copy differs
        from the original. The file is complete in at least one of the two places.
        Do: Free space or correct the permissions, and run the command again: it continues where it stopped.
        """,
    "SOW-JRN-062": """6 journal file cannot be removed

        Why: The operating system could not remove the file. Earlier files were removed; this one and later ones
        are intact.
        Do: Correct the permissions of the directory, and run the command again.
        """,
    "SOW-JRN-063": """10 journal file removed while in use

        Why: Another process removed the oldest files of the journal while this one was reading them.
        Do: Run the command again; it starts at the first remaining txid, which is in the message.
        """,
    "SOW-JRN-070": """6 journal file cannot be compressed

        Why: A step of compressing the file failed: full disk, missing permission, or the written data differs.
        The file exists uncompressed, compressed, or both.
        Do: Free space or correct the permissions, and run the command again: it continues where it stopped.
        """,
    "SOW-JRN-071": """0 entries that were cut out

        Why: A part of the journal was damaged, and ``sowctl journal repair`` replaced it by a gap. The entries
        with these txids are lost, unless a store has applied them.
        Do: No action is needed. The receipt file beside the journal file has the original bytes.
        See: sowctl-journal-repair(1)
        """,
    "SOW-JRN-072": """6 journal file cannot be repaired

        Why: A step of the repair failed: full disk, missing permission, or the written data differs. The file
        is either unchanged or repaired.
        Do: Free space or correct the permissions, and run the command again.
        See: sowctl-journal-repair(1)
        """,
    "SOW-JRN-080": """5 damaged manifest

        Why: The manifest of an archive is truncated or was changed: its checksum does not match, segments are
        missing, or a segment does not follow the previous one. The segments may be intact.
        Do: Restore a copy of the manifest; object stores often keep previous versions. Or remove it and run
        ``sowctl journal archive --to`` while the files are still in the journal directory.
        See: sow-archive(5)
        """,
    "SOW-JRN-081": """10 no archive at the URL

        Why: There is no manifest of a journal of this instance at the URL.
        Do: Check the URL and the name of the instance. ``sowctl journal archive --to`` creates an archive.
        See: sow-archive(5)
        """,
    "SOW-JRN-082": """9 manifest of a newer version

        Why: The manifest was written by a later release.
        Do: Use that release, or a later one.
        See: sow-archive(5)
        """,
    "SOW-JRN-083": """5 missing segment

        Why: The manifest lists a file that does not exist: it was removed, or not copied with the archive.
        Do: Restore it, or run ``sowctl journal archive --to URL --verify`` where its journal file still exists.
        See: sow-archive(5)
        """,
    "SOW-JRN-084": """5 segment mismatch

        Why: The size or digest of the file differs from the manifest: it was replaced, truncated or damaged. Or
        a Spark task found an archive with other entries than when it was planned, because the archive was
        recreated meanwhile.
        Do: In the latter case, run the query or job again. Otherwise restore the file, or run
        ``sowctl journal archive --to URL --verify`` where its journal file still exists.
        See: sow-archive(5)
        """,
    "SOW-JRN-085": """8 archive of another journal

        Why: The archive at this URL has other files with the same numbers, or ends before files that no longer
        exist here. Adding to it would make it unreadable. The same is true of an archive in the directory in
        which the files of the journal itself are compressed and removed.
        Do: Use another URL. If files were pruned before they were archived, keep both archives.
        See: sow-archive(5)
        """,
    "SOW-JRN-086": """5 gap between archive and journal

        Why: The archive ends before the oldest file in the journal directory, and the files between are in
        neither: they were pruned before they were uploaded. Nothing is read, because their entries would be
        missing.
        Do: Restore the files and upload them with ``sowctl journal archive --to URL``. If ``--archive`` names a
        URL, a local JournalArchiveDirectory is not searched: upload its files, too. To read only the archive at
        the URL, name it with ``--journal``.
        See: sow-archive(5)
        """,
    "SOW-JRN-087": """5 archive does not continue here

        Why: The files at the URL are not the beginning of this journal: they belong to another journal, or to a
        copy that was continued separately. Lineage, txids or the checksum of the last block in the manifest do
        not match.
        Do: Check the URL, and the JournalArchiveDirectory.
        See: sow-archive(5)
        """,
}
