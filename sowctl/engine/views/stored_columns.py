"""The stored columns of a view's sources in its cache: a base file, and the records that changed since its creation.

The base file contains all records in key order; the changes replace, remove and add records. So a refresh writes only
the changes, and the file is rewritten when they are many. For the first source, the group of each row that begins with
one of its records is stored, too. Loads numpy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from sowctl.engine.views.column_file import (
    NULL_HASH,
    ColumnFile,
    ColumnWriter,
    detach_column,
    hash_words,
)
from sowctl.engine.views.definition import Program
from sowctl.engine.views.limits import VIEW_LIMITS
from sowctl.identity.keys import build_batch_digester, digest_key
from sowctl.identity.keyspace import sort_distinct
from sowctl.values.batch import ColumnBatch
from sowctl.values.column import Array, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from sowctl.expressions.columns.grouping import GroupedBatch

_NO_ROWS = np.zeros(0, np.int64)
_NO_KEYS = np.zeros(0, np.uint64)


class Selection(NamedTuple):
    """A selection of records of a source: numbers in the base file and in the changes, each ascending; None for all."""

    base: Array | None
    changed: Array | None

    @property
    def records(self) -> int:
        """The number of records. Requires that neither part is None."""
        assert self.base is not None
        assert self.changed is not None
        return len(self.base) + len(self.changed)


ALL_RECORDS = Selection(None, None)
Conditions: TypeAlias = "Sequence[tuple[int, Array]]"
"""Places of texts of join keys, each with the hashes to search for."""


class Changes:
    """Records that replace records of a base file or are added to it, in key order.

    ``hidden``: numbers of the replaced or removed records of the base file, ascending. ``roots`` and ``groups``: rows
    that begin with records of the changes, as their numbers here, ascending, and the SOW keys of the rows' groups.
    """

    def __init__(
        self,
        part: ColumnBatch | None,
        hidden: Array = _NO_ROWS,
        roots: Array = _NO_ROWS,
        groups: Array = _NO_KEYS,
    ) -> None:
        self.part, self.hidden, self.roots, self.groups = part, hidden, roots, groups
        self.keys: Array = _NO_KEYS if part is None else part.keys
        self._texts: dict[int, tuple[Array, Array]] = {}

    @classmethod
    def decode(cls, data: bytes, place: Path) -> Changes:
        """Decode the bytes written by :meth:`encode`. Raises DamageError."""
        file = ColumnFile(data, place)
        part = file.read_part(0) if file.index.parts else None
        hidden = _NO_ROWS if file.index.hidden < 0 else file.read_array(file.index.hidden)
        roots, groups = _NO_ROWS, _NO_KEYS
        if file.index.rows:
            rows = file.index.rows[0]
            numbers, codes, known = file.read_rows(rows)
            roots = np.arange(rows.first, rows.first + rows.rows) if numbers is None else numbers
            groups = known[codes]
        found = cls(part, hidden, roots, groups)
        if part is not None:
            found._texts = {side: file.read_codes(0, side) for side in range(len(part.texts))}
        return found

    def encode(self) -> bytes:
        """Encode these changes in the format of a column file."""
        data = bytearray()
        writer = ColumnWriter(data.extend)
        if self.part is not None:
            # Reuse hashes that are already computed.
            writer.add_part(self.part, [self.read_codes(side)[1] for side in range(len(self.part.texts))])
        # Deduplicating groups would take longer than writing one per row.
        writer.add_rows(self.roots, np.arange(len(self.groups)), self.groups)
        writer.finish(self.hidden)
        return bytes(data)

    def find(self, keys: Array) -> tuple[Array, Array]:
        """Return the places of those ``keys`` that have a record, and the numbers of these records."""
        return find_sorted(self.keys, keys)

    def read_codes(self, side: int) -> tuple[Array, Array]:
        """Like :meth:`ColumnFile.read_codes`, for the records of the changes."""
        if side not in self._texts:
            assert self.part is not None
            column = self.part.texts[side]
            codes = np.zeros(column.size, np.uint8) if column.kind is Kind.NULL else column.data
            self._texts[side] = codes, hash_words([] if column.kind is Kind.NULL else column.words)
        return self._texts[side]


def find_sorted(known: Array, wanted: Array) -> tuple[Array, Array]:
    """Return the places of those ``wanted`` values that are in ``known`` (ascending), and their places there."""
    if not len(known) or not len(wanted):
        return _NO_ROWS, _NO_ROWS
    places = np.searchsorted(known, wanted)
    places[places == len(known)] = 0
    there = np.flatnonzero(known[places] == wanted)
    return there, places[there]


class SourceColumns:
    """The records of one source: a base file and changes."""

    def __init__(self, base: ColumnFile, changes: Changes | None = None) -> None:
        self.base = base
        self.changes = Changes(None) if changes is None else changes

    @property
    def records(self) -> int:
        """The number of records."""
        return self.base.records - len(self.changes.hidden) + len(self.changes.keys)

    @property
    def exceeds_changes(self) -> bool:
        """Whether there are enough changes to rewrite the file."""
        kept = max(len(self.changes.keys), len(self.changes.hidden))
        return kept > max(VIEW_LIMITS.min_kept_changes, self.base.records // VIEW_LIMITS.max_kept_divisor)

    def _visible(self) -> Array:
        found = np.ones(self.base.records, np.bool_)
        found[self.changes.hidden] = False
        return found

    def find_base(self, keys: Array) -> Array:
        """Return the numbers of the base file's records with one of ``keys`` (ascending), including hidden records."""
        found = [
            find_sorted(self.base.read_keys(number), keys[start:stop])[1] + self.base.starts[number]
            for number, (start, stop) in enumerate(pairwise(self._split_keys(keys)))
            if start < stop
        ]
        return np.concatenate(found) if found else _NO_ROWS

    def find_keys(self, keys: Array) -> Selection:
        """Return the records with one of ``keys`` (ascending)."""
        places = self.find_base(keys)
        if len(self.changes.hidden):
            places = np.setdiff1d(places, self.changes.hidden, assume_unique=True)
        return Selection(places, self.changes.find(keys)[1])

    def read_selected_keys(self, selection: Selection) -> Array:
        """Return the keys of the selected records, ascending."""
        assert selection.base is not None
        found = [self.changes.keys[selection.changed]]
        for number, places in self._split(selection.base):
            found.append(self.base.read_keys(number)[places])
        return np.sort(np.concatenate(found))

    def _split(self, base: Array) -> Iterator[tuple[int, Array]]:
        """Yield each part of the file that contains some of the records, with their places in the part."""
        bounds = np.searchsorted(base, [*self.base.starts, self.base.records]).tolist()
        for number, (start, stop) in enumerate(pairwise(bounds)):
            if start < stop:
                yield number, base[start:stop] - self.base.starts[number]

    def iterate_parts(self, selection: Selection = ALL_RECORDS) -> Iterator[ColumnBatch]:
        """Yield the selected records in key order, part by part."""
        chosen = np.arange(len(self.changes.keys)) if selection.changed is None else selection.changed
        if not self.base.index.parts and len(chosen):
            assert self.changes.part is not None
            yield self.changes.part.take(chosen)
        for number, (start, stop) in enumerate(pairwise(self._split_keys(self.changes.keys[chosen]))):
            part = self._merge_part(number, selection.base, chosen[start:stop])
            if part is not None:
                yield part

    def _split_keys(self, keys: Array) -> list[int]:
        """Return the bounds of the parts of the file in ``keys`` (ascending): the start of each, and the end."""
        firsts = np.array([part.first for part in self.base.index.parts[1:]], np.uint64)
        return [0, *np.searchsorted(keys, firsts).tolist(), len(keys)] if self.base.index.parts else []

    def _merge_part(self, number: int, base: Array | None, chosen: Array) -> ColumnBatch | None:
        """Return the records ``base`` of a part of the file (None: the visible ones) and the ``chosen`` changes, merged
        in key order; None if there are none."""
        places = self._choose_places(number, base)
        if not len(chosen):
            return self.base.read_part(number, places) if places is None or len(places) else None
        assert self.changes.part is not None
        fresh = self.changes.part.take(chosen)
        if places is not None and not len(places):
            return fresh
        # The place of each change in the file, or its insertion point.
        rows = self.base.index.parts[number].rows
        found = np.searchsorted(self.base.read_keys(number), fresh.keys)
        if base is None and np.array_equal(found, self._hidden_places(number)):
            # The usual case: records were replaced, none added or removed.
            return self.base.read_part(number).replace(found, fresh)
        places = np.arange(rows) if places is None else places
        before = np.searchsorted(places, found)
        # Insert an arbitrary record of the part for each change, and replace it by the change.
        places = np.insert(places, before, np.minimum(found, rows - 1))
        return self.base.read_part(number, places).replace(before + np.arange(len(found)), fresh)

    def _hidden_places(self, number: int) -> Array:
        """Return the places of the hidden records of a part of the file."""
        start, hidden = self.base.starts[number], self.changes.hidden
        low, high = np.searchsorted(hidden, [start, start + self.base.index.parts[number].rows])
        return hidden[low:high] - start

    def _choose_places(self, number: int, base: Array | None) -> Array | None:
        """Return the places of the records to read in a part of the file; None for all."""
        start, rows = self.base.starts[number], self.base.index.parts[number].rows
        if base is not None:
            low, high = np.searchsorted(base, [start, start + rows])
            return base[low:high] - start
        hidden = self._hidden_places(number)
        return np.delete(np.arange(rows), hidden) if len(hidden) else None

    def match_texts(self, conditions: Conditions) -> Selection:
        """Return the records whose texts may satisfy all ``conditions``: the hash of each text is one of the sought."""
        visible = self._visible()
        found = []
        for number, start in enumerate(self.base.starts):
            mask = _match_hashes([(self.base.read_codes(number, side), sought) for side, sought in conditions])
            if mask is not None:
                found.append(np.flatnonzero(mask & visible[start : start + len(mask)]) + start)
        changed = _NO_ROWS
        if len(self.changes.keys):
            mask = _match_hashes([(self.changes.read_codes(side), sought) for side, sought in conditions])
            changed = changed if mask is None else np.flatnonzero(mask)
        return Selection(np.concatenate(found) if found else _NO_ROWS, changed)

    def read_hashes(self, selection: Selection, side: int) -> Array:
        """Return the distinct hashes of a text of the selected records; for all records, also hashes of hidden ones."""
        found = []
        if selection.base is None:
            found += [self.base.read_codes(number, side)[1] for number in range(len(self.base.starts))]
        else:
            for number, places in self._split(selection.base):
                codes, hashes = self.base.read_codes(number, side)
                found.append(_select_used(hashes, codes[places]))
        if len(self.changes.keys):
            codes, hashes = self.changes.read_codes(side)
            found.append(_select_used(hashes, codes if selection.changed is None else codes[selection.changed]))
        return sort_distinct(found) if found else _NO_KEYS

    # rows of the first source -----------------------------------------------------------------------------------

    def find_groups(self, selection: Selection) -> Array:
        """Return the distinct SOW keys of the groups of rows that begin with the selected records."""
        chosen = np.zeros(len(self.changes.keys), np.bool_)
        chosen[selection.changed] = True
        found = [self.changes.groups[chosen[self.changes.roots]]]
        wanted = np.zeros(self.base.records, np.bool_)
        wanted[selection.base] = True
        for rows in self.base.index.rows:
            roots, codes, groups = self.base.read_rows(rows)
            mask = wanted[rows.first : rows.first + rows.rows] if roots is None else wanted[roots]
            if mask.any():
                found.append(_select_used(groups, codes[mask]))
        return sort_distinct(found)

    def find_roots(self, groups: Array) -> Selection:
        """Return the records with which the rows of ``groups`` (ascending) begin."""
        visible = self._visible()
        found = []
        for rows in self.base.index.rows:
            roots, codes, known = self.base.read_rows(rows)
            flags = np.zeros(len(known), np.bool_)
            flags[find_sorted(groups, known)[0]] = True
            mask = flags[codes]
            places = np.flatnonzero(mask) + rows.first if roots is None else roots[mask]
            found.append(places)
        base = np.concatenate(found) if found else _NO_ROWS
        base = base[visible[base]]
        if len(base) and not (base[1:] > base[:-1]).all():
            # Some record begins several rows.
            base = sort_distinct([base])
        changed = self.changes.roots[find_sorted(groups, self.changes.groups)[0]]
        return Selection(base, sort_distinct([changed]))

    # changes ----------------------------------------------------------------------------------------------------

    def replace_records(self, keys: Array, fresh: ColumnBatch | None) -> SourceColumns:
        """Return the columns after a change: ``keys`` (ascending) are removed, except those replaced by ``fresh``.

        Stored rows of the changes that begin with other records are kept; ``keys`` have no rows until they are added.
        """
        old = self.changes
        hidden = sort_distinct([old.hidden, self.find_base(keys)])
        kept = np.arange(len(old.keys))
        gone = old.find(keys)[1]
        if len(gone):
            kept = np.delete(kept, gone)
        parts = [] if old.part is None or not len(kept) else [old.part if not len(gone) else old.part.take(kept)]
        if fresh is not None and len(fresh.keys):
            parts.append(fresh)
        part = _merge_by_key(parts) if parts else None
        roots, groups = _NO_ROWS, _NO_KEYS
        if len(old.roots) and part is not None:
            # Renumber the roots, because records have other numbers among the new changes.
            numbers = np.full(len(old.keys), -1, np.int64)
            numbers[kept] = np.searchsorted(part.keys, old.keys[kept])
            moved = numbers[old.roots]
            roots, groups = moved[moved >= 0], old.groups[moved >= 0]
        return SourceColumns(self.base, Changes(part, hidden, roots, groups))

    def add_rows(self, roots: Array, groups: Array) -> None:
        """Add rows that begin with records of the changes; ``roots``: the numbers of these records."""
        old = self.changes
        roots, groups = np.concatenate([old.roots, roots]), np.concatenate([old.groups, groups])
        order = np.argsort(roots, kind="stable")
        self.changes = Changes(old.part, old.hidden, roots[order], groups[order])
        self.changes._texts = old._texts

    def write(self, writer: ColumnWriter) -> None:
        """Write a new base file of all records and rows."""
        changes, parts = self.changes, self.base.index.parts
        for number, (start, stop) in enumerate(pairwise(self._split_keys(changes.keys))):
            if start == stop and not len(self._hidden_places(number)):
                writer.copy_part(self.base, parts[number])
                continue
            whole = self._merge_part(number, None, np.arange(start, stop))
            size = 0 if whole is None else whole.size
            for begin in range(0, size, 2 * VIEW_LIMITS.column_part_records):
                assert whole is not None
                writer.add_part(whole.take(slice(begin, begin + 2 * VIEW_LIMITS.column_part_records)))
        if not parts and changes.part is not None:
            writer.add_part(changes.part)
        self._write_rows(writer)

    def _write_rows(self, writer: ColumnWriter) -> None:
        changes, base = self.changes, self.base
        # The insertion point of each change among the records of the file, including hidden ones.
        places = self._find_places(changes.keys)
        visible = self._visible()
        before = np.append(0, np.cumsum(visible))
        # Numbers in the new file: the count of preceding visible records plus that of preceding changes.
        numbers = np.arange(len(places)) + before[places]
        passed = (before + np.cumsum(np.bincount(places, minlength=len(before))))[:-1]
        moved, at = numbers[changes.roots], 0
        for place, rows in enumerate(base.index.rows):
            roots, codes, groups = base.read_rows(rows)
            olds = np.arange(rows.first, rows.first + rows.rows) if roots is None else roots
            there = visible[olds]
            fresh, codes = passed[olds[there]], codes[there].astype(np.int64)
            stop = len(moved)
            if place + 1 < len(base.index.rows):
                stop = int(np.searchsorted(moved, passed[base.index.rows[place + 1].first]))
            if at < stop:
                known, more = np.unique(changes.groups[at:stop], return_inverse=True)
                # A group may occur twice in the list; searches find rows of both occurrences.
                fresh = np.concatenate([fresh, moved[at:stop]])
                codes, groups = np.concatenate([codes, more + len(groups)]), np.concatenate([groups, known])
                order = np.argsort(fresh, kind="stable")
                fresh, codes, at = fresh[order], codes[order], stop
            writer.add_rows(fresh, codes, groups)
        if at < len(moved):
            known, more = np.unique(changes.groups[at:], return_inverse=True)
            writer.add_rows(moved[at:], more, known)

    def _find_places(self, keys: Array) -> Array:
        """Return the insertion point of each of ``keys`` (ascending) among the records of the file."""
        found = [
            np.searchsorted(self.base.read_keys(number), keys[start:stop]) + self.base.starts[number]
            for number, (start, stop) in enumerate(pairwise(self._split_keys(keys)))
        ]
        return np.concatenate(found) if found else np.zeros(len(keys), np.int64)


