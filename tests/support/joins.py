"""The rows of left outer joins, record by record: the reference for joins of views (sowctl-expressions(7))."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

from sowctl.expressions.rows.joinplan import JoinStep, Source, find_source, plan_joins
from sowctl.expressions.syntax.joins import Join, JoinSide

T = TypeVar("T")


def left_join(
    joins: Sequence[Join],
    records: Mapping[Source, Sequence[T]],
    key: Callable[[JoinSide, T | None], bytes | None],
    nulls_match: bool = False,
) -> Iterator[dict[Source, T | None]]:
    """Yield the rows of the join, in the order of the first topic's records.

    ``key`` returns the text of a side's field in a record (None for NULL, also for a missing record). ``nulls_match``
    is JoinNullEquivalency. Raises UsageError ``SOW-EXP-027``.
    """
    start: Source
    steps: list[JoinStep[T]]
    start, steps = plan_joins(joins)
    # Each attached topic is indexed once by its key, so matching records are found without a scan.
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
        # NULL equals nothing, unless JoinNullEquivalency makes NULLs equal.
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
    # The key comes from the topics attached before; for a missing record it is NULL.
    texts = tuple(key(old, row[find_source(old)]) for old, _ in step.conditions)
    found = table.get(texts, []) if nulls_match or None not in texts else []
    # An outer join: a row without a match remains, with no record of this topic.
    return [{**row, step.source: record} for record in found] or [{**row, step.source: None}]
