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
    from sowctl.engine.views.column_groups import PartReader
    from sowctl.engine.views.definition import ViewRecord
    from sowctl.engine.views.instant import ViewInstant
    from sowctl.engine.views.stored_columns import ColumnRecorder
    from sowctl.store.read import LineBatch
    from sowctl.values.batch import ColumnBatch


def compute_messages(
    moment: ViewInstant, program: Program, directory: Path, recorder: ColumnRecorder | None = None
) -> Iterator[Pairs]:
    """Keys and stored values of the view's messages, in key order. Raises what reading the sources raises.

    Groups take about ``instant.memory`` bytes; what is more goes to files without names in ``directory``.
    ``recorder`` writes the columns on the way, where the view is computed by columns (:func:`groups_columns`).
    """
    records = _count_records(moment, program, 0)
    if not groups_columns(moment, program):
        return _spill_messages(
            program, records, directory, moment.memory, lambda groups: _group_rows(moment, program, groups)
        )
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
    """As :func:`compute_messages`, from columns; ``records``: of the first source, about; ``waiting``: rows that wait
    for others at least."""
    from sowctl.engine.views.column_groups import ColumnGroups

    def add(groups: ViewGroups) -> Iterator[int]:
        for batch in ColumnGroups(program, read, waiting=waiting).iterate_batches():
            if recorder is not None:
                recorder.record_rows(batch)
            yield batch.add_to_groups(groups.groups)

    return _spill_messages(program, records, directory, memory, add)


def _spill_messages(
    program: Program, records: int, directory: Path, memory: int | None, add: Callable[[ViewGroups], Iterator[int]]
) -> Iterator[Pairs]:
    """The messages of the groups that ``add`` adds to; it yields how many inputs they got in lists."""
    groups = ViewGroups(program)
    with GroupSpill(program, records, directory, memory) as spilling:
        for inputs in add(groups):
            spilling.add_inputs(groups.groups, inputs)
        yield from spilling.iterate_messages(groups.groups) if spilling.has_files else groups.iterate_messages()


def groups_columns(moment: ViewInstant, program: Program) -> bool:
    """Return whether a view is computed by columns: not if it reads headers, or if loading numpy takes longer."""
    if program.projection.uses_header:
        return False
    records = sum(_count_records(moment, program, number) for number in range(len(program.query.sources)))
    return records >= VIEW_LIMITS.min_column_records


def _read_lines(moment: ViewInstant, program: Program, number: int) -> Iterator[LineBatch]:
    """The records of a source, as lines of text where its store shows them so and no filter is asked of them."""
    source = moment.find_source(program.query.sources[number])
    stored = None if filters_records(program) else source.stored_source
    parts = None if stored is None else stored.read_lines(VIEW_LIMITS.read_batch_records)
    return ((None, some) for some in source.read_batches(VIEW_LIMITS.read_batch_records)) if parts is None else parts


def _group_rows(moment: ViewInstant, program: Program, groups: ViewGroups) -> Iterator[int]:
    """Add all rows; how many inputs the groups got, after each batch."""

    def source(number: int) -> Iterator[list[ViewRecord]]:
        return read_records(
            program,
            number,
            moment.find_source(program.query.sources[number]).read_batches(VIEW_LIMITS.read_batch_records),
        )

    partners = JoinIndex(program, source)
    for some in source(0):
        rows = build_rows(program, some, partners)
        groups.add(rows)
        yield len(rows) * len(program.projection.aggregates)


def _count_records(moment: ViewInstant, program: Program, number: int) -> int:
    stored = moment.find_source(program.query.sources[number]).stored_source
    return 0 if stored is None else stored.meta.records
