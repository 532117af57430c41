"""Collection of field values of all records of a store, for memo indexes. Loads numpy.

If record offsets can be read from the store's file (:meth:`sowctl.store.read.Reader.read_record_offsets`), LMDB is not
needed, and a fork can read the second half concurrently; otherwise records are read by a scan. If the file holds
messages as lines of text that match few templates (:mod:`sowctl.engine.search.blocks`), no field value becomes a Python
object; otherwise records are read by offset and their values collected in lists. Indexes of two fields of 1,000,000
orders of 150 bytes took 1.25 s of CPU time by offset, 0.80 elapsed, and 0.80 and 0.55 by lines.

Called by :mod:`~sowctl.engine.search.index_lookup`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sowctl.engine.search.blocks import BlockColumnReader, RecordBlock, build_line_block
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.forked_process import can_fork, count_processors, start_process
from sowctl.memo.builder import IndexBuilder
from sowctl.messages.base import build_column_extractor
from sowctl.messages.template_columns import find_template_reader
from sowctl.store.codec import KEY_SIZE, STAMP_DTYPE, extract_payloads, extract_raw_stamps

if TYPE_CHECKING:
    from sowctl.messages.base import MessageType
    from sowctl.store.read import AllRecords
    from sowctl.store.snapshot import Snapshot
    from sowctl.values.fields import Refusal, Slot

ProgressCallback = Callable[[int, int], None]


class IndexValues(NamedTuple):
    """Concatenated keys of all records, txids, times, offsets (None: unknown), and index builders with the values."""

    keys: bytes
    txids: Any
    times: Any
    locations: tuple[Any, Any, Any] | None
    builders: list[IndexBuilder]


class _Unreadable(Exception):
    """Raised for a message of a block that cannot be read."""


class IndexFieldReader:
    """Reads the values of some fields into builders of the indexes ``names``."""

    def __init__(self, kind: MessageType, slots: Sequence[Slot], names: Sequence[str]) -> None:
        self._names = names
        self.shaped = find_template_reader(kind, slots) is not None
        self._blocks = BlockColumnReader(kind, slots, _make_unreadable_error)
        self._decoded = build_column_extractor(kind.build_extractor(slots))

    def create_builders(self) -> list[IndexBuilder]:
        """Return new builders, one per field."""
        return [IndexBuilder(name) for name in self._names]

    def add_messages(self, builders: Sequence[IndexBuilder], messages: Sequence[bytes]) -> None:
        """Add the values of the next messages, decoded one by one."""
        found, refused = self._decoded(messages)
        for builder, values in zip(builders, found, strict=True):
            builder.add_values(values)
            if refused:
                # An index that lacks a value must not answer conditions: it would omit a record.
                builder.mark_unreadable()

    def add_block(self, builders: Sequence[IndexBuilder], block: RecordBlock) -> None:
        """Add the values of the next records, as columns if that is faster."""
        try:
            part = self._blocks.read_by_template(block)
        except _Unreadable:
            part = None
        if part is None:
            self.add_messages(builders, list(block.messages))
            return
        for builder, column in zip(builders, part.columns, strict=True):
            builder.add_column(column)


def _make_unreadable_error(_: Refusal, __: bytes) -> Exception:
    return _Unreadable()


def read_index_values(snapshot: Snapshot, fields: IndexFieldReader, on_read: ProgressCallback) -> IndexValues:
    """Return the fields of all records. ``on_read`` receives the count of records that this process has read, and the
    total of its part. Raises DamageError."""
    whole = snapshot.read_record_offsets()
    builders = None if whole is None else _read_from_file(whole, fields, on_read)
    if whole is None or builders is None:
        return _read_by_scan(snapshot, fields, on_read)
    return IndexValues(whole.keys, *whole.read_stamps(), whole.build_value_offsets(), builders)


def _read_from_file(
    whole: AllRecords, fields: IndexFieldReader, on_read: ProgressCallback
) -> list[IndexBuilder] | None:
    """Return builders with the values of all records in the file; None if a record fails its check."""
    count = len(whole)
    small = count < QUERY_LIMITS.parallel_min_records
    if small or not can_fork() or count_processors() < QUERY_LIMITS.default_processes:
        return _read_part(whole, fields, 0, count, on_read)
    middle = count // 2
    # The snapshot of this process protects the pages that both read. The fork never calls LMDB, which is not fork-safe.
    other = start_process(lambda send: send(pickle.dumps(_read_part(whole, fields, middle, count))), spooled=True)
    try:
        builders = _read_part(whole, fields, 0, middle, on_read)
        found = other.receive() if other is not None and other.wait_for_success() else None
        # Unpickling is safe: the bytes come from a fork of this process.
        more = _read_part(whole, fields, middle, count) if found is None else pickle.loads(found)
    finally:
        if other is not None:
            other.terminate()
    if builders is None or more is None:
        return None
    for builder, behind in zip(builders, more, strict=True):
        builder.extend(behind)
    return builders


def _read_part(
    whole: AllRecords, fields: IndexFieldReader, start: int, stop: int, on_read: ProgressCallback | None = None
) -> list[IndexBuilder] | None:
    builders = fields.create_builders()
    # Both ways verify values by their keys and checksums.
    parts = whole.iter_lines(start, stop) if fields.shaped else ((start, stop, None),)
    for low, high, lines in parts:
        if lines is not None:
            fields.add_block(builders, build_line_block(lines))
            if on_read is not None:
                on_read(high - start, stop - start)
            continue
        for at in range(low, high, QUERY_LIMITS.index_build_batch_records):
            behind = min(at + QUERY_LIMITS.index_build_batch_records, high)
            values = whole.read_values(at, behind)
            if values is None:
                return None
            fields.add_messages(builders, extract_payloads(values))
            if on_read is not None:
                on_read(behind - start, stop - start)
    return builders


def _read_by_scan(snapshot: Snapshot, fields: IndexFieldReader, on_read: ProgressCallback) -> IndexValues:
    builders = fields.create_builders()
    keys, stamped = bytearray(), bytearray()
    for batch, values in snapshot.scan_records(batch=QUERY_LIMITS.index_build_batch_records):
        keys += b"".join(batch)
        stamped += extract_raw_stamps(values)
        on_read(len(keys) // KEY_SIZE, snapshot.meta.records)
        fields.add_messages(builders, extract_payloads(values))
    stamps = np.frombuffer(bytes(stamped), STAMP_DTYPE)
    return IndexValues(bytes(keys), stamps["txid"], stamps["time"], snapshot.locate_values(bytes(keys)), builders)


__all__ = ["IndexFieldReader", "IndexValues", "read_index_values"]
