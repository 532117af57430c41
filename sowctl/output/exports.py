"""The format of a file by its extension, for ``export`` and ``--output``: each extension has a row here."""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, NoReturn, Protocol

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from sowctl.errors import UsageError
from sowctl.output.formats import Renderer, RenderResult
from sowctl.output.options import Column, OutputOptions
from sowctl.output.records import CHANGE_NAMES, Batch, is_own_view
from sowctl.output.replaced_bytes import ReplacementWatch
from sowctl.values.paths import Path, Step


class Ending(Struct, frozen=True):
    """One row: extensions, module and class in ``sowctl.output``, and the name of the format, as in ``--format``.

    ``packed``: it may be followed by .gz or .zst.
    """

    names: tuple[str, ...]
    module: str
    renderer: str
    format: str
    packed: bool = False


ENDINGS = (
    Ending(("parquet", "pq"), "arrow_formats", "ParquetRenderer", "parquet"),
    Ending(("arrow", "feather", "ipc"), "arrow_formats", "FeatherRenderer", "arrow"),
    Ending(("arrows",), "arrow_formats", "ArrowRenderer", "arrow"),
    Ending(("sqlite", "sqlite3", "db"), "arrow_formats", "SqliteRenderer", "sqlite"),
    Ending(("msgpack",), "msgpackstream", "MsgpackRenderer", "msgpack"),
    Ending(("csv",), "delimited", "CsvRenderer", "csv", packed=True),
    Ending(("tsv",), "delimited", "TsvRenderer", "tsv", packed=True),
    Ending(("ndjson", "jsonl"), "ndjson", "NdjsonRenderer", "ndjson", packed=True),
    Ending(("json",), "jsonarray", "JsonRenderer", "json", packed=True),
)
COMPRESSION_SUFFIXES = ("gz", "zst")
_LABELS = {"parquet": "Parquet", "arrow": "Arrow", "sqlite": "SQLite", "msgpack": "MessagePack"}
MAX_LISTED_TOPICS = 5
"""Maximum number of topics to name in an error."""
_decode = msgspec.json.Decoder(dict[str, Raw]).decode


class NamedTarget(Protocol):
    """The target of rows: a topic, or a file without one."""

    @property
    def topic(self) -> Any:
        """The topic, which has a name; None for a file alone."""
        ...

    @property
    def path(self) -> Any:
        """The file."""
        ...


class RepeatableRecords(Iterable[Batch], Protocol):
    """Records that can be read again."""

    def iterate_again(self) -> Iterator[Batch]:
        """All records once more."""
        ...


def refuse_mixed_topics(targets: Sequence[NamedTarget], file: str | None = None) -> None:
    """Reject rows of several topics in one table that has no column for the topic.

    Raises UsageError ``SOW-EXC-013``.
    """
    topic_names = [one.topic.name if one.topic is not None else str(one.path) for one in targets]
    if len(topic_names) > 1:
        names = ", ".join(topic_names[:MAX_LISTED_TOPICS]) + (
            f" and {len(topic_names) - MAX_LISTED_TOPICS} more" if topic_names[MAX_LISTED_TOPICS:] else ""
        )
        raise UsageError(
            "SOW-EXC-013",
            f"{len(topic_names)} topics ({names}) cannot be written to one table without a column for the topic",
            place=file,
            hint="add --meta, which includes a column with the topic"
            + ("" if file is None else ", or write a file per topic: {topic} in FILE stands for its name"),
        )


_ENVELOPE_FORMATS = frozenset({"ndjson", "json"})
_WHOLE_MESSAGE_FORMATS = _ENVELOPE_FORMATS | {"msgpack"}


class FileFormat(Struct, frozen=True):
    """The extension of a file's name, followed by ``gz`` or ``zst``; None for those that it lacks."""

    ending: Ending | None
    packing: str | None

    def make_renderer(self, options: OutputOptions, table: str) -> Renderer:
        """The renderer of the extension; ``table`` is the name of the table of a database.

        Raises UsageError ``SOW-EXC-029`` for a name that SQLite reserves.
        """
        assert self.ending is not None
        module: Any = importlib.import_module(f"sowctl.output.{self.ending.module}")
        made: Any = getattr(module, self.ending.renderer)(options)
        if self.ending.renderer == "SqliteRenderer":
            _refuse_reserved(table)
            made.table = table
        renderer: Renderer = made
        return renderer


def _refuse_reserved(table: str) -> None:
    if table.lower().startswith("sqlite_"):
        raise UsageError(
            "SOW-EXC-029",
            f"SQLite reserves the table name {table!r}",
            hint="use another format, for example .duckdb, .parquet or .ndjson",
        )


def can_publish(format: str, *, meta: bool) -> bool:
    """Return whether records in this format are envelopes, which can be published elsewhere."""
    return meta and format in _ENVELOPE_FORMATS


def holds_whole_messages(format: str, *, meta: bool) -> bool:
    """Return whether records in this format contain the unchanged bytes of their messages."""
    return meta and format in _WHOLE_MESSAGE_FORMATS


