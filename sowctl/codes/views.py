"""Codes of views and conflated topics."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-VIW-001": """11 topics change too fast to be read together

        Why: A view reads all of its topics at one instant. In each attempt to open them, one was changed before the
        last one was open.
        Do: Run the command again, or pause the publishers.
        """,
    "SOW-VIW-002": """2 unknown state of a conflated topic

        Why: The state of a conflated topic depends on when its source changed. It is computed from the journal of the
        source, or from the saved state; here, neither exists.
        Do: Run ``sowctl conflate``, which saves the state from now on, or add the source to the TransactionLog.
        """,
    "SOW-VIW-003": """2 not a conflated topic

        Why: The command advances conflated topics, but the name is that of another element.
        Do: Name a ConflatedTopic of the configuration, or none for all of them.
        """,
    "SOW-VIW-004": """4 circular or too deeply nested views

        Why: A view or conflated topic reads itself, directly or through others, or more than 50 of them are nested.
        Do: Let one of them read a Topic; ``sowctl validate`` shows each circle.
        """,
    "SOW-VIW-010": """2 not a view

        Why: The command requires a view, but the name is that of a topic or another element.
        Do: Name a view; ``sowctl view list`` lists them.
        See: sowctl-view-list(1)
        """,
}
