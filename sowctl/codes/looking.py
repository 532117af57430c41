"""Codes of what looks at records: schemas, figures, the browser."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-STA-001": """2 figures of messages without fields

        Why: The topic's messages are bytes without fields, so there are no values to count.
        Do: ``sowctl info`` has the number and the size of the records; ``sowctl stats --journal`` counts the messages
        per minute.
        """,
    "SOW-STA-002": """2 a sample that is no number and no part

        Why: ``--sample`` takes a number of records above 0, or a part of them above 0 % and at most 100 %.
        Do: Write such as ``--sample 10000`` or ``--sample 5%``; leave it out to look at all records.
        See: sowctl-schema(1)
        """,
    "SOW-STA-003": """2 options for records and for the journal together

        Why: With ``--journal`` messages are counted by their times; paths, filters, samples and instants are about the
        present records or those of one instant.
        Do: Leave out ``--journal``, or the other one. Ranges of the journal are given with ``--since``, ``--until``,
        ``--txid`` and ``--client``, which mean nothing without it.
        """,
    "SOW-TUI-001": """12 an optional part that is not installed

        Why: The browser is drawn by Textual, which the extra ``tui`` installs and nothing else needs.
        Do: ``pip install 'sowctl[tui]'``, in the same environment.
        """,
    "SOW-TUI-002": """2 no terminal to draw on

        Why: The browser draws on the terminal and reads its keys. Standard input or output is a file or a pipe, or
        ``TERM`` says that the terminal can place no text (``dumb``).
        Do: Run it in a terminal. For programs and pipes there are ``sowctl query``, ``history`` and ``journal tail``.
        """,
    "SOW-TUI-003": """2 several topics to begin with, or a file

        Why: The browser begins with the records of one topic of the configuration; the name stands for several, or for
        a file.
        Do: Name one topic, or none for the list of all. ``sowctl query`` prints the records of a file.
        """,
}
