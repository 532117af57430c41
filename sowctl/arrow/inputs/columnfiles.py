"""Rows of Parquet and Arrow files and of data frames, batch by batch, for :mod:`sowctl.arrow.inputs.table_source`."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec
from msgspec import Struct

from sowctl.arrow.inputs.input_formats import ARROW_FILE_MAGIC
from sowctl.errors import InputError
from sowctl.messages.framing.input_files import peek_input

if TYPE_CHECKING:
    import pyarrow

BATCH_ROWS = 1000
_PANDAS_INDEX_PATTERN = re.compile(r"__index_level_\d+__")


class ColumnFile(Struct, frozen=True):
    """The rows of a Parquet or Arrow file: its ``schema``, the logical types of Parquet's leaf columns in order, and
    batches of at most 1,000 rows."""

    schema: Any
    leaves: Sequence[str | None]
    batches: Iterator[Any]


def open_columns(name: str, stream: BinaryIO, *, parquet: bool) -> ColumnFile:
    """Open a Parquet or Arrow file. Raises InputError ``SOW-EXC-012`` for any other or a damaged file, also later."""
    with _require_readable(name, parquet):
        return _open_parquet(name, stream) if parquet else _open_arrow(name, stream)
    raise AssertionError


def open_frame(frame: object) -> ColumnFile:
    """Open a data frame or table: any object with ``__arrow_c_stream__`` or ``__arrow_c_array__``. Raises TypeError for
    one without columns."""
    import pyarrow as pa

    given: Any = frame
    try:
        # A table is not copied; a stream is read incrementally.
        is_stream = hasattr(given, "__arrow_c_stream__")
        reader = pa.RecordBatchReader.from_stream(given) if is_stream else pa.table(given).to_reader()
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as problem:
        what = type(frame).__name__
        raise TypeError(f"rows come from a data frame or table, and {what} has no columns: {problem}") from problem
    return ColumnFile(_check_schema_names(reader.schema), (), _slice_batches(map(check_batch, reader)))


def find_unnamed_indexes(schema: pyarrow.Schema) -> frozenset[str]:
    """Return the columns that are an unnamed index of pandas, as in a filtered frame: those named in the metadata of
    pandas."""
    try:
        described = msgspec.json.decode((schema.metadata or {}).get(b"pandas", b"{}"))
        indexes = described.get("index_columns", ())
        return frozenset(one for one in indexes if isinstance(one, str) and _PANDAS_INDEX_PATTERN.fullmatch(one))
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError, TypeError):
        return frozenset()


def _slice_batches(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    for batch in batches:
        for start in range(0, len(batch), BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)


@contextmanager
def _require_readable(name: str, parquet: bool) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        words = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        what = "Parquet" if parquet else "Arrow"
        raise InputError("SOW-EXC-012", f"cannot read the file as {what}: {words}", place=name) from None


def _open_parquet(name: str, stream: BinaryIO) -> ColumnFile:
    import pyarrow as pa
    from pyarrow import parquet as pq

    file = pq.ParquetFile(stream)
    columns = [file.schema.column(place) for place in range(len(file.schema))]
    types = [
        _restore_durations(one.type, stored)
        for one, stored in zip(file.schema_arrow, _read_stored_types(file), strict=True)
    ]
    changed = [place for place, kind in enumerate(types) if kind != file.schema_arrow.field(place).type]
    schema = _check_schema_names(_retype_schema(file.schema_arrow, types))
    # The older of the two has intervals, the newer one UUIDs.
    leaves = [one.logical_type.type if one.converted_type == "NONE" else one.converted_type for one in columns]

    def batches() -> Iterator[pyarrow.RecordBatch]:
        with _require_readable(name, True), ExitStack() as held:
            found = file.iter_batches(BATCH_ROWS)
            if any(one.physical_type == "INT96" for one in columns):
                again = held.enter_context(_reopen_stream(stream))
                coarse = pq.ParquetFile(again, coerce_int96_timestamp_unit="us")
                found = map(_merge_exact_times, found, coarse.iter_batches(BATCH_ROWS))
            for batch in found:
                arrays = batch.columns
                for place in changed:
                    arrays[place] = arrays[place].cast(types[place])
                yield check_batch(pa.RecordBatch.from_arrays(arrays, schema=schema) if changed else batch)

    return ColumnFile(schema, leaves, batches())


def _read_stored_types(file: Any) -> list[pyarrow.DataType | None]:
    """The types that an Arrow writer stored for the columns; None if the file has none."""
    import pyarrow as pa

    text = (file.metadata.metadata or {}).get(b"ARROW:schema")
    found: pyarrow.Schema = file.schema_arrow
    if text is not None:
        # An unreadable stored schema is ignored; the columns are the same without it.
        with suppress(pa.ArrowException, ValueError):
            stored = pa.ipc.read_schema(pa.py_buffer(binascii.a2b_base64(text)))
            if stored.names == found.names:
                return [one.type for one in stored]
    return [None] * len(found)


def _restore_durations(kind: pyarrow.DataType, stored: pyarrow.DataType | None) -> pyarrow.DataType:
    """``kind``, with durations restored where the writer had dictionaries of them: Parquet stores whole numbers without
    a unit, and pyarrow restores the type of durations, but not within dictionaries."""
    import pyarrow as pa
    import pyarrow.types as t

    if stored is None:
        return kind
    if t.is_dictionary(stored):
        return stored.value_type if t.is_duration(stored.value_type) and t.is_int64(kind) else kind
    if not (t.is_nested(kind) and kind.id == stored.id and kind.num_fields == stored.num_fields):
        return kind
    if t.is_map(kind):
        return pa.map_(kind.key_type, _restore_durations(kind.item_type, stored.item_type))
    inner = [_restore_durations(kind.field(place).type, stored.field(place).type) for place in range(kind.num_fields)]
    if all(one == kind.field(place).type for place, one in enumerate(inner)):
        return kind
    if t.is_struct(kind):
        return pa.struct([kind.field(place).with_type(one) for place, one in enumerate(inner)])
    if t.is_list(kind) or t.is_large_list(kind):
        return (pa.list_ if t.is_list(kind) else pa.large_list)(kind.field(0).with_type(inner[0]))
    if t.is_fixed_size_list(kind):
        return pa.list_(kind.field(0).with_type(inner[0]), kind.list_size)
    return kind


def _retype_schema(schema: pyarrow.Schema, types: Sequence[pyarrow.DataType]) -> pyarrow.Schema:
    import pyarrow as pa

    return pa.schema([field.with_type(kind) for field, kind in zip(schema, types, strict=True)], schema.metadata)


def _reopen_stream(stream: BinaryIO) -> BinaryIO:
    """Open the same file again: two readers of one stream would move each other's offset."""
    if isinstance(stream, BytesIO):
        return BytesIO(stream.getvalue())
    name = getattr(stream, "name", None)
    # A temporary copy has no name, and its descriptor opened again has an offset of its own.
    return Path(name if isinstance(name, str) else f"/proc/self/fd/{stream.fileno()}").open("rb")


