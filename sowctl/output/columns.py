"""The columns of ``table``, ``csv`` and ``tsv``, and their values.

With ``--columns`` those; else the metadata if requested, and the first-level members of the first 1,000 records in
order of first appearance. A member that appears only later gets no column; it is counted, and the renderer prints a
note. A record with more members than a table can have columns is rejected. So the columns depend only on the records,
and nothing is buffered beyond the first thousand.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from msgspec import Struct

from sowctl.errors import InputError
from sowctl.output.display import escape_surrogates
from sowctl.output.members import find_value, format_value, read_members, read_some_members
from sowctl.output.options import COLUMN_NAMES, Column, OutputOptions
from sowctl.output.records import Batch, as_stored_batch, build_metadata, build_metadata_columns
from sowctl.output.text_columns import Texts, find_values, format_texts
from sowctl.values.paths import Path, Step
from sowctl.values.rawmembers import LONG_OBJECT_LIMITS, TOKEN_PATTERN, RawColumns, read_raw_columns

SAMPLE_RECORDS = 1_000
MAX_MEMBERS = 16_384
"""Maximum number of first-level members of a record: spreadsheets have no more columns, and each is an object here."""
_MIN_MEMBER_BYTES = 5
"""Minimum bytes of a member: quotes, a colon, a value and a comma."""
_OBJECT_PATTERN = re.compile(rb"[ \t\r\n]*\{")


class RecordRow(Struct, frozen=True):
    """One record: its payload's members, its metadata (empty unless a column requires it) and the payload."""

    members: dict[str, Any]
    metadata: dict[str, Any]
    payload: bytes


class ShownColumns:
    """The columns of one output. ``left_out`` counts members without a column, by name, once rows were iterated."""

    def __init__(self, columns: Sequence[Column], *, chosen: bool, facts: bool = False) -> None:
        self.columns = tuple(columns)
        self.chosen = chosen
        self.headings = tuple(format_heading(column, facts=facts) for column in columns)
        self.left_out: dict[str, int] = {}
        # Only members of the payload, as without --columns: no path is followed for each cell.
        self._names = _find_first_level(columns)
        self._wants_meta = any(isinstance(column, str) for column in columns)
        self._known = {column.steps[0].name for column in columns if isinstance(column, Path)}

    def iterate_rows(self, batch: Batch) -> Iterator[RecordRow]:
        """The records of a batch, with metadata if a column shows some."""
        return _read_rows(batch, self._wants_meta, self._known if self.chosen else None)

    def read_cells(self, row: RecordRow) -> list[Any]:
        """The values of one record in column order."""
        # Most records have only known members, and cost one comparison.
        if not self.chosen and not self._known.issuperset(row.members):
            self._leave_out(row.members, 1)
        if self._names is not None:
            return list(map(row.members.get, self._names))
        return [self._column_value(column, row) for column in self.columns]

    def format_texts(self, batch: Batch) -> list[Texts] | None:
        """The texts of a batch's cells, by column; None if only :meth:`read_cells` can determine them."""
        stored = as_stored_batch(batch)
        # From a long record only the chosen members are read.
        if self.chosen and max(map(len, batch.payloads), default=0) >= LONG_OBJECT_LIMITS.min_object_bytes:
            return None
        found = _read_members(batch, batch.payloads, refuse=not self.chosen)
        names = {column for column in self.columns if isinstance(column, str)} - {"data", "length"}
        known = build_metadata_columns(stored) if names and stored is not None else {}
        if found is None or known is None or not names <= known.keys():
            return None
        texts: list[Texts] = []
        try:
            for column in self.columns:
                if isinstance(column, Path):
                    values = find_values(found, column)
                    if values is None:
                        return None
                    texts.append(format_texts(values) if values else [None] * len(batch.payloads))
                else:
                    own = {"data": batch.payloads, "length": map(len, batch.payloads)}.get(column)
                    texts.append(format_cells(known[column] if own is None else own))
        except RecursionError:
            return None
        if not self.chosen:
            self._leave_out(found.keys(), len(batch.payloads))
        return texts

    def format_notes(self) -> tuple[str, ...]:
        """Format the notes about members without a column."""
        if not self.left_out:
            return ()
        names = ", ".join("/" + escape_surrogates(name) for name in sorted(self.left_out))
        return (f"not shown, because the first {SAMPLE_RECORDS:,} records do not have them: {names}; see --columns",)

    def _leave_out(self, names: Iterable[str], records: int) -> None:
        for name in set(names) - self._known:
            self.left_out[name] = self.left_out.get(name, 0) + records

    @staticmethod
    def _column_value(column: Column, row: RecordRow) -> Any:
        if isinstance(column, Path):
            return find_value(row.members, column)
        if column == "data":
            return row.payload
        return len(row.payload) if column == "length" else row.metadata.get(column)


def _find_first_level(columns: Sequence[Column]) -> list[str] | None:
    """The names of columns that are all first-level members; None if a column is something else."""
    paths = [column for column in columns if isinstance(column, Path)]
    steps = [path.steps[0] for path in paths if len(path.steps) == 1 and path.steps[0].index is None]
    return [step.name for step in steps] if len(steps) == len(columns) else None


