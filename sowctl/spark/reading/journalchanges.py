"""A journal as a change feed: the effect of each entry on its record, with the record before it (sowctl-spark(7),
CHANGES).

:mod:`sowctl.engine.fold.changefeed` defines the rules; this module converts its rows to Arrow batches, for batches and
streams. Planning reads the keys of all entries up to the end of the part, once. A task reads its stretch, and the
blocks before it that contain records which the stretch replaces or deletes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import InputPartition

from sowctl.arrow import arrays
from sowctl.arrow.entries import build_entry_column, join_blocks
from sowctl.arrow.inference import build_misfit_error
from sowctl.arrow.jsoncolumns import Misfit
from sowctl.engine.fold.blocks import EntrySpan
from sowctl.engine.fold.changefeed import (
    CHANGE_ROW_TYPES,
    LastEntries,
    RecordState,
    cut_parts,
    list_block_sizes,
    read_block_changes,
    read_records_at,
)
from sowctl.errors import UsageError
from sowctl.journal.stretch import Segment, Stretch
from sowctl.remote.place import RemotePath
from sowctl.spark.catalog import is_mark_column
from sowctl.spark.reading.journalbatches import MIN_BATCH_ROWS, BatchBuilder, JournalQuery
from sowctl.spark.reading.journalplan import compute_partition_bytes, open_journal
from sowctl.spark.schema import CHANGE_TYPE_COLUMN, MORE_SAMPLES_HINT, PAYLOAD_COLUMN, is_inferred
from sowctl.store.codec import CORRELATION_FLAG, USER_KEY_FLAG, decode_record, extract_payloads, read_expiration

if TYPE_CHECKING:
    import pyarrow

    from sowctl.arrow.struct_decoder import StructDecoder
    from sowctl.journal.arrays import EntryArrays
    from sowctl.journal.block import Block
    from sowctl.journal.reader import Journal
    from sowctl.spark.reading.bounds import NumberRange
    from sowctl.spark.reading.malformed_messages import JudgedBatch
    from sowctl.values.topicref import TopicRef

IMAGE_COLUMNS = (PAYLOAD_COLUMN, "_expiration", "_user_key", "_correlation_id")
"""Columns of the record before or after the change; the other columns describe the change."""


class FeedStretch(InputPartition):
    """The entries after txid ``after``, up to ``until``. ``before`` are the txids of the earlier records that they
    replace or delete, as unsigned 64-bit numbers in ascending order.

    ``parts`` are the files in an archive at a URL that contain any of these txids. With them, the task detects an
    archive that was recreated."""

    def __init__(self, after: int, until: int, before: bytes, parts: tuple[Stretch, ...]) -> None:
        self.after = after
        self.until = until
        self.before = before
        self.parts = parts


class ChangePlan:
    """Plans successive parts of a journal, and keeps the last entries of keys from one part to the next."""

    def __init__(self, query: JournalQuery, schema: pyarrow.Schema) -> None:
        self._query = query
        self._images = needs_images(query, schema)
        self._before: LastEntries | None = None

    def plan_partitions(self, log: Journal, after: int, until: int | None) -> list[InputPartition]:
        """Return partitions of the entries after txid ``after`` up to ``until`` (None: the present end), each with the
        earlier records that it needs. Raises UsageError ``SOW-SPK-131`` if the topic has no records, and
        ``SOW-SPK-132`` if several topics have the name."""
        last = log.read_last_txid()
        until = last if until is None else min(until, last)
        ref = find_topic(log, self._query)
        if ref is None or after >= until:
            return []
        # The earlier records of a part depend on its exact bounds, so the headers of all blocks are read; LastEntries
        # reads the keys as well.
        after, size = max(after, log.first_txid - 1), self._query.partition_bytes
        blocks = list_block_sizes(log, after, until)
        if size is None:
            size = compute_partition_bytes(sum(stored for _, stored, _ in blocks), os.cpu_count() or 1)
        parts = [(part.after, part.until) for part in cut_parts(blocks, after, until, size)]
        if not self._images:
            # The entries themselves contain all requested columns.
            return _stretches(log, [(low, high, None) for low, high in parts])
        known = self._before
        # After a failure, Spark plans a batch again; then ``after`` may be before the state that was kept.
        if known is None or known.upto > after:
            known = self._before = LastEntries(ref)
        made: list[tuple[int, int, Any]] = []
        for low, high in parts:
            known.advance_to(log, low)
            made.append((low, high, known.find_replaced_txids(log, high)))
        # Known only after the keys up to ``until`` were read. If the topic has no entries yet, its parts have no rows.
        if known.lacks_keys:
            raise UsageError(
                "SOW-SPK-131",
                f"topic {ref.name!r} has no records, so it has no change feed",
                hint="remove option changes to read its entries",
            )
        return _stretches(log, made)


def _stretches(log: Journal, parts: list[tuple[int, int, Any]]) -> list[InputPartition]:
    """Return the parts as partitions, each with its files in an archive at a URL.

    A part is (after, until, txids of the earlier records or None)."""
    files = list[Segment]()
    if isinstance(log.directory, RemotePath) or isinstance(log.archive, RemotePath):
        first = min([low + 1 for low, _, _ in parts] + [int(before[0]) for _, _, before in parts if _has_any(before)])
        # Local files have no mark.
        files = [file for file in log.list_segments(first - 1, parts[-1][1]) if file.mark]
    return [
        FeedStretch(
            low,
            high,
            before.tobytes() if before is not None else b"",
            tuple(
                Stretch(file.number, 0, None, file.last_txid, file.last_block, mark=file.mark)
                for file in files
                if (file.first_txid <= high and file.last_txid > low) or _is_any_in(file, before)
            ),
        )
        for low, high, before in parts
    ]


def _has_any(txids: Any) -> bool:
    return txids is not None and len(txids) > 0


def _is_any_in(file: Segment, txids: Any) -> bool:
    """Return whether a file contains any of these ascending txids."""
    if not _has_any(txids):
        return False
    number = txids.dtype.type
    low, high = txids.searchsorted([number(file.first_txid), number(file.last_txid + 1)])
    return bool(low < high)


def needs_images(query: JournalQuery, schema: pyarrow.Schema) -> bool:
    """Return whether the query needs records; otherwise the entries suffice, and no earlier ones are read."""
    images = (*IMAGE_COLUMNS, query.malformed.column)
    return query.filter is not None or any(name in schema.names for name in images)


def find_topic(log: Journal, query: JournalQuery) -> TopicRef | None:
    """Return the topic of a query, None if the journal has no entry of it.

    Raises UsageError ``SOW-SPK-132`` if several topics have the name."""
    assert query.topic is not None
    if query.message_type is not None:
        return query.ref
    found = [topic for topic in log.read_topic_states() if topic.name == query.topic]
    if len(found) > 1:
        raise UsageError(
            "SOW-SPK-132",
            f"topic name {query.topic!r} is ambiguous: {', '.join(sorted((kind for _, kind in found)))}",
            hint="select one with option messageType",
        )
    return found[0] if found else None


def read_changes(query: JournalQuery, schema: pyarrow.Schema, part: FeedStretch) -> Iterator[pyarrow.RecordBatch]:
    """Yield record batches of the changes in a stretch."""
    import numpy as np

    arrays.keep_memory()
    with open_journal(query.origin, task=part) as log:
        ref = find_topic(log, query)
        if ref is None:
            return
        state = read_records_at(log, np.frombuffer(part.before, np.uint64))
        made = _Changes(query, ref, schema)
        held: list[pyarrow.RecordBatch] = []
        for block in log.iter_blocks(after=part.after, until=part.until, topic=ref):
            batch = made.build_batch(block, part.after, part.until, state)
            if batch is not None and batch.num_rows:
                held.append(batch)
            if sum(map(len, held)) >= MIN_BATCH_ROWS:
                yield arrays.merge_batches(held)
                held = []
        if held:
            yield arrays.merge_batches(held)
        made.close()


class _Changes:
    """Builds record batches of the changes in blocks."""

    def __init__(self, query: JournalQuery, ref: TopicRef, schema: pyarrow.Schema) -> None:
        import pyarrow as pa

        self._query, self._ref, self._schema = query, ref, schema
        self._made = BatchBuilder(query, query.build_bounds(), schema)
        self._filtered = query.filter is not None
        self._images = needs_images(query, schema)
        struct = PAYLOAD_COLUMN in schema.names and pa.types.is_struct(schema.field(PAYLOAD_COLUMN).type)
        self._decoder: StructDecoder | None = None
        if struct and not self._made.judging.needed:
            from sowctl.arrow.struct_decoder import StructDecoder

            self._decoder = StructDecoder(schema.field(PAYLOAD_COLUMN).type, strict=is_inferred(schema))

    def build_batch(self, block: Block, after: int, until: int, state: RecordState) -> pyarrow.RecordBatch | None:
        """Build the rows of a block's entries after txid ``after`` up to ``until``; None if there are none.

        The entries of the block are applied to ``state``."""
        import pyarrow as pa

        bounds = self._query.build_bounds()
        found_rows = read_block_changes(block, self._ref, EntrySpan(after, until), state if self._images else None)
        places, kinds, entries, row_keys, images = found_rows
        if not len(places):
            return None
        columns = block.decode_numpy_columns()
        wanted = _mask_within(columns.times[places][entries], bounds.times)
        if self._filtered:
            wanted &= self._match_rows(row_keys, images)
        if not wanted.all():
            kinds, entries = kinds[wanted], entries[wanted]
            row_keys, images = list(compress(row_keys, wanted)), list(compress(images, wanted))
        changes = _Rows(join_blocks([block]), pa.array(places[entries]), kinds, row_keys, images)
        judged = self._judge_rows(changes) if self._made.judging.needed else None
        found = []
        for name in self._schema.names:
            if judged is not None and name in (PAYLOAD_COLUMN, self._made.judging.column):
                found.append(judged.payload if name == PAYLOAD_COLUMN else judged.corrupt)
            else:
                found.append(self._column(name, changes))
        batch = pa.RecordBatch.from_arrays(found, schema=self._schema)
        return batch if judged is None or judged.kept is None else batch.filter(pa.array(judged.kept))

    def close(self) -> None:
        """Close the message judge, at the end of the task."""
        self._made.judging.close()

    def _match_rows(self, keys: list[bytes], images: list[bytes | None]) -> Any:
        """Return a mask of the rows whose images match the filter."""
        import numpy as np

        found = np.zeros(len(images), bool)
        there = [(place, image) for place, image in enumerate(images) if image is not None]
        some = self._made.build_matcher(self._ref).find_matches(
            [keys[place] for place, _ in there], [one for _, one in there]
        )
        found[[there[at][0] for at in some]] = True
        return found

    def _column(self, name: str, rows: _Rows) -> pyarrow.Array:
        import numpy as np
        import pyarrow as pa

        if name == CHANGE_TYPE_COLUMN:
            return arrays.take_texts(list(CHANGE_ROW_TYPES), rows.kinds.astype("i4"))
        if name == PAYLOAD_COLUMN:
            messages = rows.list_messages()
            if self._decoder is None:
                return pa.array(messages, pa.binary())
            try:
                return self._decoder.decode_payloads(messages, self._made.find_message_type(self._ref[1]))
            except Misfit as problem:
                raise build_misfit_error(problem, rows.format_place(problem.row), MORE_SAMPLES_HINT) from None
        if is_mark_column(name):
            return pa.nulls(len(rows.images), pa.string())
        if name == "_expiration":
            return arrays.build_expirations(
                np.array([0 if one is None else read_expiration(one) for one in rows.images], "i8")
            )
        if name in IMAGE_COLUMNS:
            return arrays.build_texts(rows.list_texts(*_TEXTS[name]), len(rows.images))
        return build_entry_column(name, rows.entries, self._made.owner).take(rows.places)

    def _judge_rows(self, rows: _Rows) -> JudgedBatch:
        try:
            return self._made.judging.judge_messages(
                rows.list_messages(), self._made.find_message_type(self._ref[1]), rows.format_place
            )
        except Misfit as problem:
            raise build_misfit_error(problem, rows.format_place(problem.row), MORE_SAMPLES_HINT) from None


_TEXTS = {"_user_key": (USER_KEY_FLAG, "user_key"), "_correlation_id": (CORRELATION_FLAG, "correlation_id")}


class _Rows(NamedTuple):
    """The rows of a block: its ``entries``, and per row the index of the entry, the type, the key and the record."""

    entries: EntryArrays
    places: pyarrow.Array
    kinds: Any
    keys: list[bytes]
    images: list[bytes | None]

    def list_messages(self) -> list[bytes | None]:
        """Return one message per row, None if the row has no record or it is unknown."""
        cut = iter(extract_payloads([image for image in self.images if image is not None]))
        return [None if image is None else next(cut) for image in self.images]

    def list_texts(self, flag: int, part: str) -> list[bytes | None] | None:
        """Return an optional text field of the records, None if no record has it."""
        if not any(image is not None and image[0] & flag for image in self.images):
            return None
        return [
            getattr(decode_record(key, image), part) if image is not None and image[0] & flag else None
            for key, image in zip(self.keys, self.images, strict=True)
        ]

    def format_place(self, row: int) -> str:
        """Return a description of a row, for errors."""
        return f"{CHANGE_ROW_TYPES[int(self.kinds[row])]} by entry {self.entries.txids[self.places[row].as_py()]}"


def _mask_within(times: Any, span: NumberRange) -> Any:
    import numpy as np

    wanted = np.ones(len(times), bool)
    if span.low is not None:
        wanted &= times >= span.low
    if span.high is not None:
        wanted &= times <= span.high
    return wanted
