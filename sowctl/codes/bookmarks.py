"""Codes of bookmark stores."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-BKM-001": """10 no bookmark store

        Why: The text is no topic of the configuration and no file. A new file is only made where its name says what it
        is, and by what stores a place.
        Do: Name a topic with the Keys /clientName and /subId, or a file with the ending .bookmarks; the error suggests
        names that are near.
        """,
    "SOW-BKM-002": """5 a damaged bookmark store

        Why: The file is of another kind, or bytes in it are not what was written. An interrupted write at its end is
        no damage: it is cut off.
        Do: Restore the file from a copy. Without one, move it aside and set the places of the subscriptions anew.
        See: sow-bookmark(5)
        """,
    "SOW-BKM-003": """6 a bookmark store that cannot be used

        Why: The operating system refused to read or write the file. What was stored before is still there; what was
        processed since comes again.
        Do: Make room, or give permission on the file and its directory.
        See: sow-bookmark(5)
        """,
    "SOW-BKM-004": """9 a bookmark store of a newer format

        Why: A later release wrote the file, and this one cannot tell what it means.
        Do: Use that release.
        See: sow-bookmark(5)
        """,
    "SOW-BKM-005": """2 a topic that is no bookmark store

        Why: A row of a bookmark store is found by client and subscription id, so the topic needs the Keys /clientName
        and /subId, and a message type whose fields can be written.
        Do: Name another topic, or configure this one so.
        """,
    "SOW-BKM-006": """2 no client or no subscription id

        Why: A place belongs to one subscription of one client; without both names nothing could find it again.
        Do: Give both.
        """,
    "SOW-BKM-007": """2 no place to store

        Why: The text names no place that a subscription could go on from: it is what the store has already, or, for
        going back, a range.
        Do: Give a time, a bookmark or a txid.
        """,
    "SOW-BKM-008": """8 going back would go forward

        Why: A subscription has not come as far as the place that was named. Messages between would never be delivered.
        Do: Name an earlier place, or take it forward on purpose with ``sowctl bookmark set``.
        """,
    "SOW-BKM-009": """2 a bookmark store that is followed itself

        Why: Every place that is stored in a topic is a message, so that a subscription to this topic that stores its
        place there would never come to rest.
        Do: Keep its place in another topic, or in a file.
        """,
    "SOW-BKM-010": """11 a place that another run has

        Why: A subscription of the same client with the same id is under way and moves the place on. Two of them would
        tell everything twice, and store one place over the other.
        Do: End the other run, which the error names, or give this one a ``--sub-id`` of its own. Without ``--commit`` a
        place is read and not locked.
        See: sow-bookmark(5)
        """,
    "SOW-BKM-012": """6 a list of bookmark stores that cannot be read

        Why: The file beside the journal that lists the bookmark stores of its subscriptions cannot be read. What these
        still need is not known, so that nothing is removed.
        Do: Correct the permissions of the file.
        See: sow-bookmark(5)
        """,
}
