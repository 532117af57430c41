"""The texts of SOW-QUE: queues. See :mod:`sowctl.codes`."""

CODES = {
    "SOW-QUE-001": """10 no such queue

        Why: The name is that of no Queue, LocalQueue or GroupLocalQueue of the configuration.
        Do: ``sowctl queue list`` lists the queues.
        """,
    "SOW-QUE-002": """5 a damaged state file of a queue

        Why: The file that says which messages are pending and leased has bytes that were not written so. Payloads and
        acknowledgements are in the journal; leases and the counters of deliveries are in this file alone.
        Do: Stop the workers and remove the file. It is made anew from the journal, and what was leased is delivered
        again.
        See: sow-queue(5)
        """,
    "SOW-QUE-003": """9 a state file of a newer release

        Why: The file was written in a format of queues that this release does not know.
        Do: Use the release that wrote it, or a later one.
        See: sow-queue(5)
        """,
    "SOW-QUE-010": """11 a queue in use

        Why: Another process changes the state of the queue, for longer than --lock-wait; it may be stopped.
        Do: Find out what the process does that the error names, or wait longer.
        """,
    "SOW-QUE-011": """2 no handle of a message

        Why: Acknowledgements name messages by their bookmarks, each alone or with the token of its lease.
        Do: Hand over lines as ``sowctl queue lease`` prints them, or bookmarks, one a line.
        """,
    "SOW-QUE-012": """2 no command to run

        Why: A worker runs a command for each message, and none was given.
        Do: Write it last, behind ``--``: ``sowctl queue run NAME -- COMMAND ARGUMENT...``.
        """,
    "SOW-QUE-013": """10 a command that cannot be started

        Why: The operating system could not start the worker's command: there is no such file, or it may not be run.
        Nothing was processed. Messages that were leased for it went back untouched, unless the queue delivers at most
        once.
        Do: Try the command by itself.
        """,
    "SOW-QUE-014": """2 no past of a queue

        Why: A queue's leases are not kept, so what was in it at an earlier time is not known.
        Do: Query the underlying topic as of that time, or look at the journal's acknowledgements.
        """,
    "SOW-QUE-015": """1 leases that were over

        Why: A block of Python that had leased messages took longer than LeasePeriod, or the state of the queue was
        lost meanwhile. The messages were not acknowledged and are delivered again; another client may have them by now.
        Do: Make LeasePeriod longer than the work on a batch, lease fewer at once, or renew the leases in the block.
        """,
    "SOW-QUE-016": """2 a dead-letter topic that the queue reads

        Why: --dead-letter names a topic whose messages come into the same queue: each dead message would come back as a
        new one, for ever.
        Do: Name a topic of its own, which UnderlyingTopic does not match.
        """,
    "SOW-QUE-020": """5 a state that is not that of the journal

        Why: ``sowctl check`` compared the state of a queue with itself and with the journal: a message is missing, is
        there although it was acknowledged, or an index or a counter is wrong.
        Do: Stop the workers and remove the state file: it is made anew from the journal. Where it is a warning, the
        file knows of entries that the journal has no more: they were cut out of it, and the file is to be kept; or they
        were read before they were synced, and the next change makes the state anew.
        See: sow-queue(5)
        """,
}
