"""The texts of SOW-UPK: maintenance of files. See :mod:`sowctl.codes`."""

CODES = {
    "SOW-UPK-001": """4 no archive for the journal

        Why: The TransactionLog has no JournalArchiveDirectory, or it is the same as the JournalDirectory, so files
        cannot be moved to where readers would find them.
        Do: Configure a JournalArchiveDirectory, preferably on another device.
        """,
    "SOW-UPK-002": """2 exactly one retention rule required

        Why: The part of the journal to keep is given by exactly one of ``--keep-for``, ``--keep-size`` and
        ``--before``.
        Do: Give one of them; ``--dry-run`` shows what it would remove.
        """,
    "SOW-UPK-003": """10 bookmark store not found

        Why: The bookmark store does not exist. Because the positions of its subscriptions are unknown, nothing is
        removed.
        Do: Correct the name, or remove the option.
        """,
    "SOW-UPK-004": """6 file of action runs cannot be read or written

        Why: The operating system could not read or write the file with the times of the last runs. An action whose run
        was not recorded is due again.
        Do: Check the permissions and the disk, and run the command again.
        See: sow-upkeep(5)
        """,
    "SOW-UPK-005": """9 file of action runs has a newer format

        Why: The file with the times of the last runs was written by a later release.
        Do: Use that release, or a later one; or remove the file, which makes every action due.
        See: sow-upkeep(5)
        """,
    "SOW-UPK-006": """11 actions are running

        Why: Another process is running actions of this configuration, and did not finish within ``--lock-wait``.
        Do: Wait for it, or increase ``--lock-wait``. The message names the process if it is known.
        See: sow-upkeep(5)
        """,
    "SOW-UPK-007": """4 invalid option of an action

        Why: A schedule, age or percentage in the options of an action is invalid.
        Do: Correct it; ``sowctl validate`` shows all errors and their positions.
        See: sow-config(5)
        """,
    "SOW-UPK-008": """10 file system usage unknown

        Why: The Path of amps-action-if-file-system-usage does not exist, or is not accessible.
        Do: Correct the Path, which is relative to the same directory as other paths of the configuration.
        See: sow-config(5)
        """,
    "SOW-UPK-040": """1 condition does not change

        Why: ``journal bisect`` searches for the entry that makes a condition true, but the condition is already true at
        the start of the range, or still false at its end.
        Do: Give ``--since`` where it is false and ``--until`` where it is true. The message has the number of matching
        records.
        See: sowctl-journal-bisect(1)
        """,
    "SOW-UPK-041": """10 past states unknown

        Why: The topic has no journal, or its first entries were removed with older journal files, so its state at a
        txid cannot be computed.
        Do: Restore the older files, in the journal directory or the archive.
        See: sowctl-journal-bisect(1)
        """,
    "SOW-UPK-042": """2 invalid --count

        Why: ``--count`` is a comparison operator and an integer.
        Do: Write for example ``--count '> 0'`` or ``--count '= 12'``.
        See: sowctl-journal-bisect(1)
        """,
    "SOW-UPK-043": """2 topic required

        Why: ``journal bisect`` searches one topic, but the configuration has none or several in its journal.
        Do: Name it with ``--topic``.
        See: sowctl-journal-bisect(1)
        """,
    "SOW-UPK-044": """2 empty range

        Why: ``--since`` is not before ``--until``, or the range has no entry.
        Do: Use a larger range; ``sowctl journal dump`` shows txids and times.
        See: sowctl-journal-bisect(1)
        """,
}
