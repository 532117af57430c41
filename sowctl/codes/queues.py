"""The texts of SOW-QUE: queues. See :mod:`sowctl.codes`."""

CODES = {
    "SOW-QUE-001": """10 queue not found

        Why: The configuration has no Queue, LocalQueue or GroupLocalQueue with this name.
        Do: ``sowctl queue list`` lists the queues.
        """,
    "SOW-QUE-002": """5 damaged queue state file

        Why: The file with the pending and leased messages was changed or is damaged. Payloads and acknowledgements are
        in the journal; only leases and delivery counts are in this file alone.
        Do: Stop the workers and remove the file. It is rebuilt from the journal, and leased messages are delivered
        again.
        See: sow-queue(5)
        """,
    "SOW-QUE-003": """9 queue state file of a newer format

        Why: The file was written by a later release, in a format that this release does not support.
        Do: Use that release, or a later one.
        See: sow-queue(5)
        """,
    "SOW-QUE-010": """11 queue is locked

        Why: Another process is changing the state of the queue, and did not finish within ``--lock-wait``; it may be
        suspended.
        Do: Check the process in the error, or increase ``--lock-wait``.
        """,
    "SOW-QUE-011": """2 invalid message handle

        Why: Messages are acknowledged by bookmark, alone or with the token of the lease.
        Do: Pass the lines that ``sowctl queue lease`` prints, or bookmarks, one per line.
        """,
    "SOW-QUE-012": """2 missing command for the worker

        Why: A worker runs a command for each message, but none was given.
        Do: Give the command last, after ``--``: ``sowctl queue run NAME -- COMMAND ARGUMENT...``.
        """,
    "SOW-QUE-013": """10 command cannot be started

        Why: The operating system could not start the worker's command: the file does not exist or is not executable.
        No message was processed. Leased messages were returned unchanged, unless the queue delivers at most once.
        Do: Run the command without ``queue run``.
        """,
    "SOW-QUE-014": """2 past state of a queue

        Why: Leases are not recorded, so the state of a queue at an earlier time is unknown.
        Do: Query the underlying topic at that time, or read the acknowledgements in the journal.
        """,
    "SOW-QUE-015": """1 leases expired

        Why: A Python block that leased messages took longer than LeasePeriod, or the state of the queue was lost
        meanwhile. The messages were not acknowledged and are delivered again; another client may have them already.
        Do: Use a LeasePeriod longer than the work on a batch, lease fewer messages at once, or renew the leases in the
        block.
        """,
    "SOW-QUE-016": """2 dead-letter topic feeds the same queue

        Why: Messages of the ``--dead-letter`` topic enter the same queue, so each dead letter would become a new
        message, forever.
        Do: Name a separate topic that UnderlyingTopic does not match.
        """,
    "SOW-QUE-020": """5 queue state differs from the journal

        Why: ``sowctl check`` compared the state of a queue with the journal: a message is missing, an acknowledged
        message is pending, or an index or counter is wrong.
        Do: Stop the workers and remove the state file: it is rebuilt from the journal. If the finding is a warning,
        keep the file: it has entries that are no longer in the journal, because a repair removed them, or because they
        were read before they were synced. In the latter case, the next change rebuilds the state.
        See: sow-queue(5)
        """,
}
