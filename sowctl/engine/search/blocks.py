"""Columns of a block of records that a scan reads: fields of many messages at once, without a value of Python for each.

Where messages are of few templates, their type reads them as columns of numpy
(:mod:`sowctl.messages.template_columns`); those that no template answers for are decoded, and come as columns of their
own. So a block is one part or several, each with the records that it is of, and the values are those of the type's
extractor, whichever way they were read. Loads numpy.

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
    """Records in the order in which they were read: keys end to end, messages, stamps.

    ``lines``: the same messages as lines of text, where the store's file shows them so.
    """

    keys: bytes
    messages: Sequence[bytes]
    txids: Array
    times: Array
    lines: Lines | None = None


def iterate_blocks(found: Iterable[tuple[RecordLines | None, MatchedPairs]]) -> Iterator[RecordBlock]:
    """The records that a scan finds, so many together that columns of them pay."""
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
        # Records that come as lines are a block by themselves; those that are held came before them, and go first.
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
    """Records that come as lines."""
    return RecordBlock(lines.keys, lines.messages, lines.txids, lines.times, (lines.text, lines.places))


class BlockColumnReader:
    """Reads ``slots`` of messages of one type, block by block, and the texts of ``keys``: strings, or NULL.

    Batches have stamps, SOW keys and the texts. ``unreadable`` makes an error of a refusal and of its record's key.
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
        """The columns of a block, part by part. Raises what ``unreadable`` makes of a refusal."""
        pieces = self._read_pieces(block)
        # Where stamps are equal, the record that comes later counts as the later one: parts would change their order.
        if len(pieces) > 1 and len(sort_distinct([block.txids])) < len(block.txids):
            pieces = [_merge_pieces(pieces)]
        for piece in pieces:
            yield self._complete_batch(block, piece)

    def read_whole(self, block: RecordBlock) -> ColumnBatch:
        """The columns of all records of a block, in their order. Raises what ``unreadable`` makes of a refusal."""
        return self._complete_batch(block, _merge_pieces(self._read_pieces(block)))

    def read_by_template(self, block: RecordBlock) -> ColumnBatch | None:
        """As :meth:`read_whole`; None where the messages are read better one by one."""
        pieces = self._read_template_pieces(block)
        return None if pieces is None else self._complete_batch(block, _merge_pieces(pieces))

    def _complete_batch(self, block: RecordBlock, piece: PlacedBatch) -> ColumnBatch:
        """Add to the columns of slots and texts what the block knows of their records."""
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
        # Made now: a batch that waits for others keeps no value of Python.
        return ColumnBatch([build_column(values) for values in (*columns, *texts)], len(messages))


def _merge_pieces(pieces: Sequence[PlacedBatch]) -> PlacedBatch:
    """All records of a block, in their order."""
    if len(pieces) == 1:
        return pieces[0]
    order = np.argsort(np.concatenate([places for places, _ in pieces if places is not None]))
    return None, ColumnBatch.concatenate([batch for _, batch in pieces]).take(order)


def _build_key_column(column: Column) -> Column:
    """The texts of a slot's column, as ``build_key_extractor`` of a message type gives them."""
    if column.kind in (Kind.NULL, Kind.STRING):
        return column
    if column.kind is Kind.I64:
        # Each integer has one spelling.
        known, codes = np.unique(column.data, return_inverse=True)
        words = [b"%d" % number for number in known.tolist()]
        return Column(Kind.STRING, column.size, codes.astype(choose_code_type(len(words))), dictionary=words)
    return build_column(list(map(to_text, column.read_values())))