def format_heading(column: Column, *, facts: bool = False) -> str:
    """Return the heading of a column: a path without its slash, unless that is the name of metadata."""
    if isinstance(column, str):
        return column
    if len(column.steps) == 1 and column.steps[0].index is None:
        name = escape_surrogates(column.steps[0].name)
    else:
        name = escape_surrogates(str(column).removeprefix("/"))
    # A member with the name of metadata keeps its slash, so that headings are unique.
    return f"/{name}" if name in COLUMN_NAMES and not facts else name


def open_columns(batches: Iterable[Batch], options: OutputOptions) -> tuple[ShownColumns, Iterator[RecordRow]]:
    """The columns for these records, and all their rows."""
    columns, found = open_batches(batches, options)
    return columns, (row for batch in found for row in columns.iterate_rows(batch))


def open_batches(batches: Iterable[Batch], options: OutputOptions) -> tuple[ShownColumns, Iterator[Batch]]:
    """The columns for these records, and all their batches."""
    given = iter(batches)
    if options.columns:
        return ShownColumns(options.columns, chosen=True, facts=options.facts), given
    names: dict[str, None] = {}
    first: list[Batch] = []
    left = SAMPLE_RECORDS
    # The columns are fixed here, because the heading must be written before the first row.
    while left and (batch := next(given, None)) is not None:
        first.append(batch)
        names.update(dict.fromkeys(_member_names(batch, left)))
        left -= min(left, len(batch.payloads))
    front: tuple[Column, ...] = options.front if options.meta else ()
    found = ShownColumns([*front, *(Path((Step(name),)) for name in names)], chosen=False, facts=options.facts)
    return found, chain(first, given)


def _member_names(batch: Batch, count: int) -> Iterable[str]:
    """The first-level members of the first records of a batch."""
    known = _read_members(batch, batch.payloads[:count])
    if known is not None:
        return known
    return (name for row in islice(_read_rows(batch, wants_meta=False), count) for name in row.members)


def format_cell(value: Any) -> str | None:
    """A value as text; None if absent. Bytes that are not UTF-8 become surrogate escapes.

    There are no other surrogates: those of JSON texts are written as their escapes.
    """
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    text = value if isinstance(value, str) else format_value(value)
    return None if text is None else escape_surrogates(text)


def format_cells(cells: Iterable[Any]) -> list[str | None]:
    """:func:`format_cell` of several cells; most are plain texts, which need no call."""
    return [value if isinstance(value, str) and value.isascii() else format_cell(value) for value in cells]


def _read_members(batch: Batch, payloads: Sequence[bytes], *, refuse: bool = True) -> RawColumns | None:
    """The first-level members of payloads of stored records, by columns; None if they must be read by rows.

    ``refuse``: each member becomes a column, so a record with too many is rejected.
    """
    if as_stored_batch(batch) is None:
        return None
    if refuse:
        _refuse_wide(batch, payloads)
    # As for rows, from a view with the members that columns show.
    lines = list(map(batch.members_view, payloads))
    try:
        # Bytes that are not UTF-8 change the record for columns, wherever they are.
        b"\n".join(lines).decode()
    except UnicodeDecodeError:
        return None
    return read_raw_columns(lines)


def _refuse_wide(batch: Batch, payloads: Sequence[bytes]) -> None:
    """Reject a record with more than :data:`MAX_MEMBERS`. Raises InputError ``SOW-OUT-013``."""
    if max(map(len, payloads), default=0) < _MIN_MEMBER_BYTES * MAX_MEMBERS:
        return
    for number, payload in enumerate(payloads):
        if len(payload) >= _MIN_MEMBER_BYTES * MAX_MEMBERS and _is_wide(batch.members_view(payload)):
            key = batch.records[number].sow_key
            raise InputError(
                "SOW-OUT-013",
                f"record {key} has more than {MAX_MEMBERS:,} members, the maximum number of columns",
                place=batch.topic,
                hint="select fields with --columns or --select, or use --format ndjson",
                sow_key=key,
            )


def _is_wide(text: bytes) -> bool:
    """True if an object has more members than :data:`MAX_MEMBERS`. They are counted in its bytes, up to the limit,
    without creating them.
    """
    if text.count(b",") < MAX_MEMBERS or not _OBJECT_PATTERN.match(text):
        return False
    depth = commas = 0
    for token in TOKEN_PATTERN.finditer(text):
        mark = text[token.start()]
        if mark in b"{[":
            depth += 1
        elif mark in b"}]":
            depth -= 1
        elif mark == b","[0] and depth == 1:
            commas += 1
            if commas == MAX_MEMBERS:
                return True
    return False


def _read_rows(batch: Batch, wants_meta: bool, names: Collection[str] | None = None) -> Iterator[RecordRow]:
    """The records of a batch; only members with these ``names`` are read, if given."""
    if names is None:
        _refuse_wide(batch, batch.payloads)
    for record in batch.records:
        known = build_metadata(batch, record) if wants_meta else {}
        # a record without a message has no members; the view of an empty payload would create a column for it
        found: dict[str, Any] = {}
        if record.has_data:
            view = batch.members_view
            found = (
                read_members(record.payload, view) if names is None else read_some_members(record.payload, view, names)
            )
        yield RecordRow(found, known, record.payload)
