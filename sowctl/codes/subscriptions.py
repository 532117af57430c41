"""Codes of subscriptions."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-FOL-001": """10 entries were removed before they were read

        Why: The subscription resumes after a txid, but journal files with later entries have been removed, before it
        started or while it was running.
        Do: Start again with the current state, or at the first txid in the message; the entries before it are missing.
        Keep journals for as long as the slowest subscriber needs them.
        """,
    "SOW-FOL-002": """5 journal was replaced during the subscription

        Why: The journal was restored to an earlier state, or replaced by another journal: it does not have the entries
        that were delivered.
        Do: Start again without a bookmark, with the current state.
        See: sow-journal(5)
        """,
    "SOW-FOL-003": """2 subscription to a file

        Why: The target is a store file. Changes of its topic are in the journal, which only a configuration names.
        Do: Name the topic, and the configuration with ``--config``.
        See: sowctl-subscribe(1)
        """,
    "SOW-FOL-004": """2 option requires a topic with a SOW

        Why: Out-of-focus messages, deltas and pages require records, but the topic has only messages.
        Do: Remove the option, or give the topic a SOW.
        """,
    "SOW-FOL-005": """2 page of several topics

        Why: ``--top-n`` with ``--skip-n`` subscribes to a page of one ordered result, which must be that of one topic.
        Do: Name a single topic.
        """,
    "SOW-FOL-006": """2 invalid control line

        Why: A line on standard input is not a JSON object with a known command. The line is ignored, and the
        subscription continues unchanged.
        Do: Write ``{"command":"replace","filter":...,"options":...,"topic":...}``, or pause, resume or stop.
        See: sowctl-subscribe(1)
        """,
    "SOW-FOL-007": """2 unknown option or value of a subscription

        Why: The option text has an unknown name, or an invalid value.
        Do: Correct the name or the value; the error lists the valid ones.
        See: sowctl-subscribe(1)
        """,
    "SOW-FOL-008": """2 incomplete replacement of a page

        Why: A control line that replaces a subscription with an order or a page must give all options of the page
        again, changed or unchanged.
        Do: Give ``top_n``, ``skip_n`` and ``orderby`` in the options of the line, if the subscription has them.
        See: sowctl-behaviour(7)
        """,
    "SOW-FOL-009": """2 page of another topic

        Why: The topic of a page cannot be replaced.
        Do: End the subscription and start another.
        See: sowctl-behaviour(7)
        """,
    "SOW-FOL-010": """2 invalid conflation key

        Why: Messages are conflated by SOW keys, or by fields of the topic's messages; with ``--oof`` or ``--delta``,
        these must be the fields of its Key. A ``--select`` list must include them.
        Do: Add or remove ``--conflation-key``, as the error says.
        See: sowctl-behaviour(7)
        """,
    "SOW-FOL-012": """2 order of groups

        Why: An aggregated subscription prints each group as it changes; groups have no order and no pages.
        Do: Remove ``--order-by``, ``--top-n`` and ``--skip-n``.
        See: sow-events(5)
        """,
    "SOW-FOL-020": """2 invalid rate

        Why: A rate is a number of messages per second, a size with a unit, or a number with X, a multiple of the
        recorded rate.
        Do: Write it as 1000, 500KB, 2X or .5X.
        See: sowctl-subscribe(1)
        """,
    "SOW-FOL-021": """8 replay of a topic without a journal

        Why: A bookmark is a position in the journal, but the TransactionLog does not include the topic, so its messages
        cannot be replayed.
        Do: Subscribe without a bookmark, or add the topic to the TransactionLog. For past states of a view or
        conflated topic, use ``query --at``.
        """,
    "SOW-FOL-022": """2 recent without a bookmark store

        Why: ``recent`` is the position of the subscription in its bookmark store, but no store was given.
        Do: Give the bookmark store, or a bookmark.
        See: sowctl-subscribe(1)
        """,
    "SOW-FOL-023": """2 unknown policy for unknown bookmarks

        Why: For a bookmark that is not in the journals, a subscription fails, or starts at their beginning or end. The
        word is none of these policies.
        Do: Use ``fail``, ``epoch`` or ``now``.
        See: sowctl-subscribe(1)
        """,
    "SOW-FOL-024": """2 option not supported in a replay

        Why: A replay delivers messages of the journal without records, so it does not support out-of-focus messages,
        deltas and groups. A rate, a policy for unknown bookmarks, and ``top_n`` without records apply only to a replay:
        they require a bookmark, and ``top_n`` one in the past.
        Do: Remove or add the option that the error names.
        See: sowctl-behaviour(7)
        """,
    "SOW-FOL-025": """2 replacement during a replay

        Why: Replacing a subscription delivers the differences between two current results, but the replay has not
        reached the current state yet.
        Do: Wait for the event ``completed``.
        See: sow-events(5)
        """,
    "SOW-FOL-026": """2 number is too small

        Why: An option of a subscription is below its minimum, such as a maximum of 0 messages, is negative, or is not
        a number.
        Do: Remove the option, or use at least the minimum in the error.
        """,
    "SOW-FOL-027": """2 line is too long

        Why: Standard input of a subscription has control lines and bookmarks, one per line. A line of this length is
        neither. It is skipped up to the next line break, and the subscription continues.
        Do: Check the program that writes to standard input.
        See: sowctl-subscribe(1)
        """,
    "SOW-FOL-028": """2 out-of-focus messages of a queue

        Why: Out-of-focus messages apply to records of topics, views and conflated topics. A message leaves a queue
        when it is acknowledged or becomes a dead letter.
        Do: Remove ``--oof``.
        See: sowctl-queue-info(1)
        """,
}
