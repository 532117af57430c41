"""Formats ``parquet`` and ``arrow``, and further formats of ``export``: records as typed columns.

The columns are the first-level members of all records, and with metadata the columns of the data source ``sow``. A
payload that is no object has one member, ``data``; one whose view is no JSON has ``data_base64``. Types hold every
value (:mod:`sowctl.arrow.inference`), so records may have to be read more than once: a repeatable result is read again,
any other is kept in a temporary file.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from sowctl.arrow.metadata import DEFAULT_COLUMNS
from sowctl.arrow.requirements import require_packages
from sowctl.output.formats import RenderResult
from sowctl.output.options import OutputOptions
from sowctl.output.projection import Projection, build_projection
from sowctl.output.records import (
    METADATA_NAMES,
    Batch,
    ShownRecord,
    find_exact_view,
    find_repeat,
    is_own_view,
    is_repeatable,
)
from sowctl.values.times import MAX_MICROS

if TYPE_CHECKING:
    import pyarrow

    from sowctl.arrow.column_passes import MessageBlock
    from sowctl.arrow.files import ColumnWriter

BLOCK_ROWS = 1000
BLOCK_BYTES = 1 << 20
"""Maximum number of rows of one block, and of bytes of their messages; a single message may be larger. Their decoded
values stay in the processor's cache: for 1,000,000 orders, blocks of 4,000 take 0.3 s more."""


class _ColumnRenderer:
    """A format of columns; ``name`` is the name in errors, ``writer`` the class in :mod:`sowctl.arrow.files`."""

    name = ""
    writer = ""

    def __init__(self, options: OutputOptions) -> None:
        require_packages(f"the format {self.name}", "pyarrow")
        self.meta = options.meta
        self._facts = tuple(f"_{name}" for name in options.front if name not in METADATA_NAMES)
        self._projection = build_projection(options)

    def write(self, batches: Iterable[Batch], out: BinaryIO) -> RenderResult:
        """Write all records; nothing is written to ``out`` before all have been read."""
        from sowctl.arrow.column_passes import write_columns

        make, chosen = self._make_writer(), self._projection
        with RecordBlocks(batches, meta=self.meta, projection=chosen) as rows:
            if chosen is not None:
                return RenderResult(_write_chosen(rows, chosen, make, out))
            found = write_columns(rows.iterate_blocks, make, out, facts=(*self._facts, *DEFAULT_COLUMNS))
        return RenderResult(found.rows, format_hidden_notes(found.hidden))

    def _make_writer(self) -> Callable[[BinaryIO, pyarrow.Schema], ColumnWriter]:
        from sowctl.arrow import files

        made: type[ColumnWriter] = getattr(files, self.writer)
        return made


class ParquetRenderer(_ColumnRenderer):
    """A Parquet file."""

    name = "parquet"
    writer = "Parquet"


class ArrowRenderer(_ColumnRenderer):
    """An Arrow stream."""

    name = "arrow"
    writer = "ArrowStream"


class FeatherRenderer(_ColumnRenderer):
    """An Arrow file."""

    name = "arrow"
    writer = "ArrowFile"


class SqliteRenderer(_ColumnRenderer):
    """An SQLite database with one table, named ``table``."""

    name = "sqlite"
    table = "records"

    def _make_writer(self) -> Callable[[BinaryIO, pyarrow.Schema], ColumnWriter]:
        from sowctl.arrow.sqlite import build_sqlite_writer

        return build_sqlite_writer(self.table)


def _write_chosen(
    rows: RecordBlocks, chosen: Projection, make: Callable[[BinaryIO, pyarrow.Schema], ColumnWriter], out: BinaryIO
) -> int:
    """Write the columns of a projection; return the number of rows."""
    from sowctl.arrow.chosen_columns import ChosenColumn, arrange_columns
    from sowctl.arrow.column_passes import write_columns

    columns = [
        ChosenColumn(name, source, isinstance(column, str))
        for name, source, column in zip(chosen.headings, chosen.inner, chosen.columns, strict=True)
    ]
    facts = [one.source for one in columns if one.is_metadata]
    return write_columns(rows.iterate_blocks, arrange_columns(make, columns), out, facts=facts).rows


