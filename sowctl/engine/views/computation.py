"""A view computed from all records of its sources, as of a moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.engine.views.definition import Program
from sowctl.engine.views.group_spill import GroupSpill
from sowctl.engine.views.groups import ViewGroups
from sowctl.engine.views.joins import JoinIndex, build_rows
from sowctl.engine.views.limits import VIEW_LIMITS
from sowctl.engine.views.records import filters_records, read_records

if TYPE_CHECKING:
    from sowctl.engine.sources.source import Pairs
    from sowctl.engine.views.definition import ViewRecord
    from sowctl.engine.views.instant import ViewInstant
    from sowctl.store.read import LineBatch


def compute_messages(moment: ViewInstant, program: Program, directory: Path) -> Iterator[Pairs]:
    """Keys and stored values of the view's messages, in key order. Raises what reading the sources raises.

    Groups take about ``instant.memory`` bytes; what is more goes to files without names in ``directory``.
    """

    def source(number: int) -> Iterator[list[ViewRecord]]:
        return read_records(
            program,
            number,
            moment.find_source(program.query.sources[number]).read_batches(VIEW_LIMITS.read_batch_records),
        )

    def lined(number: int) -> Iterator[LineBatch]:
        return _read_lines(moment, program, number)

    groups, records = ViewGroups(program), _records(moment, program)
    with GroupSpill(program, records, directory, moment.memory) as spilling:
        for inputs in (
            _group_columns(program, groups, lined)
            if _can_group_columns(program, records)
            else _group_rows(program, groups, source)
        ):
            spilling.add_inputs(groups.groups, inputs)
        yield from spilling.iterate_messages(groups.groups) if spilling.has_files else groups.iterate_messages()


def _read_lines(moment: ViewInstant, program: Program, number: int) -> Iterator[LineBatch]:
    """The records of a source, as lines of text where its store shows them so and no filter is asked of them."""
    source = moment.find_source(program.query.sources[number])
    stored = None if filters_records(program) else source.stored_source
    parts = None if stored is None else stored.read_lines(VIEW_LIMITS.read_batch_records)
    return ((None, some) for some in source.read_batches(VIEW_LIMITS.read_batch_records)) if parts is None else parts


def _can_group_columns(program: Program, records: int) -> bool:
    if records < VIEW_LIMITS.min_column_records:
        return False
    from sowctl.engine.views.column_groups import can_group_columns

    return can_group_columns(program)


def _group_columns(program: Program, groups: ViewGroups, source: Callable[[int], Iterable[LineBatch]]) -> Iterator[int]:
    """Add all rows; how many inputs the groups got in lists, after each batch."""
    from sowctl.engine.views.column_groups import ColumnGroups

    return ColumnGroups(program, source, groups.groups).compute()


def _group_rows(
    program: Program, groups: ViewGroups, source: Callable[[int], Iterable[list[ViewRecord]]]
) -> Iterator[int]:
    """Add all rows; how many inputs the groups got, after each batch."""
    partners = JoinIndex(program, source)
    for some in source(0):
        rows = build_rows(program, some, partners)
        groups.add(rows)
        yield len(rows) * len(program.projection.aggregates)


def _records(moment: ViewInstant, program: Program) -> int:
    stored = moment.find_source(program.query.sources[0]).stored_source
    return 0 if stored is None else stored.meta.records
