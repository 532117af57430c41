"""Part files of data sets that tasks write without Spark's writers: Parquet, ORC and lines of text.

Used if Spark has no file system for an output (:mod:`sowctl.spark.jobs.outputs.remote_datasets`). The driver reads
settings and options once, into a :class:`PartFormat`, with which each task opens files. Names, types and compression
are those of Spark's writers, so that data sets do not depend on the writer. An option that is not supported here is
rejected, not ignored.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from datetime import date
from typing import IO, TYPE_CHECKING, Any, Protocol

from sowctl.errors import UsageError
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

ROW_GROUP_BYTES = 64 << 20
"""Bytes of Arrow columns that a task buffers per row group, which is the unit of reading.

Spark's own limit is 128 MiB of encoded columns, in Java's memory; a Python worker has only the memory that remains."""
_PARQUET_CODECS = {
    "none": ("none", ""),
    "uncompressed": ("none", ""),
    "snappy": ("snappy", ".snappy"),
    "gzip": ("gzip", ".gz"),
    "zstd": ("zstd", ".zstd"),
    "lz4_raw": ("lz4", ".lz4raw"),
}
_ORC_CODECS = {
    "none": ("uncompressed", ""),
    "uncompressed": ("uncompressed", ""),
    "zlib": ("zlib", ".zlib"),
    "snappy": ("snappy", ".snappy"),
    "lz4": ("lz4", ".lz4"),
    "zstd": ("zstd", ".zstd"),
}
_LINE_CODECS = {
    "none": ("", ""),
    "uncompressed": ("", ""),
    "gzip": ("gzip", ".gz"),
    "bzip2": ("bz2", ".bz2"),
    "deflate": ("deflate", ".deflate"),
    "snappy": ("snappy", ".snappy"),
    "lz4": ("lz4_raw", ".lz4"),
}
"""Spark's name of a compression, Arrow's name, and the suffix in file names. LZO, Brotli and Parquet's old LZ4 are
missing, because Arrow does not write them, or Spark reads them only with additional packages."""
_PARQUET_TIME_FORMS = {"INT96": "int96", "TIMESTAMP_MILLIS": "ms"}
"""Values of Spark's setting for timestamps in Parquet; by default microseconds."""
_MAX_RECORDS_SETTING = "spark.sql.files.maxRecordsPerFile"
_ENCODINGS = {
    "UTF-8": ("utf-8", b""),
    "US-ASCII": ("ascii", b""),
    "ISO-8859-1": ("latin-1", b""),
    "UTF-16": ("utf-16-be", b"\xfe\xff"),
    "UTF-16BE": ("utf-16-be", b""),
    "UTF-16LE": ("utf-16-le", b""),
    "UTF-32": ("utf-32-be", b""),
}
"""Encodings of Spark's CSV, as Java writes them: Python's name, and the bytes at the start of a file."""
_GREGORIAN_START = date(1582, 10, 15)
_PACK_CHUNK_BYTES = 64 << 10
"""Bytes per block of Hadoop's Snappy and LZ4; the buffers of its readers have 256 KiB."""


class PartFormat(DescribedStruct, frozen=True):
    """Format of the part files of one data set.

    ``kind`` is ``parquet``, ``orc`` or ``lines``; ``codec`` is Arrow's name of the compression; ``suffix`` the end of
    file names. ``schema`` has the columns of the rows. ``most`` is the maximum of rows per file, 0: unlimited. ``held``
    is the size of a row group in bytes of columns. ``times`` is the form of timestamps in Parquet: INT96, or a unit.
    Lines end with ``end``, and a file starts with ``begin``.
    """

    kind: str
    codec: str
    suffix: str
    schema: pyarrow.Schema
    most: int = 0
    held: int = ROW_GROUP_BYTES
    times: str = "us"
    encoding: str = "utf-8"
    begin: bytes = b""
    end: bytes = b"\n"

    def open(self, file: IO[bytes]) -> PartFile:
        """Return a part file that writes to ``file``, on an executor."""
        if self.kind == "lines":
            return _Lines(self, file)
        return _Columns(self, _parquet(self, file) if self.kind == "parquet" else _orc(self, file))


