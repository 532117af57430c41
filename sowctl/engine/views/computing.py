"""A view computed from all records of its sources, as of a moment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sowctl.engine.views.definition import Program
from sowctl.engine.views.groups import Groups
from sowctl.engine.views.joins import Held, rows_of
from sowctl.engine.views.records import records_of

if TYPE_CHECKING:
    from sowctl.engine.sources.source import Pairs
    from sowctl.engine.views.definition import ViewRecord
    from sowctl.engine.views.moment import Moment

READ = 1000
COLUMNS = 20_000
"""Records of the first source from which on rows are grouped as columns, which loads numpy."""


def computed(moment: Moment, program: Program) -> Iterator[Pairs]:
    """Keys and stored values of the view's messages, in key order. Raises what reading the sources raises."""

    def source(number: int) -> Iterator[list[ViewRecord]]:
        return records_of(program, number, moment.source(program.query.sources[number]).batches(READ))

    groups = Groups(program)
    if _records(moment, program) >= COLUMNS:
        from sowctl.engine.views import columnar

        if columnar.suits(program):
            found = columnar.ColumnGroups(
                program, lambda number: moment.source(program.query.sources[number]).batches(READ)
            )
            found.compute()
            yield from groups.messages(found.groups)
            return
    held = Held(program, source)
    for records in source(0):
        groups.add(rows_of(program, records, held))
    yield from groups.messages()


def _records(moment: Moment, program: Program) -> int:
    stored = moment.source(program.query.sources[0]).stored
    return 0 if stored is None else stored.meta.records
