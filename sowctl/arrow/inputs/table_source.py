"""Rows of a file as a source of messages, for ``publish --from``.

A row without a message is refused with its line, or its row number in files of columns, and the column; the others are
published. Metadata columns of our own exports are skipped: in files of columns those of :mod:`sowctl.arrow.metadata`,
in CSV and TSV the leading metadata of --meta.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from sowctl.arrow.inputs.columnfiles import ColumnFile, find_unnamed_indexes, open_columns, open_frame
from sowctl.arrow.inputs.columnvalues import ReaderContext, build_value_reader, group_leaves, is_nested, is_text
from sowctl.arrow.inputs.delimited_source import RowTarget, build_refused_frame
from sowctl.arrow.inputs.partitions import append_partitions, build_partition_fields
from sowctl.arrow.inputs.rowmessages import (
    MessageMaker,
    TextCell,
    build_struct_array,
    build_text_reader,
    refuse_repeated_names,
)
from sowctl.arrow.inputs.rows import RowRefused, make_changes_error
from sowctl.arrow.metadata import CHANGE_TYPE_COLUMN, MARK_KEY, PAYLOAD_COLUMN, find_metadata, parse_mark
from sowctl.errors import InputError, SowError, UsageError
from sowctl.messages.framing.chunks import Chunk, RefusedFrame
from sowctl.messages.framing.envelope import Envelope
from sowctl.messages.native_values import Form

if TYPE_CHECKING:
    import pyarrow

    from sowctl.arrow.inputs.partitions import PartitionValues

CHUNK_ROWS = 1000


class TableSource:
    """A source of messages (``MessageSource`` of the engine), built from chunks."""

    blocking = True
    descriptor: int | None = None

    def __init__(self, chunks: Iterator[Chunk]) -> None:
        self.ended = False
        self._chunks = chunks

    def poll(self, timeout: float | None = None) -> Chunk | None:
        """Return the next rows. Raises the errors of reading the file."""
        try:
            return next(self._chunks)
        except StopIteration:
            self.ended = True
            return None
        except SowError:
            self.ended = True
            raise


def iterate_column_chunks(
    name: str, stream: BinaryIO, made: RowTarget, *, parquet: bool, partitions: PartitionValues | None = None
) -> Iterator[Chunk]:
    """The messages of a Parquet or Arrow file, by its types, with the columns of ``partitions``."""
    file = open_columns(name, stream, parquet=parquet)
    yield from _column_chunks(name, _add_partitions(file, partitions) if partitions else file, made)


def _add_partitions(file: ColumnFile, partitions: PartitionValues) -> ColumnFile:
    names = file.schema.names
    more = {name: value for name, value in partitions.items() if name not in names}
    # A complete message gets no further fields.
    if not more or _InputColumns(file.schema).is_payload:
        return file
    schema = file.schema
    for field in build_partition_fields(more):
        schema = schema.append(field)
    leaves = [*file.leaves, *[None] * len(more)] if file.leaves else file.leaves
    return ColumnFile(schema, leaves, (append_partitions(batch, more) for batch in file.batches))


def open_frame_source(name: str, frame: object, made: RowTarget) -> TableSource:
    """The rows of a data frame or table, by its types: any object with ``__arrow_c_stream__`` or ``__arrow_c_array__``,
    such as those of pandas, polars and pyarrow.

    Raises TypeError for an object without columns, such as a single column.
    """
    return TableSource(_column_chunks(name, open_frame(frame), made))


def _column_chunks(name: str, file: ColumnFile, made: RowTarget) -> Iterator[Chunk]:
    refuse_repeated_names(file.schema, name)
    if CHANGE_TYPE_COLUMN in _InputColumns(file.schema).metadata:
        raise make_changes_error(name)
    try:
        rows_of = _build_row_reader(file, made)
    except InputError as problem:
        problem.place = name
        raise
    start = 1
    for batch in file.batches:
        payloads, envelopes = rows_of(batch)
        yield _column_chunk(payloads, envelopes, start)
        start += len(batch)


class _InputColumns:
    """The columns of a file: ``metadata``, and the ``fields`` of messages with their ``names``."""

    def __init__(self, schema: pyarrow.Schema) -> None:
        mark = parse_mark((schema.metadata or {}).get(MARK_KEY))
        self.metadata = find_metadata(schema.names, mark)
        # A table of ours may have been rewritten by pandas, which describes its index; a member is no index.
        passed = self.metadata | (find_unnamed_indexes(schema) - (frozenset() if mark is None else mark.members))
        self.fields = [field for field in schema if field.name not in passed]
        self.names = [field.name for field in self.fields]
        self.is_payload = self.names == [PAYLOAD_COLUMN] and (mark is None or PAYLOAD_COLUMN not in mark.members)
        """True if the only field has complete messages."""


ColumnRows: TypeAlias = "tuple[Sequence[bytes | Exception | None], list[Envelope] | None]"


def _column_chunk(found: Sequence[bytes | Exception | None], envelopes: list[Envelope] | None, start: int) -> Chunk:
    """The messages of a batch, whose first row has the number ``start``."""
    end = start + len(found)
    payloads = [one for one in found if isinstance(one, bytes)]
    if len(payloads) == len(found):
        return _build_chunk(payloads, range(start, end), envelopes or [], [], end)
    lines = []
    kept = []
    refused = []
    for place, one in enumerate(found):
        if isinstance(one, bytes):
            lines.append(start + place)
            kept += envelopes[place : place + 1] if envelopes else []
        else:
            refused.append(build_refused_frame(start + place, one or ValueError("its payload is null"), None))
    return _build_chunk(payloads, lines, kept, refused, end)


def _build_row_reader(file: ColumnFile, made: RowTarget) -> Callable[[pyarrow.RecordBatch], ColumnRows]:
    """Return the function that builds messages and their envelopes from a batch."""
    schema = file.schema
    columns = _InputColumns(schema)
    leaves = group_leaves(schema, file.leaves)
    payloads = _build_payload_reader(columns, made, list(chain.from_iterable(leaves[name] for name in columns.names)))
    texts: dict[str, Callable[[pyarrow.Array], list[TextCell]]] = {}
    for name in (*(("_user_key", "_sow_key") if made.by_user else ()), "_correlation_id"):
        if name in columns.metadata:
            texts[name] = build_text_reader(schema.field(name), leaves[name])

    def rows(batch: pyarrow.RecordBatch) -> ColumnRows:
        messages = payloads(batch)
        if not texts:
            return messages, None
        found = {name: read(batch.column(name)) for name, read in texts.items()}
        nothing: list[TextCell] = [None] * len(batch)
        keys = [found.get(name, nothing) for name in ("_user_key", "_sow_key", "_correlation_id")]
        pairs = list(map(wrap_message, messages, *keys))
        return [message for message, _ in pairs], [envelope for _, envelope in pairs]

    return rows


def _build_payload_reader(
    columns: _InputColumns, made: RowTarget, leaves: Sequence[str | None]
) -> Callable[[pyarrow.RecordBatch], Sequence[bytes | Exception | None]]:
    """Return the function that builds the message of each row of a batch. Raises UsageError ``SOW-EXC-010``."""
    fields, names = columns.fields, columns.names
    if not columns.is_payload or is_nested(fields[0].type):
        maker = MessageMaker(fields, made.kind, made.root, leaves=leaves)
        return lambda batch: maker.encode_rows(build_struct_array(batch, names))
    if not is_text(fields[0].type):
        raise UsageError("SOW-EXC-010", "its column payload is neither bytes nor a string")
    read = build_value_reader(fields[0], ReaderContext(Form(lambda value: value, str), False, leaves=iter(leaves)))

    def payloads(batch: pyarrow.RecordBatch) -> Sequence[bytes | Exception | None]:
        values, refused = read(batch.column(PAYLOAD_COLUMN))
        found = [one.encode() if isinstance(one, str) else one for one in values]
        for row, one in refused.items():
            found[row] = RowRefused(f"column {PAYLOAD_COLUMN}{one.path}: {one.why}")
        return found

    return payloads


def wrap_message(
    message: bytes | Exception | None, user_key: TextCell, sow_key: TextCell, correlation_id: TextCell
) -> tuple[bytes | Exception | None, Envelope]:
    if isinstance(user_key, Exception):
        return user_key, Envelope()
    if isinstance(sow_key, Exception):
        return sow_key, Envelope()
    if isinstance(correlation_id, Exception):
        return correlation_id, Envelope()
    return message, Envelope(sow_key=user_key or sow_key, correlation_id=correlation_id)


def chunk_messages(rows: Iterable[Any], message: Callable[[Any], tuple[bytes, Envelope | None]]) -> Iterator[Chunk]:
    """Chunks of the messages of rows, which are numbered from 1; offsets are those numbers."""
    payloads: list[bytes] = []
    lines: list[int] = []
    envelopes: list[Envelope] = []
    refused: list[RefusedFrame] = []
    end = 0
    for line, row in enumerate(rows, 1):
        end = line + 1
        try:
            payload, envelope = message(row)
        except (SowError, ValueError, TypeError, KeyError, OverflowError) as problem:
            refused.append(build_refused_frame(line, problem, None))
        else:
            payloads.append(payload)
            lines.append(line)
            if envelope is not None:
                envelopes.append(envelope)
        if len(payloads) + len(refused) >= CHUNK_ROWS:
            yield _build_chunk(payloads, lines, envelopes, refused, end)
            payloads, lines, envelopes, refused = [], [], [], []
    if payloads or refused:
        yield _build_chunk(payloads, lines, envelopes, refused, end)


def _build_chunk(
    payloads: list[bytes], lines: Sequence[int], envelopes: list[Envelope], refused: list[RefusedFrame], end: int
) -> Chunk:
    return Chunk(payloads, lambda: (lines, lines), end, refused, envelopes=envelopes or None)
