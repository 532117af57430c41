"""The texts of SOW-UPK: looking after files. See :mod:`sowctl.codes`."""

CODES = {
    "SOW-UPK-001": """4 no archive for the journal

        Why: The TransactionLog has no JournalArchiveDirectory, or it is the JournalDirectory: there is nowhere to move
        files to where readers would find them.
        Do: Give it a JournalArchiveDirectory, best on another device.
        """,
}
