"""Codes of subscriptions."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-FOL-001": """10 entries that were removed before they were read

        Why: The subscription goes on behind a txid, and journal files with entries behind it have been removed
        meanwhile, or were removed before it began.
        Do: Begin again with the present state, or at the first txid that the error names, knowing that what lies
        between is missing; keep journals for as long as the slowest subscriber needs them.
        """,
    "SOW-FOL-002": """5 a journal that is not the one that was followed

        Why: The journal was put back to an earlier state, or another one has begun in its place: it does not hold what
        was delivered.
        Do: Begin again without a bookmark, from the present state.
        See: sow-journal(5)
        """,
    "SOW-FOL-003": """2 a file cannot be followed

        Why: The target is a store file. What happens to its topic stands in the journal, which only a configuration
        names.
        Do: Name the topic, and the configuration with ``--config``.
        See: sowctl-subscribe(1)
        """,
    "SOW-FOL-004": """2 records are asked for of a topic without a SOW

        Why: What leaves a result, what has changed of a record, and pages are about records, and this topic only has
        messages.
        Do: Leave the option out, or give the topic a SOW.
        """,
    "SOW-FOL-005": """2 a page of several topics

        Why: ``--top-n`` with ``--skip-n`` follows a page of one ordered result, which is that of one topic.
        Do: Name the topic itself.
        """,
    "SOW-FOL-006": """2 a control line that cannot be read

        Why: A line on standard input is no JSON object with a known command; the subscription goes on as it was.
        Do: Write ``{"command":"replace","filter":...,"options":...,"topic":...}``, or pause, resume or stop.
        See: sowctl-subscribe(1)
        """,
    "SOW-FOL-007": """2 an option that subscriptions do not have

        Why: The option text names something unknown, or a value that the option does not take.
        Do: Correct the name or the value; the error says what is known.
        See: sowctl-subscribe(1)
        """,
    "SOW-FOL-008": """2 a page that is replaced in part

        Why: A subscription with an order or a page is replaced by a control line, and what makes the page has to be
        given again, changed or not.
        Do: Name top_n, skip_n and orderby in the options of the line, as far as the subscription has them.
        See: sowctl-behaviour(7)
        """,
    "SOW-FOL-009": """2 another topic for a page

        Why: The topic of a page cannot be replaced.
        Do: End the subscription and begin another.
        See: sowctl-behaviour(7)
        """,
    "SOW-FOL-010": """2 messages that cannot be conflated so

        Why: Messages are conflated by SOW keys, or by fields that the topic's messages have; with ``--oof`` or
        ``--delta`` these are the fields of its Key. A ``--select`` list must leave them.
        Do: Give or leave out ``--conflation-key``, as the error says.
        See: sowctl-behaviour(7)
        """,
    "SOW-FOL-012": """2 an order of groups

        Why: An aggregated subscription tells each group as it changes; groups have no order, and no pages.
        Do: Leave out ``--order-by``, ``--top-n`` and ``--skip-n``.
        See: sow-events(5)
        """,
    "SOW-FOL-020": """2 no rate

        Why: A rate is a number of messages a second, a size with its unit, or a number with X for the recorded pace.
        Do: Write it as 1000, 500KB, 2X or .5X.
        See: sowctl-subscribe(1)
        """,
    "SOW-FOL-021": """8 a replay of a topic without a journal

        Why: A bookmark is a place in the journal, and the TransactionLog does not name the topic, so that nothing could
        be replayed.
        Do: Subscribe without a bookmark, or give the topic a place in the TransactionLog; of a view or a conflated
        topic, ``query --at`` shows what it was.
        """,
    "SOW-FOL-022": """2 a place in a store that is not named

        Why: ``recent`` is where a subscription stands in its bookmark store, and no store was given.
        Do: Name the store, or a bookmark.
        See: sowctl-subscribe(1)
        """,
    "SOW-FOL-023": """2 no policy for unknown bookmarks

        Why: A bookmark that the journals do not hold is an error, or begins at their beginning or end; this word is
        none of that.
        Do: Use ``fail``, ``epoch`` or ``now``.
        See: sowctl-subscribe(1)
        """,
    "SOW-FOL-024": """2 a replay that cannot be

        Why: Of the log, publishes alone are replayed: nothing leaves a result there, and no record is known whose
        fields could be compared or grouped. A rate, a policy, and top_n without records are about a replay, and so need
        a bookmark, and for top_n one of the past.
        Do: Leave out what the error names, or add what it lacks.
        See: sowctl-behaviour(7)
        """,
    "SOW-FOL-025": """2 a replay that is replaced

        Why: What a subscription tells that is replaced is what changes between two results of one instant, and a replay
        is not at the present one yet.
        Do: Wait for the event ``completed``.
        See: sow-events(5)
        """,
    "SOW-FOL-026": """2 a number that is too small

        Why: An option of a subscription has a number that it cannot have, such as ``most`` of 0, which would end before
        it has begun, or a time that is negative or no number.
        Do: Leave the option out, or give the least that the error names, or more.
        """,
    "SOW-FOL-027": """2 a line that is too long

        Why: What comes on standard input of a subscription are control lines and bookmarks, one a line. So many bytes
        without a line break are neither; they are left out up to the next break, and the subscription goes on.
        Do: See what writes to its standard input.
        See: sowctl-subscribe(1)
        """,
    "SOW-FOL-028": """2 what leaves a queue

        Why: Out-of-focus messages are about records of topics, views and conflated topics. A message leaves a queue
        when it was processed, or was given up.
        Do: Leave out ``--oof``.
        See: sowctl-queue-info(1)
        """,
}