class PartFile(Protocol):
    """A part file that is being written."""

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Add rows."""
        ...

    def close(self) -> None:
        """Write buffered rows and the end of the file."""
        ...


class WriterOptions:
    """The options that a user has given for Spark's writer; their names are case-insensitive."""

    def __init__(self, kind: str, given: Mapping[str, str]) -> None:
        self.kind = kind
        self._left = {name.lower(): value for name, value in given.items()}

    def take_text(self, *names: str, default: str = "") -> str:
        """Remove these options; returns the value of the first one that is given, or ``default``."""
        found = [self._left.pop(name) for name in names if name in self._left]
        return found[0] if found else default

    def take_number(self, *names: str, default: int = 0) -> int:
        """Like :meth:`take_text`, as a number. Raises UsageError ``SOW-SPK-168``."""
        text = self.take_text(*names, default=str(default))
        try:
            return int(text)
        except ValueError:
            raise UsageError("SOW-SPK-168", f"option {names[0]} of the writer must be a number, not {text!r}") from None

    def take_codec(self, known: Mapping[str, tuple[str, str]], *names: str, default: str) -> tuple[str, str]:
        """Return Arrow's name of the compression, and the suffix of file names. Raises UsageError ``SOW-SPK-168``."""
        text = self.take_text(*names, default=default)
        if text.lower() not in known:
            raise UsageError(
                "SOW-SPK-168",
                f"compression {text!r} of {self.kind} is not supported at a URL whose scheme Spark does not know",
                hint="one of " + ", ".join(known),
            )
        return known[text.lower()]

    def require_empty(self, *known: str) -> None:
        """Raise UsageError ``SOW-SPK-168`` if an option remains, which is one that has no effect."""
        for name in self._left:
            raise UsageError(
                "SOW-SPK-168",
                f"option {name} of Spark's {self.kind} writer has no effect at a URL whose scheme Spark does not know",
                hint=f"remove it; supported there for {self.kind}: " + ", ".join(known),
            )


