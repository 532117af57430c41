"""Codes of bookmark stores."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-BKM-001": """10 bookmark store not found

        Why: The name is neither a topic of the configuration nor a file. A new file is created only if its name ends
        with .bookmarks, and only by commands that store a position.
        Do: Name a topic with the Keys /clientName and /subId, or a file that ends with .bookmarks; the error suggests
        similar names.
        """,
    "SOW-BKM-002": """5 damaged bookmark store

        Why: The file is of another kind, or its bytes were changed. An interrupted write at the end is not damage: it
        is cut off.
        Do: Restore the file from a copy. Without a copy, move it away and set the positions of the subscriptions again.
        See: sow-bookmark(5)
        """,
    "SOW-BKM-003": """6 bookmark store cannot be read or written

        Why: The operating system could not read or write the file. Positions stored earlier are intact; messages
        processed since then are delivered again.
        Do: Free space, or grant permission on the file and its directory.
        See: sow-bookmark(5)
        """,
    "SOW-BKM-004": """9 bookmark store of a newer format

        Why: The file was written by a later release, in a format that this release does not support.
        Do: Use that release, or a later one.
        See: sow-bookmark(5)
        """,
    "SOW-BKM-005": """2 topic cannot be a bookmark store

        Why: Positions are stored by client and subscription id, so the topic needs the Keys /clientName and /subId, and
        a message type with fields that can be written.
        Do: Name another topic, or configure this topic accordingly.
        """,
    "SOW-BKM-006": """2 missing client or subscription id

        Why: A position belongs to one subscription of one client, so both names are required.
        Do: Give both.
        """,
    "SOW-BKM-007": """2 invalid position to store

        Why: The text is not a position from which a subscription can resume: it is ``recent``, which is the stored
        position itself, or, for going back, a range.
        Do: Give a time, a bookmark or a txid.
        """,
    "SOW-BKM-008": """8 new position is later than the stored one

        Why: The subscription has not reached the given position. The messages before it would never be delivered.
        Do: Give an earlier position, or set the later one intentionally with ``sowctl bookmark set``.
        """,
    "SOW-BKM-009": """2 subscription to its own bookmark store

        Why: Each stored position is a message of the topic, so a subscription to the topic that stores its position in
        it would receive its own positions forever.
        Do: Store the position in another topic, or in a file.
        """,
    "SOW-BKM-010": """11 position is in use by another run

        Why: A subscription with the same client and subscription id is running and stores its position. Two of them
        would deliver all messages twice, and overwrite each other's position.
        Do: End the other run, which the error names, or give this run its own ``--sub-id``. Without ``--commit``, the
        position is read but not locked.
        See: sow-bookmark(5)
        """,
    "SOW-BKM-012": """6 list of bookmark stores cannot be read

        Why: The file beside the journal that lists the bookmark stores of its subscriptions cannot be read. Because
        their positions are unknown, no journal file is removed.
        Do: Correct the permissions of the file.
        See: sow-bookmark(5)
        """,
}
