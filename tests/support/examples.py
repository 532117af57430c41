"""How many examples a law is tried on: all of them in the long form (``--deep``), a share of them at every other time.

Every run draws other examples, so that many short runs see what one long run sees.
"""

from __future__ import annotations

from hypothesis import settings

LONG = "sowctl-deep"
SHORT = "sowctl"


def register() -> None:
    """Make both forms known, without a deadline: how long one example takes depends on what else the machine does."""
    settings.register_profile(LONG, deadline=None)
    settings.register_profile(SHORT, deadline=None, max_examples=16)


def examples(count: int) -> int:
    """How many examples of ``count`` a law is tried on in the form that runs now, which conftest.py chose."""
    return count if settings.get_current_profile_name() == LONG else max(min(count, 8), count // 8)
