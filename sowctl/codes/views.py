"""Codes of views."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-VIW-001": """11 topics that are written to too fast to be read together

        Why: A view shows all of its topics as of one instant. Each time that they were opened, one of them had been
        written to before the last one was open.
        Do: Run the command again, or stop the publishers for a moment.
        """,
}
