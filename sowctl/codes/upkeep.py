"""The texts of SOW-UPK: looking after files. See :mod:`sowctl.codes`."""

CODES = {
    "SOW-UPK-001": """4 no archive for the journal

        Why: The TransactionLog has no JournalArchiveDirectory, or it is the JournalDirectory: there is nowhere to move
        files to where readers would find them.
        Do: Give it a JournalArchiveDirectory, best on another device.
        """,
    "SOW-UPK-002": """2 a rule of retention that is missing, or one too many

        Why: What is to be kept of the journal is said by exactly one of ``--keep-for``, ``--keep-size`` and
        ``--before``.
        Do: Give one of them; ``--dry-run`` shows what it would remove.
        """,
    "SOW-UPK-003": """10 no such bookmark store

        Why: There is no file of this name. What its subscriptions still need is not known, so nothing is removed.
        Do: Correct the name, or leave it out.
        """,
    "SOW-UPK-004": """6 remembered actions that cannot be read or written

        Why: The system refused to read or write the file that says when actions last ran. Of an action that was carried
        out and not noted down nothing is known: it is due again.
        Do: Look at permissions and at the disk, and run the command again.
        See: sow-upkeep(5)
        """,
    "SOW-UPK-005": """9 remembered actions of a newer format

        Why: A later release wrote the file that says when actions last ran.
        Do: Use that release, or a later one; or remove the file: then every action is due.
        See: sow-upkeep(5)
        """,
    "SOW-UPK-006": """11 actions that are running

        Why: Another process carries out actions of this configuration, and did not finish within ``--lock-wait``.
        Do: Wait for it, or raise ``--lock-wait``. The message names the process where that is known.
        See: sow-upkeep(5)
        """,
    "SOW-UPK-007": """4 an option of an action that cannot be read

        Why: A schedule, an age or a percentage in the options of an action is none.
        Do: Correct it; ``sowctl validate`` shows all mistakes with their places.
        See: sow-config(5)
        """,
    "SOW-UPK-008": """10 a file system that cannot be asked

        Why: The Path of amps-action-if-file-system-usage is not there, or may not be looked at.
        Do: Correct the Path, which counts from where the paths of the configuration do.
        See: sow-config(5)
        """,
    "SOW-UPK-040": """1 a condition that does not change

        Why: ``journal bisect`` looks for the entry that makes a condition true, and it is true already where the
        search begins, or false where it ends.
        Do: Give ``--since`` where it is false and ``--until`` where it is true. The message says how many match.
        See: sowctl-journal-bisect(1)
        """,
    "SOW-UPK-041": """10 states that the journals cannot tell

        Why: The topic is not journalled, or older journal files are gone and with them the first entries of the topic,
        so that its state at a txid does not follow from what is left.
        Do: Put the older files back, or into the archive.
        See: sowctl-journal-bisect(1)
        """,
    "SOW-UPK-042": """2 no condition over a number

        Why: ``--count`` takes a comparison and a whole number.
        Do: Such as ``--count '> 0'``, ``--count '= 12'``.
        See: sowctl-journal-bisect(1)
        """,
    "SOW-UPK-043": """2 a topic that has to be named

        Why: ``journal bisect`` works on one topic, and the configuration has none or several in its journal.
        Do: Name it with ``--topic``.
        See: sowctl-journal-bisect(1)
        """,
    "SOW-UPK-044": """2 a search between places without an entry

        Why: ``--since`` does not lie before ``--until``, or no entry lies between them.
        Do: Choose places further apart; ``sowctl journal dump`` shows txids and times.
        See: sowctl-journal-bisect(1)
        """,
}
