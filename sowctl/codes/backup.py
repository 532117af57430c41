"""The texts of ``SOW-BAK``: backups and restoring them."""

from __future__ import annotations

CODES = {
    "SOW-BAK-001": """5 a damaged backup

        Why: A file of the backup is missing, was changed, or does not give the digests that its manifest says; or,
        while a backup was taken, what was copied did not read as the instance did.
        Do: Use another backup of the directory. While one is taken: ``sowctl check`` says whether the instance itself
        is damaged.
        """,
    "SOW-BAK-002": """9 a backup of a newer format

        Why: A later release made the backup.
        Do: Use that release, or a later one.
        """,
    "SOW-BAK-003": """6 a backup that cannot be written or read

        Why: The system refused a step: the disk is full, a permission is missing, or the disk fails. What was begun has
        no name yet and is not used; the next run removes it.
        Do: Make room or correct the permissions, and run the command again.
        """,
    "SOW-BAK-004": """11 the directory of backups is locked

        Why: Another process takes or verifies a backup there, and did not finish within ``--lock-wait``.
        Do: Wait for it, or raise ``--lock-wait``.
        """,
    "SOW-BAK-005": """10 no such backup

        Why: The directory holds no backup, or none of this name.
        Do: ``sowctl backup DIR --list`` shows what there is.
        """,
    "SOW-BAK-006": """10 no backup that holds the place

        Why: The txid or the time lies behind the end of the newest backup, or before what the journal and the stores in
        the backups can bring back.
        Do: ``sowctl backup DIR --list`` shows which txids each backup holds.
        """,
    "SOW-BAK-007": """8 a place that is taken

        Why: An instance is restored into a directory that is empty or not there, never over something.
        Do: Give another directory. Let the restored instance take the place of the former one when nothing uses that.
        """,
    "SOW-BAK-008": """8 a topic would be empty in the restored instance

        Why: A group of journal entries happens as a whole, and all messages of one run of ``sowctl publish`` may be one
        group. ``restore --at`` therefore cuts the journal before the first group that has an entry later than the time.
        All entries of a topic up to the time are in that group or behind it, so none of them would be restored.
        Do: Give ``--txid`` instead, as the hint says: it takes a group as a whole, with its later entries. For the
        state of one topic at the instant ask the instance itself: ``sowctl query TOPIC --at TIME --meta``. ``--force``
        restores without these entries.
        """,
    "SOW-BAK-009": """3 entries before the time were left out

        Why: ``restore --at`` cuts the journal before the first group that has an entry later than the time. Entries up
        to the time in that group, or behind it, are not in the restored instance.
        Do: Where they are wanted, restore into another directory with the ``--txid`` of the hint, which takes a group
        as a whole.
        """,
}
