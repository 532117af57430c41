"""Codes of views and conflated topics."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-VIW-001": """11 topics that are written to too fast to be read together

        Why: A view shows all of its topics as of one instant. Each time that they were opened, one of them had been
        written to before the last one was open.
        Do: Run the command again, or stop the publishers for a moment.
        """,
    "SOW-VIW-002": """2 a conflated topic whose state nothing tells

        Why: What a conflated topic shows depends on when its source changed. A journal tells that of every instant; the
        source here has none, and no state was kept.
        Do: Run ``sowctl conflate``, which keeps a state from now on; or let the TransactionLog record the source.
        """,
    "SOW-VIW-003": """2 no conflated topic

        Why: The command advances conflated topics, and the name is that of another entry.
        Do: Name a ConflatedTopic of the configuration, or none for all of them.
        """,
    "SOW-VIW-004": """4 views or conflated topics in a circle, or too many on each other

        Why: An entry is made of what it reads. One that reads itself, directly or through others, has no beginning; and
        more than 50 on each other are not opened.
        Do: Let one of them read a Topic; ``sowctl validate`` shows each circle.
        """,
    "SOW-VIW-010": """2 no view

        Why: The command is about views, and the name is that of a topic or of another entry.
        Do: Name a view; ``sowctl view list`` lists them.
        See: sowctl-view-list(1)
        """,
}
