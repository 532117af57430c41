"""Columns of a block of scanned records: fields of many messages in one step, without a Python object per value.

If messages match few templates, their type reads them as numpy columns (:mod:`sowctl.messages.template_columns`).
Messages that match no template are decoded, and form separate columns. So a block consists of one or more parts, each
with the positions of its records. Both ways return the values of the type's extractor. Loads numpy.

Called by :mod:`~sowctl.engine.search.aggregate`, and for views by :mod:`sowctl.engine.views.column_groups`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.identity.keyspace import sort_distinct
from sowctl.messages.base import build_column_extractor
from sowctl.messages.template_columns import find_template_reader
from sowctl.store.codec import KEY_SIZE, STAMP_DTYPE, extract_payloads, extract_raw_stamps
from sowctl.values.batch import ColumnBatch
from sowctl.values.column import Array, Column, Kind, build_column, choose_code_type
from sowctl.values.fields import Slot
from sowctl.values.scalars import to_text

if TYPE_CHECKING:
    from sowctl.engine.sources.source import MatchedPairs
    from sowctl.messages.base import MessageType
    from sowctl.messages.template_columns import Lines, PlacedBatch
    from sowctl.store.read import RecordLines
    from sowctl.values.fields import Refusal
    from sowctl.values.paths import Path

    UnreadableErrorFactory = Callable[[Refusal, bytes], Exception]


class RecordBlock(NamedTuple):
    """Records in read order: concatenated keys, messages and stamps.

    ``lines``: the same messages as lines of text, if the store's file holds them so.
    """

    keys: bytes
    messages: Sequence[bytes]
    txids: Array
    times: Array
    lines: Lines | None = None


def iterate_blocks(found: Iterable[tuple[RecordLines | None, MatchedPairs]]) -> Iterator[RecordBlock]:
    """Yield the records that a scan finds, in blocks large enough for columns to be faster than rows."""
    keys, stamps = bytearray(), bytearray()
    messages: list[bytes] = []
    size = 0

    def held() -> RecordBlock:
        read = np.frombuffer(bytes(stamps), STAMP_DTYPE)
        return RecordBlock(bytes(keys), messages, read["txid"].copy(), read["time"].copy())

    for lines, (some, values) in found:
        if lines is None:
            more = extract_payloads(values)
            keys += b"".join(some)
            messages += more
            stamps += extract_raw_stamps(values)
            size += sum(map(len, more))
        # Records read as lines form a separate block. The buffered records precede them and are yielded first.
        if messages and (
            lines is not None
            or len(messages) >= QUERY_LIMITS.group_batch_records
            or size >= QUERY_LIMITS.group_batch_bytes
        ):
            yield held()
            keys, stamps, messages, size = bytearray(), bytearray(), [], 0
        if lines is not None:
            yield build_line_block(lines)
    if messages:
        yield held()


def build_line_block(lines: RecordLines) -> RecordBlock:
    """Return the block of records that were read as lines."""
    return RecordBlock(lines.keys, lines.messages, lines.txids, lines.times, (lines.text, lines.places))


class BlockColumnReader:
    """Reads ``slots`` of messages of one type, block by block, and the texts of ``keys``: strings, or NULL.

    Batches hold columns, stamps, SOW keys and the texts. ``unreadable`` builds an error from a refusal and the key of
    its record.
    """

    def __init__(
        self, kind: MessageType, slots: Sequence[Slot], unreadable: UnreadableErrorFactory, keys: Sequence[Path] = ()
    ) -> None:
        self._width = len(slots)
        self._decoded = build_column_extractor(kind.build_extractor(slots))
        self._key_texts = kind.build_key_extractor(keys) if keys else None
        self._shaped = find_template_reader(kind, [*slots, *(Slot(path, text=True) for path in keys)])
        self._unreadable = unreadable

    def read_parts(self, block: RecordBlock) -> Iterator[ColumnBatch]:
        """Yield the columns of a block, part by part. Raises the error that ``unreadable`` builds."""
        pieces = self._read_pieces(block)
        # Of records with equal txids the last one in read order is the latest. Parts would change that order.
        if len(pieces) > 1 and len(sort_distinct([block.txids])) < len(block.txids):
            pieces = [_merge_pieces(pieces)]
        for piece in pieces:
            yield self._complete_batch(block, piece)

    def read_whole(self, block: RecordBlock) -> ColumnBatch:
        """Return the columns of all records of a block, in their order. Raises the error that ``unreadable`` builds."""
        return self._complete_batch(block, _merge_pieces(self._read_pieces(block)))

    def read_by_template(self, block: RecordBlock) -> ColumnBatch | None:
        """Like :meth:`read_whole`, but return None if reading the messages one by one is faster."""
        pieces = self._read_template_pieces(block)
        return None if pieces is None else self._complete_batch(block, _merge_pieces(pieces))

    def _complete_batch(self, block: RecordBlock, piece: PlacedBatch) -> ColumnBatch:
        """Return the columns of slots and texts together with stamps and keys of their records."""
        places, read = piece
        columns = read.columns
        txids, times, keys = block.txids, block.times, np.frombuffer(block.keys, ">u8")
        if places is not None:
            txids, times, keys = txids[places], times[places], keys[places]
        width = self._width
        return ColumnBatch(columns[:width], read.size, txids=txids, times=times, keys=keys, texts=columns[width:])

    def _read_pieces(self, block: RecordBlock) -> list[PlacedBatch]:
        pieces = self._read_template_pieces(block)
        return [(None, self._decode_messages(block, block.messages, None))] if pieces is None else pieces

    def _read_template_pieces(self, block: RecordBlock) -> list[PlacedBatch] | None:
        if self._shaped is None or self._shaped.prefers_rows(len(block.messages)):
            return None
        read = self._shaped.read_columns(block.messages, block.lines)
        if read is None:
            return None
        shaped, left = read
        pieces: list[PlacedBatch] = []
        for places, batch in shaped:
            columns = batch.columns
            texts = map(_build_key_column, columns[self._width :])
            pieces.append((places, ColumnBatch([*columns[: self._width], *texts], batch.size)))
        if len(left):
            some = [block.messages[place] for place in left.tolist()]
            pieces.append((left, self._decode_messages(block, some, left)))
        return pieces

    def _decode_messages(self, block: RecordBlock, messages: Sequence[bytes], places: Array | None) -> ColumnBatch:
        columns, refused = self._decoded(list(messages))
        if refused:
            first = refused[0]
            start = KEY_SIZE * (first.index if places is None else int(places[first.index]))
            raise self._unreadable(first, block.keys[start : start + KEY_SIZE])
        texts = [] if self._key_texts is None else map(list, zip(*self._key_texts(messages)[0], strict=True))
        # Build columns now, so that a batch that waits for others keeps no Python values.
        return ColumnBatch([build_column(values) for values in (*columns, *texts)], len(messages))


def _merge_pieces(pieces: Sequence[PlacedBatch]) -> PlacedBatch:
    """Return all records of a block as one batch, in their order."""
    if len(pieces) == 1:
        return pieces[0]
    order = np.argsort(np.concatenate([places for places, _ in pieces if places is not None]))
    return None, ColumnBatch.concatenate([batch for _, batch in pieces]).take(order)


def _build_key_column(column: Column) -> Column:
    """Return the texts of a slot's column, equal to those of the message type's ``build_key_extractor``."""
    if column.kind in (Kind.NULL, Kind.STRING):
        return column
    if column.kind is Kind.I64:
        # Each integer has one spelling.
        known, codes = np.unique(column.data, return_inverse=True)
        words = [b"%d" % number for number in known.tolist()]
        return Column(Kind.STRING, column.size, codes.astype(choose_code_type(len(words))), dictionary=words)
    return build_column(list(map(to_text, column.read_values())))
