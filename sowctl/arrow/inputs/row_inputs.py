"""Open files and streams of rows as sources of messages.

Used by ``publish``, for files and standard input, and by all code that compares files with topics.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct

from sowctl.arrow.inputs.delimited_source import RowTarget, iterate_delimited_chunks
from sowctl.arrow.inputs.input_formats import (
    ARROW_FILE_MAGIC,
    DELIMITED_FORMATS,
    HEAD_BYTES,
    InputFacts,
    InputOptions,
    choose_format,
    detect_format,
)
from sowctl.arrow.inputs.table_source import TableSource, iterate_column_chunks
from sowctl.arrow.requirements import require_packages
from sowctl.errors import UsageError
from sowctl.messages.framing.frames import FrameReader
from sowctl.messages.framing.input_files import copy_to_path, copy_unseekable, find_descriptor, open_input, peek_input

if TYPE_CHECKING:
    from sowctl.arrow.inputs.partitions import PartitionValues
    from sowctl.messages.framing.chunks import Chunk


class RowInput(Struct):
    """An open input of rows: its name, its source of messages, and how it was read, complete at its end."""

    name: str
    source: TableSource | FrameReader
    facts: InputFacts


@contextmanager
def open_row_input(
    name: str,
    target: RowTarget,
    options: InputOptions,
    *,
    stream: BinaryIO | None = None,
    label: str | None = None,
    partitions: PartitionValues | None = None,
) -> Iterator[RowInput]:
    """Open a file of rows, or a given ``stream``, as messages of ``target``.

    ``label`` is its name in reports. ``partitions`` are columns that all rows of the file have in addition to its own,
    in the formats that have them. Raises UsageError ``SOW-EXC-002`` for an unknown format and ``SOW-EXC-010`` for
    messages that cannot be constructed from rows, ConfigError ``SOW-EXC-001``, and the errors of opening and reading.
    """
    chosen = choose_format(name, options.format)
    shown = label or name
    with ExitStack() as stack:
        opened = stack.enter_context(open_input(name)) if stream is None else stream
        if chosen is None:
            head, opened = peek_input(opened, HEAD_BYTES)
            chosen = detect_format(head)
        facts = InputFacts(shown, chosen)
        if not target.kind.constructible and chosen not in ("parquet", "arrow", "msgpack"):
            raise UsageError("SOW-EXC-010", f"messages of type {target.kind.name} cannot be constructed from columns")
        if chosen in ("json", "ndjson"):
            framing = "json" if chosen == "json" else "lines"
            arrays = target.kind.kind == "composite-local"
            reader = FrameReader(find_descriptor(opened), framing, name=shown, kind="json", arrays=arrays)
            if target.kind.json_text:
                yield RowInput(shown, reader, facts)
            else:
                from sowctl.arrow.inputs.json_source import iterate_json_chunks

                yield RowInput(shown, TableSource(iterate_json_chunks(reader, target)), facts)
            return
        # Compressed input is not seekable, but can be opened again.
        reopen = partial(open_input, name) if stream is None and Path(name).is_file() else None
        chunks = _iterate_chunks(facts, opened, target, options, reopen, partitions)
        stack.callback(chunks.close)
        yield RowInput(shown, TableSource(chunks), facts)


def _iterate_chunks(
    facts: InputFacts,
    stream: BinaryIO,
    target: RowTarget,
    options: InputOptions,
    reopen: Callable[[], AbstractContextManager[BinaryIO]] | None,
    partitions: PartitionValues | None,
) -> Generator[Chunk, None, None]:
    name = facts.name
    if facts.format in DELIMITED_FORMATS:
        yield from iterate_delimited_chunks(facts, stream, target, options.delimited, reopen, partitions)
    elif facts.format == "msgpack":
        from sowctl.arrow.inputs.msgpack_source import iterate_msgpack_chunks

        yield from iterate_msgpack_chunks(name, stream, target)
    elif facts.format == "sqlite":
        from sowctl.arrow.inputs.sqlite_source import iterate_sqlite_chunks

        with copy_to_path(name, stream) as path:
            yield from iterate_sqlite_chunks(name, path, target, options.table)
    else:
        require_packages(name, "pyarrow")
        head, stream = peek_input(stream, len(ARROW_FILE_MAGIC))
        # Only an Arrow stream is read sequentially.
        if facts.format == "parquet" or head == ARROW_FILE_MAGIC:
            with copy_unseekable(name, stream) as copy:
                is_parquet = facts.format == "parquet"
                yield from iterate_column_chunks(name, copy, target, parquet=is_parquet, partitions=partitions)
        else:
            yield from iterate_column_chunks(name, stream, target, parquet=False, partitions=partitions)