def find_file_format(name: str) -> FileFormat:
    """The format of a file by its name."""
    parts = name.lower().rsplit("/", 1)[-1].split(".")
    packing = parts.pop() if parts[-1] in COMPRESSION_SUFFIXES else None
    ending = next((one for one in ENDINGS if len(parts) > 1 and parts[-1] in one.names), None)
    return FileFormat(ending, packing)


def refuse_compressed(name: str, format: str) -> NoReturn:
    """Reject a name that ends in .gz or .zst for a binary format. Raises UsageError ``SOW-EXC-002``."""
    stem, _, packing = name.rpartition(".")
    ending = find_file_format(stem).ending
    if ending is None or ending.format != format:
        # The name has the extension of another format, or none; the part before it is kept.
        stem = stem.rpartition(".")[0] if ending is not None else stem
        stem += "." + next(one.names[0] for one in ENDINGS if one.format == format)
    raise UsageError(
        "SOW-EXC-002",
        f"{_LABELS[format]} output cannot be written to a .{packing} file: {name!r}",
        hint=f"use {stem}; only text formats may end in .gz or .zst, for example .csv.{packing.lower()}",
    )


class Export:
    """Writes records to a file in the format of its extension.

    ``table`` is the name of the table of a database. Raises UsageError ``SOW-EXC-002`` for an unknown ending,
    ``SOW-EXC-029`` for a table name that SQLite reserves, ConfigError ``SOW-EXC-001``.
    """

    def __init__(self, name: str, table: str, *, meta: bool, changes: bool = False) -> None:
        """``changes``: the rows are those of a change feed, with its metadata."""
        self._format = find_file_format(name)
        ending, self.packing = self._format.ending, self._format.packing
        if ending is None:
            known = ", ".join("." + name for one in ENDINGS for name in one.names) + ", .duckdb"
            raise UsageError(
                "SOW-EXC-002",
                f"{name!r} does not end with a known format",
                hint=f"use one of {known}; text formats may end with .gz or .zst",
            )
        if self.packing is not None and not ending.packed:
            refuse_compressed(name, ending.format)
        self._ending = ending
        self._options = OutputOptions(meta=True, front=CHANGE_NAMES) if changes else OutputOptions(meta=meta)
        self._table = table
        # Created once before anything is read, so that a missing package is reported at once.
        self._make_renderer(self._options)

    @property
    def is_table(self) -> bool:
        """True if the format is a table of rows, in which only a column distinguishes topics."""
        return self._ending.module in ("arrow_formats", "delimited")

    def write(self, result: RepeatableRecords, out: BinaryIO) -> RenderResult:
        """Write all records."""
        is_exact = holds_whole_messages(self._ending.format, meta=self._options.meta)
        watch = None if is_exact else ReplacementWatch(result, self._options)
        records: RepeatableRecords = result if watch is None else watch
        batches: Iterable[Batch] = records
        options = self._options
        if self._ending.module == "delimited":
            # The header comes first, so all members are collected before.
            options = replace(options, columns=_collect_columns(records, options))
            batches = records.iterate_again()
        with open_compressed(out, self.packing) as stream:
            written = self._make_renderer(options).write(batches, stream)
        return written if watch is None else replace(written, warnings=watch.format_warnings())

    def _make_renderer(self, options: OutputOptions) -> Renderer:
        return self._format.make_renderer(options, self._table)


def _collect_columns(batches: Iterable[Batch], options: OutputOptions) -> tuple[Column, ...]:
    """The members of all records, in order of first appearance, after the metadata."""
    from sowctl.output.members import read_members

    names: dict[str, None] = {}
    for batch in batches:
        own = is_own_view(batch)
        for payload in batch.payloads:
            try:
                found: Iterable[str] = _decode(payload if own else batch.members_view(payload))
            except (ValueError, RecursionError):
                found = read_members(payload, batch.members_view)
            names.update(dict.fromkeys(found))
    front: tuple[Column, ...] = options.front if options.meta else ()
    return (*front, *(Path((Step(name),)) for name in names))


class _DeferredFlush(io.RawIOBase):
    """A stream that flushes only at its end: compressed output would become larger with each flush."""

    def __init__(self, stream: Any) -> None:
        self._write = stream.write

    def writable(self) -> bool:
        """True."""
        return True

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]  # all that is ever written here
        """Write all of the data."""
        self._write(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing."""


@contextmanager
def open_compressed(out: BinaryIO, packing: str | None) -> Iterator[BinaryIO]:
    """A stream that is compressed into ``out``; ``out`` itself if ``packing`` is None."""
    stream: Any = out
    if packing == "gz":
        from isal import igzip

        # Without a name and a time in it, so that equal records give equal bytes.
        packer: Any = igzip.IGzipFile
        with packer("", "wb", 2, out, mtime=0) as stream:
            yield _DeferredFlush(stream)  # type: ignore[misc]  # what renderers use of a stream
    elif packing == "zst":
        import zstandard

        with zstandard.ZstdCompressor().stream_writer(out, closefd=False) as stream:
            yield _DeferredFlush(stream)  # type: ignore[misc]  # as above
    else:
        yield out