def _match_hashes(texts: Sequence[tuple[tuple[Array, Array], Array]]) -> Array | None:
    """Return a mask of the records whose every text has one of the sought hashes (ascending); None if no record can."""
    found: Array | None = None
    for (codes, hashes), sought in texts:
        there = find_sorted(sought, hashes)[0]
        if not len(there):
            return None
        flags = np.zeros(len(hashes), np.bool_)
        flags[there] = True
        found = flags[codes] if found is None else found & flags[codes]
    return found


def _select_used(items: Array, codes: Array) -> Array:
    """Return those ``items`` to which some code refers."""
    used = np.zeros(len(items), np.bool_)
    used[codes] = True
    return items[used]


def _merge_by_key(parts: Sequence[ColumnBatch]) -> ColumnBatch:
    """Merge parts, each in key order, into one."""
    whole = ColumnBatch.concatenate(parts)
    return whole if len(parts) == 1 else whole.take(np.argsort(whole.keys, kind="stable"))


class ColumnRecorder:
    """Writes the columns of a view during its full computation: records of each source, groups of rows."""

    def __init__(self, program: Program, writers: Sequence[ColumnWriter]) -> None:
        self._writers = writers
        self._digest = GroupKeys(program)
        # Keys of the records whose rows may still follow, in parts, and the number of the first of these records.
        self._waiting: list[Array] = []
        self._start = 0

    def record_parts(self, number: int, parts: Iterable[ColumnBatch]) -> Iterator[ColumnBatch]:
        """Write the records of a source, and yield them in the parts written."""
        held: list[ColumnBatch] = []
        size = 0
        for part in parts:
            columns, texts = ([detach_column(column) for column in some] for some in (part.columns, part.texts))
            keys = part.keys.astype(np.uint64)
            held.append(ColumnBatch(columns, part.size, txids=part.txids, times=part.times, keys=keys, texts=texts))
            size += part.size
            if size >= VIEW_LIMITS.column_part_records:
                yield self._record_part(number, held)
                held, size = [], 0
        if held:
            yield self._record_part(number, held)

    def _record_part(self, number: int, held: Sequence[ColumnBatch]) -> ColumnBatch:
        part = ColumnBatch.concatenate(held)
        if number == 0:
            self._waiting.append(part.keys)
        self._writers[number].add_part(part)
        return part

    def record_rows(self, batch: GroupedBatch) -> None:
        """Write the groups of the next rows."""
        keys = batch.messages.keys.astype(np.uint64)
        # Concatenate here and not for each part: a filter may leave many parts without rows.
        window = np.concatenate(self._waiting)
        first = int(np.searchsorted(window, keys[0]))
        if len(keys) <= len(window) - first and (window[first : first + len(keys)] == keys).all():
            roots = np.arange(first, first + len(keys))
        else:
            roots = np.searchsorted(window, keys)
        self._writers[0].add_rows(roots + self._start, batch.codes, self._digest.compute(batch))
        # The rows of the last record may continue in the next batch.
        passed = int(roots[-1])
        self._waiting, self._start = [window[passed:]], self._start + passed


