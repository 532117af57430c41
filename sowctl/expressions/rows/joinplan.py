"""Left outer joins of views (``sowctl-expressions(7)``, join): which records of the topics are joined.

Records are opaque here: the caller provides the text of a key. Keys are texts of first values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeAlias, TypeVar

from sowctl.errors import UsageError
from sowctl.expressions.syntax.joins import Join, JoinSide

T = TypeVar("T")
Source: TypeAlias = tuple[str | None, str]
"""Message type, if the join has one, and topic."""
JOIN_HINT = "the left side of a join names a topic of an earlier join"


def find_source(side: JoinSide) -> Source:
    """The source that a side of a join names."""
    return side.message_type, side.topic


class JoinStep(Generic[T]):
    """One topic to attach: its conditions against topics attached before."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.conditions: list[tuple[JoinSide, JoinSide]] = []


def plan_joins(joins: Sequence[Join]) -> tuple[Source, list[JoinStep[T]]]:
    """The first topic, and the others in order with their conditions (attached side, new side).

    A condition between two topics that are attached already, in either order of sides, is an additional condition of
    the later one. Raises UsageError ``SOW-EXP-027`` if a join attaches to nothing or joins a topic with itself.
    """
    start = find_source(joins[0].left)
    steps: dict[Source, JoinStep[T]] = {}
    places = {start: 0}
    for join in joins:
        old, new = join
        if find_source(old) == find_source(new):
            raise UsageError("SOW-EXP-027", f"[{old.topic}] joins itself", hint=JOIN_HINT)
        # The left side must already be in the row when the right side is looked up.
        if find_source(old) not in places:
            raise UsageError("SOW-EXP-027", f"[{old.topic}] is joined before it is attached", hint=JOIN_HINT)
        if places.setdefault(find_source(new), len(places)) < places[find_source(old)]:
            # Both are attached: the row has the values of both only when the later one is looked up.
            old, new = new, old
        # Several joins to one topic are one step: a record must satisfy all of their conditions.
        steps.setdefault(find_source(new), JoinStep(find_source(new))).conditions.append((old, new))
    return start, list(steps.values())
