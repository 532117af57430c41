"""Left outer joins of views (``sowctl-expressions(7)``, join): which records of the topics meet.

Records are opaque here: the caller gives the text of a key. Keys are texts of first values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeAlias, TypeVar

from sowctl.errors import UsageError
from sowctl.expressions.syntax.joins import Join, JoinSide

T = TypeVar("T")
Source: TypeAlias = tuple[str | None, str]
"""Message type, where the join names one, and topic."""


def source_of(side: JoinSide) -> Source:
    """The source that a side of a join names."""
    return side.message_type, side.topic


class JoinStep(Generic[T]):
    """One topic that is attached: its conditions against topics attached before."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.conditions: list[tuple[JoinSide, JoinSide]] = []


def plan(joins: Sequence[Join]) -> tuple[Source, list[JoinStep[T]]]:
    """The first topic, and the others in order with their conditions (attached side, new side).

    Raises UsageError ``SOW-EXP-027`` where a join attaches to nothing or joins a topic with itself.
    """
    start = source_of(joins[0].left)
    steps: dict[Source, JoinStep[T]] = {}
    for join in joins:
        left, right = source_of(join.left), source_of(join.right)
        # The left side must be in the row already when the right side is looked up.
        if left == right or (left != start and left not in steps):
            what = f"[{left[1]}] is joined before it is attached" if left != right else f"[{left[1]}] joins itself"
            raise UsageError("SOW-EXP-027", what, hint="the left side of a join names a topic of an earlier join")
        # Several joins to one topic are one step: a record must meet all of their conditions.
        steps.setdefault(right, JoinStep(right)).conditions.append((join.left, join.right))
    return start, list(steps.values())
