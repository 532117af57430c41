"""The transaction log (``sow-journal(5)``)."""
