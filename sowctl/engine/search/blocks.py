"""Columns of a block of records that a scan reads: fields of many messages at once, without a value of Python for each.

Where messages are of few shapes, their type reads them as columns of numpy (:mod:`sowctl.messages.shaped`); those that
no shape answers for are decoded, and come as columns of their own. So a block is one part or several, each with the
records that it is of, and the values are those of the type's extractor, whichever way they were read. Loads numpy.

Called by :mod:`~sowctl.engine.search.aggregate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sowctl.engine.search import figures
from sowctl.expressions.columns.column import Array, Column, Kind, column_of
from sowctl.messages.base import columns_of
from sowctl.messages.shaped import shaped_of
from sowctl.store.codec import KEY_SIZE, payloads, raw_stamps

if TYPE_CHECKING:
    from sowctl.engine.sources.source import Matched
    from sowctl.messages.base import MessageType
    from sowctl.messages.shaped import Lines, SlotColumn
    from sowctl.store.read import RecordLines
    from sowctl.values.fields import Refusal, Slot

    Unreadable = Callable[[Refusal, bytes], Exception]

_STAMPS = np.dtype([("txid", "<u8"), ("time", "<i8")])


class RecordBlock(NamedTuple):
    """Records in the order in which they were read: keys end to end, messages, stamps.

    ``lines``: the same messages as lines of text, where the store's file shows them so.
    """

    keys: bytes
    messages: Sequence[bytes]
    txids: Array
    times: Array
    lines: Lines | None = None


class BlockPart(NamedTuple):
    """Some records of a block in their order: a column for each slot, and the stamps."""

    columns: Sequence[Column]
    txids: Array
    times: Array


def blocks(found: Iterable[tuple[RecordLines | None, Matched]]) -> Iterator[RecordBlock]:
    """The records that a scan finds, so many together that columns of them pay."""
    keys, stamps = bytearray(), bytearray()
    messages: list[bytes] = []
    size = 0

    def held() -> RecordBlock:
        read = np.frombuffer(bytes(stamps), _STAMPS)
        return RecordBlock(bytes(keys), messages, read["txid"].copy(), read["time"].copy())

    for lines, (some, values) in found:
        if lines is None:
            more = payloads(values)
            keys += b"".join(some)
            messages += more
            stamps += raw_stamps(values)
            size += sum(map(len, more))
        # Records that come as lines are a block by themselves; those that are held came before them, and go first.
        if messages and (lines is not None or len(messages) >= figures.GROUPED or size >= figures.GROUPED_BYTES):
            yield held()
            keys, stamps, messages, size = bytearray(), bytearray(), [], 0
        if lines is not None:
            yield RecordBlock(lines.keys, lines.messages, lines.txids, lines.times, (lines.text, lines.places))
    if messages:
        yield held()


class BlockColumns:
    """Reads ``slots`` of messages of one type, block by block. ``unreadable`` makes an error of a refusal and of the
    key of its record."""

    def __init__(self, kind: MessageType, slots: Sequence[Slot], unreadable: Unreadable) -> None:
        self._decoded = columns_of(kind.extractor(slots))
        self._shaped = shaped_of(kind, slots)
        self._unreadable = unreadable

    def parts(self, block: RecordBlock) -> Iterator[BlockPart]:
        """The columns of a block, part by part. Raises what ``unreadable`` makes of a refusal."""
        read = None
        if self._shaped is not None and not self._shaped.wait(len(block.messages)):
            read = self._shaped.read(block.messages, block.lines)
        # Where stamps are equal, the record that comes later counts as the later one: parts would change their order.
        whole = read is not None and len(read[0]) == 1 and not len(read[1])
        if read is None or (not whole and len(np.unique(block.txids)) < len(block.txids)):
            yield self._part(block, None, self._columns(block, block.messages, None))
            return
        pieces, left = read
        for piece in pieces:
            yield self._part(block, piece.rows, list(map(_column, piece.columns)))
        if len(left):
            some = [block.messages[place] for place in left.tolist()]
            yield self._part(block, left, self._columns(block, some, left))

    def _part(self, block: RecordBlock, places: Array | None, columns: Sequence[Column]) -> BlockPart:
        if places is None:
            return BlockPart(columns, block.txids, block.times)
        return BlockPart(columns, block.txids[places], block.times[places])

    def _columns(self, block: RecordBlock, messages: Sequence[bytes], places: Array | None) -> list[Column]:
        columns, refused = self._decoded(list(messages))
        if refused:
            first = refused[0]
            start = KEY_SIZE * (first.index if places is None else int(places[first.index]))
            raise self._unreadable(first, block.keys[start : start + KEY_SIZE])
        return list(map(column_of, columns))


def _column(read: SlotColumn) -> Column:
    """A slot's column as expressions take it. NULL is a code of its own there, and the empty text is NULL."""
    if read.data is None:
        return Column(Kind.NULL, read.size)
    if read.kind == "texts":
        return _texts(read.data, read.texts)
    if read.kind == "words":
        return _words(read.data)
    kind = Kind.I64 if read.kind == "integers" else Kind.DOUBLE
    return Column(kind, read.size, read.data, source=read.spelled, texts=read.spelled is not None)


def _texts(codes: Array, texts: Sequence[bytes]) -> Column:
    # NULL has the code behind those of the words. The smallest type that holds it, too.
    words = [text for text in texts if text]
    nothing = len(words)
    if not words:
        return Column(Kind.NULL, len(codes))
    kind = np.uint8 if nothing < 255 else np.uint16 if nothing < 65_535 else np.int32
    if nothing == len(texts):
        return Column(Kind.STRING, len(codes), codes.astype(kind), words=words)
    # The codes of what stands behind the empty text move by one, since that is no word.
    numbers = np.arange(len(texts))
    empty = texts.index(b"")
    numbers[empty + 1 :] -= 1
    numbers[empty] = nothing
    return Column(Kind.STRING, len(codes), numbers.astype(kind)[codes], words=words)


def _words(codes: Array) -> Column:
    """The column of codes of :data:`~sowctl.messages.shaped.WORDS`: NULL, TRUE and FALSE."""
    nulls = codes == 0
    if nulls.all():
        return Column(Kind.NULL, len(codes))
    return Column(Kind.BOOL, len(codes), codes == 1, nulls if nulls.any() else None)
