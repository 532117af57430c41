"""A view computed from all records of its sources, as of a moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.engine.views.definition import Program
from sowctl.engine.views.groups import Groups
from sowctl.engine.views.joins import JoinTable, rows_of
from sowctl.engine.views.records import filters_records, records_of
from sowctl.engine.views.spilling import Spilling

if TYPE_CHECKING:
    from sowctl.engine.sources.source import Pairs
    from sowctl.engine.views.definition import ViewRecord
    from sowctl.engine.views.moment import ViewInstant
    from sowctl.store.read import LinedBatch

READ = 1000
COLUMNS = 20_000
"""Records of the first source from which on rows are grouped as columns, which loads numpy."""


def computed(moment: ViewInstant, program: Program, directory: Path) -> Iterator[Pairs]:
    """Keys and stored values of the view's messages, in key order. Raises what reading the sources raises.

    Groups take about ``moment.memory`` bytes; what is more goes to files without names in ``directory``.
    """

    def source(number: int) -> Iterator[list[ViewRecord]]:
        return records_of(program, number, moment.source(program.query.sources[number]).batches(READ))

    def lined(number: int) -> Iterator[LinedBatch]:
        return _lined(moment, program, number)

    groups, records = Groups(program), _records(moment, program)
    with Spilling(program, records, directory, moment.memory) as spilling:
        for inputs in (
            _by_columns(program, groups, lined) if _suits(program, records) else _by_rows(program, groups, source)
        ):
            spilling.added(groups.groups, inputs)
        yield from spilling.messages(groups.groups) if spilling.spilled else groups.messages()


def _lined(moment: ViewInstant, program: Program, number: int) -> Iterator[LinedBatch]:
    """The records of a source, as lines of text where its store shows them so and no filter is asked of them."""
    source = moment.source(program.query.sources[number])
    stored = None if filters_records(program) else source.stored
    parts = None if stored is None else stored.lined(READ)
    return ((None, some) for some in source.batches(READ)) if parts is None else parts


def _suits(program: Program, records: int) -> bool:
    if records < COLUMNS:
        return False
    from sowctl.engine.views.columnar import suits

    return suits(program)


def _by_columns(program: Program, groups: Groups, source: Callable[[int], Iterable[LinedBatch]]) -> Iterator[int]:
    """Add all rows; how many inputs the groups got in lists, after each batch."""
    from sowctl.engine.views.columnar import ColumnGroups

    return ColumnGroups(program, source, groups.groups).compute()


def _by_rows(program: Program, groups: Groups, source: Callable[[int], Iterable[list[ViewRecord]]]) -> Iterator[int]:
    """Add all rows; how many inputs the groups got, after each batch."""
    partners = JoinTable(program, source)
    for some in source(0):
        rows = rows_of(program, some, partners)
        groups.add(rows)
        yield len(rows) * len(program.projection.aggregates)


def _records(moment: ViewInstant, program: Program) -> int:
    stored = moment.source(program.query.sources[0]).stored
    return 0 if stored is None else stored.meta.records