def _merge_exact_times(fine: pyarrow.RecordBatch, coarse: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    """Combine a batch whose 96-bit timestamps were read as nanoseconds and as microseconds, using the valid ones.

    Outside the years 1677 to 2262 nanoseconds wrap around, and pyarrow does not report it. Raises OSError for columns
    that have both such times and nanoseconds.
    """
    import pyarrow as pa

    columns = []
    for one, other in zip(fine.columns, coarse.columns, strict=True):
        if one.type == other.type:
            columns.append(one)
        elif other.cast(one.type, safe=False).equals(one):
            # Both wrap around alike, so no part is below a microsecond.
            columns.append(other)
        else:
            try:
                other.cast(one.type)
            except pa.ArrowInvalid:
                raise OSError("timestamps of 96 bits have nanoseconds, and years beyond 1677 to 2262") from None
            columns.append(one)
    return pa.RecordBatch.from_arrays(columns, fine.schema.names)


def _open_arrow(name: str, stream: BinaryIO) -> ColumnFile:
    from pyarrow import ipc

    begin, stream = peek_input(stream, len(ARROW_FILE_MAGIC))
    is_file = begin == ARROW_FILE_MAGIC
    reader = ipc.open_file(stream) if is_file else ipc.open_stream(stream)
    schema = _check_schema_names(reader.schema)

    def batches() -> Iterator[pyarrow.RecordBatch]:
        with _require_readable(name, False):
            numbers = range(reader.num_record_batches) if is_file else ()
            yield from _slice_batches(map(check_batch, map(reader.get_batch, numbers) if is_file else iter(reader)))

    return ColumnFile(schema, (), batches())


def _check_schema_names(schema: pyarrow.Schema) -> pyarrow.Schema:
    """Check that the names of a schema are UTF-8, by reading them. Raises UnicodeDecodeError."""
    assert len(schema.names) == len(schema)
    return schema


def check_batch(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
    """Check that the texts of a batch are UTF-8, and its parts consistent: files are not trusted.

    Raises ArrowException. Dates, times and decimals may be outside of their types: only their rows are refused.
    """
    for array in batch.columns:
        _check_array(array)
    return batch


def _check_array(array: pyarrow.Array) -> None:
    import pyarrow as pa
    import pyarrow.types as t

    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        kind = array.type
        # Any bytes are accepted here: the readers check the values themselves.
        if t.is_date64(kind) or t.is_time(kind):
            array.view(pa.int32() if kind.bit_width == 32 else pa.int64()).validate(full=True)
        elif t.is_decimal(kind):
            array.view(pa.binary(kind.byte_width)).validate(full=True)
        else:
            children = _child_arrays(array)
            if not children:
                raise
            for child in children:
                _check_array(child)
            _empty_containers(array).validate(full=True)


def _child_arrays(array: pyarrow.Array) -> list[pyarrow.Array]:
    import pyarrow as pa
    import pyarrow.types as t

    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return [array.storage]
    if t.is_dictionary(kind):
        return [array.dictionary]
    if t.is_run_end_encoded(kind):
        return [array.run_ends, array.values]
    if t.is_struct(kind) or t.is_union(kind):
        return [array.field(place) for place in range(kind.num_fields)]
    return [array.values] if kind.num_fields else []


def _empty_containers(array: pyarrow.Array) -> pyarrow.Array:
    """An array with empty lists, structs and so on instead of its children: its references must be valid. Raises
    ArrowInvalid."""
    import pyarrow as pa
    import pyarrow.types as t

    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return pa.nulls(0)
    if t.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(array.indices, pa.nulls(len(array.dictionary)))
    if t.is_run_end_encoded(kind):
        return pa.RunEndEncodedArray.from_arrays(array.run_ends, pa.nulls(len(array.values)))
    nothing = pa.field("", pa.null())
    if t.is_struct(kind) or t.is_union(kind):
        inner = [nothing] * kind.num_fields
        end = array.offset + len(array)
        is_dense = t.is_union(kind) and kind.mode == "dense"
        lengths = [len(array.field(place)) if is_dense else end for place in range(kind.num_fields)]
        made = pa.union(inner, kind.mode, kind.type_codes) if t.is_union(kind) else pa.struct(inner)
    else:
        lengths = [len(array.values)]
        makers = (
            (t.is_large_list, pa.large_list),
            (t.is_list_view, pa.list_view),
            (t.is_large_list_view, pa.large_list_view),
            (t.is_fixed_size_list, lambda one: pa.list_(one, kind.list_size)),
        )
        # A map has the layout of a list of its entries.
        made = next((make for is_kind, make in makers if is_kind(kind)), pa.list_)(nothing)
    return pa.Array.from_buffers(
        made,
        len(array),
        array.buffers()[: made.num_buffers],
        offset=array.offset,
        children=[pa.nulls(length) for length in lengths],
    )
