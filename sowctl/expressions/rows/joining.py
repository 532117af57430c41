"""Left outer joins of views (``sowctl-expressions(7)``, join): which records of the topics meet.

Records are opaque here: the caller gives the text of a key. Keys are texts of first values.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Generic, TypeAlias, TypeVar

from sowctl.errors import UsageError
from sowctl.expressions.syntax.joins import Join, JoinSide

T = TypeVar("T")
Source: TypeAlias = tuple[str | None, str]
"""Message type, where the join names one, and topic."""

Joined: TypeAlias = "dict[Source, T | None]"
"""One row of the join: a record per source, None where no record matched."""


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


def left_join(
    joins: Sequence[Join],
    records: Mapping[Source, Sequence[T]],
    key: Callable[[JoinSide, T | None], bytes | None],
    nulls_match: bool = False,
) -> Iterator[dict[Source, T | None]]:
    """The rows of the join, in the order of the first topic's records.

    ``key`` gives the text of a side's field in a record (None for NULL, also for a missing record).
    ``nulls_match`` is JoinNullEquivalency. Raises UsageError ``SOW-EXP-027``.
    """
    start: Source
    steps: list[JoinStep[T]]
    start, steps = plan(joins)
    # Each attached topic is indexed once by its key, so a row finds its partners without a scan.
    tables = [_index(step, records[step.source], key, nulls_match) for step in steps]
    for record in records[start]:
        rows: list[dict[Source, T | None]] = [{start: record}]
        for step, table in zip(steps, tables, strict=True):
            rows = [wider for row in rows for wider in _attached(row, step, table, key, nulls_match)]
        yield from rows


def _index(
    step: JoinStep[T], records: Sequence[T], key: Callable[[JoinSide, T | None], bytes | None], nulls_match: bool
) -> dict[Hashable, list[T]]:
    table: dict[Hashable, list[T]] = {}
    for record in records:
        texts = tuple(key(new, record) for _, new in step.conditions)
        # NULL equals nothing, unless JoinNullEquivalency says that NULLs meet.
        if nulls_match or None not in texts:
            table.setdefault(texts, []).append(record)
    return table


def _attached(
    row: dict[Source, T | None],
    step: JoinStep[T],
    table: Mapping[Hashable, list[T]],
    key: Callable[[JoinSide, T | None], bytes | None],
    nulls_match: bool,
) -> list[dict[Source, T | None]]:
    # The row is looked up by the topics attached before; one that is missing in it gives NULL as its key.
    texts = tuple(key(old, row[source_of(old)]) for old, _ in step.conditions)
    found = table.get(texts, []) if nulls_match or None not in texts else []
    # An outer join: a row without a partner stays, with no record of this topic.
    return [{**row, step.source: record} for record in found] or [{**row, step.source: None}]
