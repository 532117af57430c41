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
}
