"""Computing a view from all records of its sources, as of a moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.engine.search.external_grouping import ExternalGrouping, GroupedMessages, GroupWriter
from sowctl.engine.views.definition import Program
from sowctl.engine.views.groups import group_rows
from sowctl.engine.views.joins import JoinIndex, build_rows
from sowctl.engine.views.limits import VIEW_LIMITS
from sowctl.engine.views.records import filters_records, read_records

if TYPE_CHECKING:
    from sowctl.engine.sources.source import Pairs
    from sowctl.engine.views.column_groups import PartReader
    from sowctl.engine.views.definition import ViewRecord
    from sowctl.engine.views.instant import ViewInstant
    from sowctl.engine.views.stored_columns import ColumnRecorder
    from sowctl.store.read import LineBatch
    from sowctl.values.batch import ColumnBatch


def compute_messages(
    moment: ViewInstant, program: Program, directory: Path, recorder: ColumnRecorder | None = None
) -> Iterator[Pairs]:
    """Yield keys and stored values of the view's messages, in key order. Raises the errors of reading the sources.

    Groups use about ``moment.memory`` bytes; the rest spills to unnamed files in ``directory``. ``recorder`` writes the
    columns during the computation, if the view is computed by columns (:func:`groups_columns`).
    """
    records = _count_records(moment, program, 0)
    if not groups_columns(moment, program):
        return _group_messages(program, records, directory, moment.memory, _group_rows(moment, program))
    from sowctl.engine.views.column_groups import iterate_parts

    def read(number: int) -> Iterable[ColumnBatch]:
        lines = _read_lines(moment, program, number)
        if recorder is None:
            return iterate_parts(program, number, lines)
        return recorder.record_parts(number, iterate_parts(program, number, lines, ordered=True))

    return compute_column_messages(program, read, records, directory, moment.memory, recorder)


def compute_column_messages(
    program: Program,
    read: PartReader,
    records: int,
    directory: Path,
    memory: int | None,
    recorder: ColumnRecorder | None = None,
    waiting: int = 0,
) -> Iterator[Pairs]:
    """Like :func:`compute_messages`, from columns. ``records``: approximate number in the first source; ``waiting``:
    minimum number of rows that wait for others."""
    from sowctl.engine.views.column_groups import ColumnGroups

    def group() -> Iterator[GroupedMessages]:
        for batch in ColumnGroups(program, read, waiting=waiting).iterate_batches():
            if recorder is not None:
                recorder.record_rows(batch)
            yield batch
            del batch

    return _group_messages(program, records, directory, memory, group())


def _group_messages(
    program: Program, records: int, directory: Path, memory: int | None, found: Iterable[GroupedMessages]
) -> Iterator[Pairs]:
    """Yield the messages of the groups of ``found``."""
    writer = GroupWriter(program.projection, program.environment, program.query.key_domain, program.kind)
    with ExternalGrouping(writer, limit=memory, records=records, directory=directory) as grouping:
        grouping.add_all(found)
        yield from grouping.iterate_messages()


def groups_columns(moment: ViewInstant, program: Program) -> bool:
    """Return whether a view is computed by columns: not if it reads headers, or has too few records to load numpy."""
    if program.projection.uses_header:
        return False
    records = sum(_count_records(moment, program, number) for number in range(len(program.query.sources)))
    return records >= VIEW_LIMITS.min_column_records


def _read_lines(moment: ViewInstant, program: Program, number: int) -> Iterator[LineBatch]:
    """Return the records of a source, as lines of text if its store holds them so and no filter applies to them."""
    source = moment.find_source(program.query.sources[number])
    stored = None if filters_records(program) else source.stored_source
    parts = None if stored is None else stored.read_lines(VIEW_LIMITS.read_batch_records)
    return ((None, some) for some in source.read_batches(VIEW_LIMITS.read_batch_records)) if parts is None else parts


def _group_rows(moment: ViewInstant, program: Program) -> Iterator[GroupedMessages]:
    """Yield all rows with their groups; the rows of a group keep their order."""

    def source(number: int) -> Iterator[list[ViewRecord]]:
        return read_records(
            program,
            number,
            moment.find_source(program.query.sources[number]).read_batches(VIEW_LIMITS.read_batch_records),
        )

    partners = JoinIndex(program, source)
    for some in source(0):
        rows = build_rows(program, some, partners)
        if rows:
            yield group_rows(program, rows, [row.stamp for row in rows])


def _count_records(moment: ViewInstant, program: Program, number: int) -> int:
    stored = moment.find_source(program.query.sources[number]).stored_source
    return 0 if stored is None else stored.meta.records