def build_part_format(
    spark: SparkSession, kind: str, given: Mapping[str, str], schema: StructType, header: str | None = None
) -> PartFormat:
    """Build the part format from session settings, options, and columns (for lines, one column). ``header`` is the
    first line of CSV files.

    Raises UsageError ``SOW-SPK-168`` for an option or value that is not supported.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    made = to_arrow_schema(schema, timezone="UTC")
    chosen = WriterOptions(kind, given)
    most = max(0, chosen.take_number("maxrecordsperfile", default=int(spark.conf.get(_MAX_RECORDS_SETTING) or 0)))
    if kind in ("ndjson", "csv"):
        return _lines_format(chosen, made, most, header)
    setting = str(spark.conf.get(f"spark.sql.{kind}.compression.codec"))
    # With a writer version, Spark's readers do not rebase dates before 1582.
    told = {"org.apache.spark.version": spark.version}
    if kind == "orc":
        codec, mark = chosen.take_codec(_ORC_CODECS, "compression", "orc.compress", default=setting)
        chosen.require_empty("compression", "maxRecordsPerFile")
        return PartFormat(kind, codec, f"{mark}.orc", _with_spark_types(made).with_metadata(told), most)
    codec, mark = chosen.take_codec(_PARQUET_CODECS, "compression", "parquet.compression", default=setting)
    held = chosen.take_number("parquet.block.size", default=ROW_GROUP_BYTES)
    chosen.require_empty("compression", "maxRecordsPerFile", "parquet.block.size")
    times = _PARQUET_TIME_FORMS.get(str(spark.conf.get("spark.sql.parquet.outputTimestampType")), "us")
    if times == "int96" and any(_has_local_times(one.type) for one in made):
        # Arrow uses INT96 for all timestamps of a file or none, but Spark does not read INT96 as timestamps without a
        # zone.
        times = "us"
    # Spark's readers restore the exact types from this metadata.
    told["org.apache.spark.sql.parquet.row.metadata"] = schema.json()
    return PartFormat(kind, codec, f"{mark}.parquet", made.with_metadata(told), most, held, times)


def _lines_format(chosen: WriterOptions, schema: pyarrow.Schema, most: int, header: str | None) -> PartFormat:
    codec, mark = chosen.take_codec(_LINE_CODECS, "compression", "codec", default="none")
    end = chosen.take_text("linesep", default="\n")
    if chosen.kind == "ndjson":
        chosen.require_empty("compression", "lineSep", "maxRecordsPerFile")
        # The suffix is that of Spark's text writer.
        return PartFormat("lines", codec, f".txt{mark}", schema, most, end=end.encode())
    named = chosen.take_text("encoding", "charset", default="UTF-8").upper()
    if named not in _ENCODINGS:
        raise UsageError("SOW-SPK-168", f"unknown CSV encoding {named!r}", hint="one of " + ", ".join(_ENCODINGS))
    encoding, begin = _ENCODINGS[named]
    if header is not None:
        begin += (header + end).encode(encoding, "replace")
    ends = end.encode(encoding, "replace")
    return PartFormat("lines", codec, f".csv{mark}", schema, most, encoding=encoding, begin=begin, end=ends)


def _has_local_times(kind: pyarrow.DataType) -> bool:
    import pyarrow.types as t

    if t.is_timestamp(kind):
        return kind.tz is None
    return any(_has_local_times(kind.field(place).type) for place in range(kind.num_fields))


def _with_spark_types(schema: pyarrow.Schema) -> pyarrow.Schema:
    """Return the schema with timestamps without a zone as integers and an attribute, as Spark writes them in ORC."""
    import pyarrow as pa
    import pyarrow.types as t

    def turned(kind: pyarrow.DataType) -> pyarrow.DataType:
        if t.is_timestamp(kind) and kind.tz is None:
            return pa.int64()
        if t.is_struct(kind):
            return pa.struct([field_of(kind.field(place)) for place in range(kind.num_fields)])
        if t.is_list(kind):
            return pa.list_(field_of(kind.value_field))
        if t.is_map(kind):
            return pa.map_(kind.key_type, field_of(kind.item_field))
        return kind

    def field_of(field: pyarrow.Field) -> pyarrow.Field:
        local = t.is_timestamp(field.type) and field.type.tz is None
        made = field.with_type(turned(field.type))
        return made.with_metadata({"spark.sql.catalyst.type": "timestamp_ntz"}) if local else made

    return pa.schema([field_of(one) for one in schema])


def _parquet(form: PartFormat, file: IO[bytes]) -> Any:
    import pyarrow.parquet as pq

    writer = pq.ParquetWriter(
        file,
        form.schema,
        compression=form.codec,
        use_deprecated_int96_timestamps=form.times == "int96",
        coerce_timestamps="ms" if form.times == "ms" else None,
        allow_truncated_timestamps=True,
        store_decimal_as_integer=True,
        # With Arrow's copy of the schema, Arrow's readers would return other types than for Spark's files.
        store_schema=False,
    )
    writer.add_key_value_metadata(form.schema.metadata)
    return writer


def _orc(form: PartFormat, file: IO[bytes]) -> Any:
    from pyarrow import orc

    return orc.ORCWriter(file, compression=form.codec)


class _Columns:
    """A Parquet or ORC file; rows are buffered until they fill a row group."""

    def __init__(self, form: PartFormat, writer: Any) -> None:
        self._form = form
        self._writer = writer
        self._held: list[pyarrow.RecordBatch] = []
        self._bytes = 0

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Add rows."""
        self._held.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= self._form.held:
            self._flush()

    def close(self) -> None:
        """Write buffered rows and the end of the file."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        import pyarrow as pa

        held, self._held, self._bytes = self._held, [], 0
        if not held and self._form.kind == "parquet":
            return
        # The ORC writer gets its columns from the first table, so an empty file needs an empty table.
        table = pa.Table.from_batches(held, held[0].schema if held else self._form.schema)
        table = table.cast(self._form.schema)
        if self._form.kind == "parquet":
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))
            return
        for name, column in zip(table.schema.names, table.columns, strict=True):
            for chunk in column.chunks:
                _require_orc_times(chunk, name)
        self._writer.write(table)


def _require_orc_times(values: pyarrow.Array, name: str) -> None:
    """Raise UsageError ``SOW-SPK-169`` for a time that Java's ORC readers do not read as Arrow writes it.

    For instants before 1970, Arrow writes a negative fraction of a second, on which they fail. Arrow also does not
    record the calendar, so that they read days before October 15th, 1582, as days of the Julian calendar.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as t

    kind = values.type
    if t.is_struct(kind):
        for place in range(kind.num_fields):
            _require_orc_times(values.field(place), f"{name}.{kind.field(place).name}")
    elif t.is_list(kind):
        _require_orc_times(values.flatten(), name)
    elif t.is_map(kind):
        _require_orc_times(values.items, name)
    elif t.is_date(kind) or t.is_timestamp(kind):
        wrong = pc.less(values, pa.scalar(_GREGORIAN_START, pa.date32()).cast(kind))
        if t.is_timestamp(kind):
            micros = values.cast(pa.int64())
            rest = pc.subtract(micros, pc.multiply(pc.divide(micros, 1_000_000), 1_000_000))
            wrong = pc.or_(wrong, pc.less(rest, 0))
        if pc.any(wrong).as_py():
            raise UsageError(
                "SOW-SPK-169",
                f"column {name} has a time that ORC does not support at a URL whose scheme Spark does "
                "not know: before 1582, or before 1970 with a fraction of a second",
                hint="write parquet, which supports all times; or give Spark the jars for the scheme",
            )


