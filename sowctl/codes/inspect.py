"""Codes of inspecting records: schemas, statistics, the browser."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-STA-001": """2 statistics of messages without fields

        Why: Messages of the topic are bytes without fields, so they have no values to count.
        Do: ``sowctl info`` prints the number and the size of the records; ``sowctl stats --journal`` counts the
        messages per minute.
        """,
    "SOW-STA-002": """2 invalid sample size

        Why: ``--sample`` is a number of records above 0, or a percentage above 0 % and at most 100 %.
        Do: Use for example ``--sample 10000`` or ``--sample 5%``; remove it to read all records.
        See: sowctl-schema(1)
        """,
    "SOW-STA-003": """2 options for records and for the journal together

        Why: ``--journal`` counts messages by time. Paths, filters, samples and instants apply to current or past
        records.
        Do: Remove ``--journal``, or the other option. ``--since``, ``--until``, ``--txid`` and ``--client`` select a
        part of the journal, and require ``--journal``.
        """,
    "SOW-TUI-001": """12 missing package for the browser

        Why: The browser requires Textual, which only the extra ``tui`` installs.
        Do: ``pip install 'sowctl[tui]'``, in the same environment.
        """,
    "SOW-TUI-002": """2 no terminal

        Why: The browser requires a terminal. Standard input or output is a file or a pipe, or ``TERM`` is ``dumb``, a
        terminal that cannot position text.
        Do: Run it in a terminal. In scripts and pipes, use ``sowctl query``, ``history`` or ``journal tail``.
        """,
    "SOW-TUI-003": """2 more than one topic, or a file

        Why: The browser starts with the records of one topic of the configuration, but the name matches several, or is
        that of a file.
        Do: Name one topic, or none for the list of all topics. ``sowctl query`` prints the records of a file.
        """,
}
