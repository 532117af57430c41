"""Columns of a block of records that a scan reads: fields of many messages at once, without a value of Python for each.

Where messages are of few shapes, their type reads them as columns of numpy (:mod:`sowctl.messages.shaped`); those that
no shape answers for are decoded, and come as columns of their own. So a block is one part or several, each with the
records that it is of, and the values are those of the type's extractor, whichever way they were read. Loads numpy.

Called by :mod:`~sowctl.engine.search.aggregate`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import replace

from sowctl.expressions.columns.column import Array, Column, Kind, column_of
from sowctl.messages.base import columns_of
from sowctl.messages.shaped import shaped_of

if TYPE_CHECKING:
    from sowctl.messages.base import MessageType
    from sowctl.messages.shaped import SlotColumn
    from sowctl.values.fields import Refusal, Slot


class Part(NamedTuple):
    """Some records of a block, in order (None: all of them), and a column for each slot."""

    places: Array | None
    columns: Sequence[Column]


class BlockColumns:
    """Reads ``slots`` of messages of one type, block by block. ``refuse`` makes the error of one that is refused."""

    def __init__(self, kind: MessageType, slots: Sequence[Slot], refuse: Callable[[Refusal], Exception]) -> None:
        self._decoded = columns_of(kind.extractor(slots))
        self._shaped = shaped_of(kind, slots)
        self._slots = slots
        self._refuse = refuse

    def parts(self, messages: Sequence[bytes]) -> list[Part]:
        """The columns of a block, which has one message at least. Raises what ``refuse`` makes of a refusal."""
        read = None
        if self._shaped is not None and not self._shaped.wait(len(messages)):
            read = self._shaped.read(messages)
        if read is None:
            return [self.whole(messages)]
        pieces, left = read
        parts = [Part(piece.rows, list(map(_column, piece.columns))) for piece in pieces]
        if len(left):
            parts.append(Part(left, self._columns([messages[place] for place in left.tolist()], left)))
        return parts

    def whole(self, messages: Sequence[bytes]) -> Part:
        """The columns of a block in one part, whatever its messages are. Raises as :meth:`parts`."""
        return Part(None, self._columns(messages, None))

    def _columns(self, messages: Sequence[bytes], places: Array | None) -> list[Column]:
        columns, refused = self._decoded(messages)
        if refused:
            first = refused[0]
            raise self._refuse(first if places is None else replace(first, index=int(places[first.index])))
        return list(map(column_of, columns))


def _column(read: SlotColumn) -> Column:
    if read.data is None:
        return Column(Kind.NULL, read.size)
    if read.kind == "texts":
        return _texts(read.data, read.texts)
    if read.kind == "words":
        return _words(read.data)
    kind = Kind.I64 if read.kind == "integers" else Kind.DOUBLE
    return Column(kind, read.size, read.data, source=read.spelled, texts=read.spelled is not None)


def _texts(codes: Array, texts: Sequence[bytes]) -> Column:
    # The empty text is NULL, whose code is the one behind those of the others.
    words = [text for text in texts if text]
    nothing = len(words)
    if not words:
        return Column(Kind.NULL, len(codes))
    kind = np.uint8 if nothing < 255 else np.uint16 if nothing < 65_535 else np.int32
    if nothing == len(texts):
        return Column(Kind.STRING, len(codes), codes.astype(kind), words=words)
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