class GroupKeys:
    """Computes SOW keys of groups."""

    def __init__(self, program: Program) -> None:
        self._digester = build_batch_digester(program.query.key_domain, program.projection.width)

    def compute(self, batch: GroupedBatch) -> Array:
        """Return the SOW key of each group of a batch."""
        digests = self._digester(batch.group_keys, null=True)
        return np.frombuffer(b"".join(map(digest_key, digests)), ">u8").astype(np.uint64)


class ViewColumns:
    """The columns of all sources of a view."""

    def __init__(self, program: Program, sources: Sequence[SourceColumns]) -> None:
        self._program = program
        self.sources = list(sources)

    def find_stale_roots(self, old: Sequence[SourceColumns], keys: Sequence[Array]) -> Array | None:
        """Return the keys of the records of the first source whose rows may have changed, and perhaps more keys; None
        for all.

        These columns are those after the change of ``keys`` of each source, ``old`` those before.
        """
        program = self._program
        sought: list[dict[int, list[Array]]] = [{} for _ in self.sources]
        for number, (before, after) in enumerate(zip(old, self.sources, strict=True)):
            if number and len(keys[number]):
                for columns in (before, after):
                    self._add_hashes(sought, number, columns, columns.find_keys(keys[number]))
        stale = [keys[0]]
        # From the last step to the first: the record to which another one is attached may itself be attached.
        for place, left, right in reversed(program.step_places):
            if not sought[place]:
                continue
            # Conditions on texts of other sources could only reduce the result, so they are ignored.
            source = left[0][0]
            conditions = [
                (side, self._unite(sought[place][other]))
                for (number, side), other in zip(left, right, strict=True)
                if number == source
            ]
            columns = self.sources[source]
            if source and all(NULL_HASH in hashes for _, hashes in conditions):
                # NULLs match here, and rows without a record of that source have NULL, so any row may be affected.
                return None
            found = columns.match_texts(conditions)
            if source:
                self._add_hashes(sought, source, columns, found)
            else:
                stale.append(columns.read_selected_keys(found))
        return stale[0] if len(stale) == 1 else sort_distinct(stale)

    def _add_hashes(
        self, sought: list[dict[int, list[Array]]], number: int, columns: SourceColumns, found: Selection
    ) -> None:
        if found.records:
            for side in range(len(self._program.sides[number])):
                sought[number].setdefault(side, []).append(columns.read_hashes(found, side))

    def _unite(self, hashes: Sequence[Array]) -> Array:
        found = sort_distinct(hashes)
        return found if self._program.query.nulls_match else found[found != NULL_HASH]

    def select_partners(self, first: Selection) -> list[Selection]:
        """Return the records of each source that may be in rows beginning with the records ``first``."""
        found = [ALL_RECORDS] * len(self.sources)
        found[0] = first
        # Rows without a record of a source have NULL there. Every row has a record of the first source.
        missing = np.full(len(self.sources), NULL_HASH, np.uint64)
        for place, left, right in self._program.step_places:
            source = left[0][0]
            if found[source] is ALL_RECORDS:
                continue
            conditions = [
                (other, self._unite([self.sources[source].read_hashes(found[source], side), missing[:source]]))
                for (number, side), other in zip(left, right, strict=True)
                if number == source
            ]
            found[place] = self.sources[place].match_texts(conditions)
        return found

    def read_selected(self, first: Selection) -> Callable[[int], Iterator[ColumnBatch]]:
        """Return a reader of the records ``first`` of the first source, and of the records that their rows may have."""
        chosen = self.select_partners(first)
        return lambda number: self.sources[number].iterate_parts(chosen[number])
