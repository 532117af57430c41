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
}