def format_hidden_notes(names: tuple[str, ...]) -> tuple[str, ...]:
    """Format the notes about metadata that has no column."""
    if not names:
        return ()
    return (f"no column for this metadata, because messages have fields of these names: {', '.join(names)}",)


class RecordBlocks:
    """Records in blocks, which can be iterated repeatedly. A context manager: saved blocks are in a temporary file."""

    def __init__(self, batches: Iterable[Batch], *, meta: bool, projection: Projection | None = None) -> None:
        self._projection = projection
        self._meta = meta if projection is None else bool(projection.metadata)
        self._again = find_repeat(batches)
        self._batches = iter(batches)
        self._kept: IO[bytes] | None = None
        self._asked = False

    def __enter__(self) -> RecordBlocks:
        return self

    def __exit__(self, *_: object) -> None:
        if self._kept is not None:
            # Closing writes the buffer, which may fail again: the error was raised before.
            with suppress(OSError):
                self._kept.close()

    def iterate_blocks(self) -> Iterator[MessageBlock]:
        """Iterate over all records in blocks, from the first one."""
        first, self._asked = not self._asked, True
        if self._again is not None:
            # A repeated result may reflect another moment; the writer handles it like the first.
            return self._make_blocks(self._batches if first else iter(self._again()))
        return self._iterate_and_save() if first else self._iterate_saved()

    def _iterate_and_save(self) -> Iterator[MessageBlock]:
        self._kept = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
        for block in self._make_blocks(self._batches):
            pickle.dump(block, self._kept)
            yield block

    def _iterate_saved(self) -> Iterator[MessageBlock]:
        assert self._kept is not None
        self._kept.seek(0)
        while True:
            try:
                yield pickle.load(self._kept)  # written by this process
            except EOFError:
                return

    def _make_blocks(self, batches: Iterator[Batch]) -> Iterator[MessageBlock]:
        from sowctl.arrow.column_passes import MessageBlock

        views: list[bytes] = []
        facts: list[dict[str, Any]] = []
        size = 0
        repeatable = False
        # Without records, an empty block determines which metadata has columns.
        begun = not self._meta
        for batch in batches:
            payloads, chosen = batch.payloads, self._projection
            repeatable = repeatable or is_repeatable(batch)
            taken = (
                chosen.build_views(batch)
                if chosen is not None
                else payloads
                if is_own_view(batch)
                else list(map(find_exact_view(batch) or batch.members_view, payloads))
            )
            if self._meta:
                rows = [_record_facts(batch, record) for record in batch.records]
                if chosen is not None:
                    rows = [
                        chosen.select_metadata(one, row, batch) for one, row in zip(batch.records, rows, strict=True)
                    ]
                facts += rows
            views += taken
            size += sum(map(len, taken))
            if chosen is not None and "data" in chosen.metadata:
                size += sum(map(len, payloads))
            if len(views) >= BLOCK_ROWS or size >= BLOCK_BYTES:
                yield MessageBlock(views, facts if self._meta else None, repeatable)
                views, facts, size, begun = [], [], 0, True
        if views or not begun:
            yield MessageBlock(views, facts if self._meta else None, repeatable)


def _record_facts(batch: Batch, record: ShownRecord) -> dict[str, Any]:
    """Return the metadata of a record."""
    extra = record.extra or {}
    row = {
        "_sow_key": None if extra.get("unkeyed") else record.sow_key,
        "_txid": record.txid,
        "_timestamp": record.timestamp,
        "_expiration": record.expiration if record.expiration <= MAX_MICROS else None,
        "_topic": batch.topic,
        "_message_type": batch.message_type,
        "_logical_topic": extra.get("topic"),
        "_user_key": extra.get("user_key"),
        "_correlation_id": record.correlation_id,
        "_bookmark": record.bookmark,
    }
    for name, value in extra.items():
        if name not in ("topic", "user_key", "unkeyed"):
            row[f"_{name}"] = value
    return row
