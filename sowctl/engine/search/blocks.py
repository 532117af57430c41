"""Columns of a block of records that a scan reads: fields of many messages at once, without a value of Python for each.

Where messages are of few shapes, their type reads them as columns of numpy (:mod:`sowctl.messages.shaped`); those that
no shape answers for are decoded, and come as columns of their own. So a block is one part or several, each with the
records that it is of, and the values are those of the type's extractor, whichever way they were read. Loads numpy.

Called by :mod:`~sowctl.engine.search.aggregate`, and for views by :mod:`sowctl.engine.views.columnar`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sowctl.engine.search import figures
from sowctl.expressions.columns.column import Array, Column, Kind, code_type, column_of
from sowctl.expressions.columns.taking import stacked, taken
from sowctl.messages.base import columns_of
from sowctl.messages.shaped import shaped_of
from sowctl.store.codec import KEY_SIZE, payloads, raw_stamps
from sowctl.values.compare import text_of
from sowctl.values.fields import Slot

if TYPE_CHECKING:
    from sowctl.engine.sources.source import Matched
    from sowctl.messages.base import MessageType
    from sowctl.messages.shaped import Lines, SlotColumn
    from sowctl.store.read import RecordLines
    from sowctl.values.fields import Refusal
    from sowctl.values.paths import Path

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
    """Some records of a block in their order: a column for each slot, stamps, SOW keys, and the texts of key fields."""

    columns: Sequence[Column]
    txids: Array
    times: Array
    keys: Array
    texts: Sequence[Column] = ()


class _Piece(NamedTuple):
    """What was read in one way: of which records (None: of all), the columns of slots, and then those of key texts."""

    places: Array | None
    columns: Sequence[Column]


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
            yield lined_block(lines)
    if messages:
        yield held()


def lined_block(lines: RecordLines) -> RecordBlock:
    """Records that come as lines."""
    return RecordBlock(lines.keys, lines.messages, lines.txids, lines.times, (lines.text, lines.places))


class BlockColumns:
    """Reads ``slots`` of messages of one type, block by block, and the texts of ``keys``: strings, or NULL.

    ``unreadable`` makes an error of a refusal and of the key of its record.
    """

    def __init__(
        self, kind: MessageType, slots: Sequence[Slot], unreadable: Unreadable, keys: Sequence[Path] = ()
    ) -> None:
        self._width = len(slots)
        self._decoded = columns_of(kind.extractor(slots))
        self._key_texts = kind.key_texts(keys) if keys else None
        self._shaped = shaped_of(kind, [*slots, *(Slot(path, text=True) for path in keys)])
        self._unreadable = unreadable

    def parts(self, block: RecordBlock) -> Iterator[BlockPart]:
        """The columns of a block, part by part. Raises what ``unreadable`` makes of a refusal."""
        pieces = self._pieces(block)
        # Where stamps are equal, the record that comes later counts as the later one: parts would change their order.
        if len(pieces) > 1 and len(np.unique(block.txids)) < len(block.txids):
            pieces = [_merged(pieces)]
        for piece in pieces:
            yield self._part(block, piece)

    def whole(self, block: RecordBlock) -> BlockPart:
        """The columns of all records of a block, in their order. Raises what ``unreadable`` makes of a refusal."""
        return self._part(block, _merged(self._pieces(block)))

    def shaped(self, block: RecordBlock) -> BlockPart | None:
        """As :meth:`whole`; None where the messages are read better one by one."""
        pieces = self._shaped_pieces(block)
        return None if pieces is None else self._part(block, _merged(pieces))

    def _part(self, block: RecordBlock, piece: _Piece) -> BlockPart:
        columns, texts = piece.columns[: self._width], piece.columns[self._width :]
        keys = np.frombuffer(block.keys, ">u8")
        if piece.places is None:
            return BlockPart(columns, block.txids, block.times, keys, texts)
        return BlockPart(columns, block.txids[piece.places], block.times[piece.places], keys[piece.places], texts)

    def _pieces(self, block: RecordBlock) -> list[_Piece]:
        pieces = self._shaped_pieces(block)
        return [_Piece(None, self._read(block, block.messages, None))] if pieces is None else pieces

    def _shaped_pieces(self, block: RecordBlock) -> list[_Piece] | None:
        if self._shaped is None or self._shaped.wait(len(block.messages)):
            return None
        read = self._shaped.read(block.messages, block.lines)
        if read is None:
            return None
        shaped, left = read
        pieces = [_Piece(piece.rows, self._shaped_columns(piece.columns)) for piece in shaped]
        if len(left):
            some = [block.messages[place] for place in left.tolist()]
            pieces.append(_Piece(left, self._read(block, some, left)))
        return pieces

    def _shaped_columns(self, columns: Sequence[SlotColumn]) -> list[Column]:
        return [*map(_column, columns[: self._width]), *map(_key_column, columns[self._width :])]

    def _read(self, block: RecordBlock, messages: Sequence[bytes], places: Array | None) -> list[Column]:
        columns, refused = self._decoded(list(messages))
        if refused:
            first = refused[0]
            start = KEY_SIZE * (first.index if places is None else int(places[first.index]))
            raise self._unreadable(first, block.keys[start : start + KEY_SIZE])
        found = list(map(column_of, columns))
        if self._key_texts is not None:
            found += map(column_of, map(list, zip(*self._key_texts(messages)[0], strict=True)))
        return found


def _merged(pieces: Sequence[_Piece]) -> _Piece:
    """All records of a block, in their order."""
    if len(pieces) == 1:
        return pieces[0]
    order = np.argsort(np.concatenate([piece.places for piece in pieces if piece.places is not None]))
    several = zip(*(piece.columns for piece in pieces), strict=True)
    return _Piece(None, [taken(stacked(columns), order) for columns in several])


def _key_column(read: SlotColumn) -> Column:
    """The texts of a slot's column, as ``key_texts`` of a message type gives them."""
    if read.data is None or read.kind == "texts":
        return _column(read)
    if read.kind == "integers":
        # Each integer has one spelling.
        known, codes = np.unique(read.data, return_inverse=True)
        words = [b"%d" % number for number in known.tolist()]
        return Column(Kind.STRING, read.size, codes.astype(code_type(len(words))), words=words)
    return column_of(list(map(text_of, read.values())))


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
    # NULL has the code behind those of the words.
    words = [text for text in texts if text]
    nothing = len(words)
    if not words:
        return Column(Kind.NULL, len(codes))
    kind = code_type(nothing)
    if nothing == len(texts):
        return Column(Kind.STRING, len(codes), codes.astype(kind), words=words)
    # The codes of what stands behind the empty text move by one, since that is no word.
    numbers = np.arange(len(texts))
    empty = texts.index(b"")
    numbers[empty + 1 :] -= 1
    numbers[empty] = nothing
    return Column(Kind.STRING, len(codes), numbers.astype(kind)[codes], words=words)


def _words(codes: Array) -> Column:
    """The column of codes of :data:`~sowctl.messages.shaped.WORD_VALUES`: NULL, TRUE and FALSE."""
    nulls = codes == 0
    if nulls.all():
        return Column(Kind.NULL, len(codes))
    return Column(Kind.BOOL, len(codes), codes == 1, nulls if nulls.any() else None)