class _Lines:
    """A file of lines; each row is a complete line."""

    def __init__(self, form: PartFormat, file: IO[bytes]) -> None:
        self._form = form
        self._sink = _open_compressor(form.codec, file)
        if form.begin:
            self._sink.write(form.begin)

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Add rows."""
        import pyarrow as pa
        import pyarrow.compute as pc

        form, lines = self._form, batch.column(0)
        if form.encoding != "utf-8":
            rows = [line.encode(form.encoding, "replace") + form.end for line in lines.to_pylist()]
            self._sink.write(b"".join(rows))
            return
        # The texts of a column are contiguous, so with line ends appended, the buffer is the content of the file.
        wide = pa.large_binary()
        ended = pc.binary_join_element_wise(lines.cast(wide), pa.scalar(form.end, wide), pa.scalar(b"", wide))
        _, offsets, texts = ended.buffers()
        bounds = memoryview(offsets).cast("q")
        self._sink.write(texts[bounds[ended.offset] : bounds[ended.offset + len(ended)]])

    def close(self) -> None:
        """Write the end of the file."""
        self._sink.close()


def _open_compressor(codec: str, file: IO[bytes]) -> Any:
    """Open a writer that compresses lines, or return ``file`` without a codec. Closing the writer finishes the file."""
    import pyarrow as pa

    if not codec:
        return file
    if codec in ("snappy", "lz4_raw"):
        return _Blocks(pa.Codec(codec), file)
    if codec == "deflate":
        return _DeflateStream(file)
    return pa.CompressedOutputStream(file, codec)


class _DeflateStream:
    """Hadoop's deflate format: one zlib stream."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._stream = zlib.compressobj()

    def write(self, content: Any) -> None:
        self._file.write(self._stream.compress(content))

    def close(self) -> None:
        self._file.write(self._stream.flush())


class _Blocks:
    """Hadoop's format of Snappy and LZ4: blocks, each preceded by its uncompressed and its compressed size."""

    def __init__(self, codec: Any, file: IO[bytes]) -> None:
        self._codec = codec
        self._file = file

    def write(self, content: Any) -> None:
        whole = memoryview(content)
        for start in range(0, len(whole), _PACK_CHUNK_BYTES):
            part = bytes(whole[start : start + _PACK_CHUNK_BYTES])
            packed = self._codec.compress(part, asbytes=True)
            self._file.write(struct.pack(">II", len(part), len(packed)) + packed)

    def close(self) -> None:
        """Do nothing, because the format has no buffer and no end mark."""
