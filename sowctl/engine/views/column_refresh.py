"""Incremental refresh of a view from its columns: the groups affected by changed records, and their messages.

A changed record affects the rows that contain it. Each row begins with one record of the first source, so these records
are found first. The groups of their rows, before and after the change, are the affected groups. They are computed from
the columns of all their rows, in the same way as the complete view (:mod:`sowctl.engine.views.column_groups`). Called
by :mod:`sowctl.engine.views.cache_refresh`. Loads numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sowctl.engine.views.column_file import detach_column
from sowctl.engine.views.column_groups import ColumnGroups, iterate_parts
from sowctl.engine.views.computation import compute_column_messages
from sowctl.engine.views.definition import Program
from sowctl.engine.views.limits import VIEW_LIMITS
from sowctl.engine.views.stored_columns import (
    ALL_RECORDS,
    GroupKeys,
    Selection,
    SourceColumns,
    ViewColumns,
)
from sowctl.identity.keyspace import sort_distinct
from sowctl.values.batch import ColumnBatch
from sowctl.values.column import Array

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sowctl.engine.sources.source import Source
    from sowctl.store.read import LineBatch


_LOOKUP_BATCH_KEYS = 4096
"""Number of keys looked up in one walk of the tree. A memory bound: their records are held."""


class ColumnRefresh(NamedTuple):
    """The result of a refresh: columns of the sources, messages of the affected groups by SOW key.

    ``affected``: SOW keys of the affected groups, None for all groups. Groups without a message no longer exist.
    """

    columns: list[SourceColumns]
    messages: dict[bytes, bytes]
    affected: list[bytes] | None


def refresh_columns(
    program: Program,
    columns: Sequence[SourceColumns],
    sources: Sequence[Source],
    changes: Sequence[set[bytes]],
    directory: Path,
    memory: int | None,
    groups: int,
) -> ColumnRefresh | list[SourceColumns]:
    """Apply ``changes`` to the columns of a view's sources, and compute the affected groups.

    ``groups``: approximate number of groups of the view. Return only the columns if all groups must be computed and
    their messages, or the changed rows, are too many for memory. Raises the errors of reading the sources and of
    evaluating the view.
    """
    keys = [np.sort(np.frombuffer(b"".join(some), ">u8").astype(np.uint64)) for some in changes]
    fresh = [
        columns[number].replace_records(keys[number], _read_records(program, number, sources[number], changes[number]))
        if changes[number]
        else columns[number]
        for number in range(len(sources))
    ]
    view = ViewColumns(program, fresh)
    stale = view.find_stale_roots(columns, keys)
    if stale is None or len(stale) * VIEW_LIMITS.max_stale_divisor > fresh[0].records:
        return fresh
    # The groups of stale rows are stored with the changes, so unchanged records with changed partners must be moved
    # there, too.
    others = np.setdiff1d(stale, keys[0], assume_unique=True)
    if len(others):
        parts = list(fresh[0].iterate_parts(fresh[0].find_keys(others)))
        fresh[0] = view.sources[0] = fresh[0].replace_records(others, ColumnBatch.concatenate(parts) if parts else None)
    before = columns[0].find_groups(columns[0].find_keys(stale))
    selected = Selection(np.zeros(0, np.int64), fresh[0].changes.find(stale)[1])
    roots, found = _find_row_groups(program, view, selected)
    fresh[0].add_rows(roots, found)
    affected = sort_distinct([before, found])
    chosen = fresh[0].find_roots(affected)
    every = chosen.records * VIEW_LIMITS.max_affected_divisor > fresh[0].records
    if every and groups > VIEW_LIMITS.max_replaced_messages:
        return fresh
    read = view.read_selected(ALL_RECORDS if every else chosen)
    messages: dict[bytes, bytes] = {}
    for some, values in compute_column_messages(
        program, read, chosen.records, directory, memory, waiting=VIEW_LIMITS.waiting_rows
    ):
        messages.update(zip(some, values, strict=True))
    if every:
        return ColumnRefresh(fresh, messages, None)
    wanted = [key.to_bytes(8, "big") for key in affected.tolist()]
    # A record with rows in several groups also adds rows to unaffected groups, whose messages are incomplete.
    return ColumnRefresh(fresh, {key: messages[key] for key in wanted if key in messages}, wanted)


def _read_records(program: Program, number: int, source: Source, keys: set[bytes]) -> ColumnBatch | None:
    """Return the current records of ``keys`` as read by the view, in key order; None if there are none."""
    wanted = sorted(keys)

    def found() -> Iterator[LineBatch]:
        for start in range(0, len(wanted), _LOOKUP_BATCH_KEYS):
            yield None, source.find_many_records(wanted[start : start + _LOOKUP_BATCH_KEYS])

    parts = [part for part in iterate_parts(program, number, found(), ordered=True) if len(part.keys)]
    if not parts:
        return None
    whole = ColumnBatch.concatenate(parts)
    return ColumnBatch(
        list(map(detach_column, whole.columns)),
        whole.size,
        txids=whole.txids,
        times=whole.times,
        keys=whole.keys.astype(np.uint64),
        texts=whole.texts,
    )


def _find_row_groups(program: Program, view: ViewColumns, selected: Selection) -> tuple[Array, Array]:
    """Return the rows that begin with selected records of the changes, by record number, and the group of each row."""
    roots, groups = [np.zeros(0, np.int64)], [np.zeros(0, np.uint64)]
    assert selected.changed is not None
    if len(selected.changed):
        digests, known = GroupKeys(program), view.sources[0].changes.keys
        for batch in ColumnGroups(program, view.read_selected(selected)).iterate_batches():
            roots.append(np.searchsorted(known, batch.messages.keys.astype(np.uint64)))
            groups.append(digests.compute(batch)[batch.codes])
    return np.concatenate(roots), np.concatenate(groups)
