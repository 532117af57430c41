"""The texts of ``SOW-BAK``: backups and restoring them."""

from __future__ import annotations

CODES = {
    "SOW-BAK-001": """5 damaged backup

        Why: A file of the backup is missing, was changed, or does not match the digests in the manifest. During
        ``backup``: the copied files could not be read as the instance itself was.
        Do: Use another backup of the directory. If ``backup`` failed, ``sowctl check`` reports whether the instance is
        damaged.
        """,
    "SOW-BAK-002": """9 backup of a newer format

        Why: The backup was made by a later release.
        Do: Use that release, or a later one.
        """,
    "SOW-BAK-003": """6 backup cannot be written or read

        Why: The operating system reported an error: full disk, missing permission, or a failing disk. An incomplete
        backup has no name and is never used; the next run removes it.
        Do: Free space or correct the permissions, and run the command again.
        """,
    "SOW-BAK-004": """11 backup directory is locked

        Why: Another process is making or verifying a backup in the directory, and did not finish within
        ``--lock-wait``.
        Do: Wait for it, or increase ``--lock-wait``.
        """,
    "SOW-BAK-005": """10 backup not found

        Why: The directory has no backups, or none with this name.
        Do: ``sowctl backup DIR --list`` lists the backups.
        """,
    "SOW-BAK-006": """10 position not in any backup

        Why: The txid or time is after the end of the newest backup, or earlier than the journals and stores in the
        backups can restore.
        Do: ``sowctl backup DIR --list`` shows the txids of each backup.
        """,
    "SOW-BAK-007": """8 target directory is not empty

        Why: An instance is restored only into an empty or new directory; existing files are never overwritten.
        Do: Give another directory. Move the restored instance to the original place when no process uses the original
        one.
        """,
    "SOW-BAK-008": """8 topic would be empty in the restored instance

        Why: A group of journal entries is restored completely or not at all, and all messages of one run of ``sowctl
        publish`` may be one group. ``restore --at`` therefore cuts the journal before the first group that has an entry
        later than the time. All entries of a topic up to the time are in that group or a later one, so none of them
        would be restored.
        Do: Give ``--txid`` instead, as shown in the hint: it restores a complete group, including its later entries.
        For the state of one topic at that time, query the instance: ``sowctl query TOPIC --at TIME --meta``.
        ``--force`` restores without these entries.
        """,
    "SOW-BAK-009": """3 entries before the time were not restored

        Why: ``restore --at`` cuts the journal before the first group that has an entry later than the time. Earlier
        entries in that group, and in later groups, are not in the restored instance.
        Do: To restore them, use another directory and the ``--txid`` in the hint, which restores a complete group.
        """,
}
