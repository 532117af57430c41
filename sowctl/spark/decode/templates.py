"""Shapes out of messages: which bytes stay the same, which slots there are, and how columns are made of them.

Called by :mod:`sowctl.spark.decode.shaped` with messages that are known to be JSON objects. Whatever a shape cannot
promise to read as the decoder does is refused with :class:`~sowctl.spark.decode.shapes.Odd`: names that stand twice,
lists where one is declared, numbers in columns of other types; with ``strict``, for an inferred type, also members that
are not declared and values that may not fit.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sowctl.spark.decode.jsoncolumns import INTEGERS, coercion, column
from sowctl.spark.decode.shapes import Odd, Shape, Slot

if TYPE_CHECKING:
    import pyarrow

    from sowctl.spark.decode.shapes import Build

LARGEST = 4096
"""Bytes of the largest message that a shape is made of."""
MOST_SLOTS = 256
_TOKEN = re.compile(rb'"(?P<text>[^"\\]*)"|(?P<number>-?[0-9][-+.eE0-9]*)|(?P<word>true|false|null)|[{}\[\],:]| +')
_WORDS = {"true": True, "false": False, "null": None}
_OPAQUE = object()


class _Constant:
    """A value that is part of the shape: true, false or null."""

    def __init__(self, value: bool | None) -> None:
        self.value = value


class _Reader:
    """Takes one message apart: ``fixed`` and ``slots`` of the shape, ``tree`` of names to what they hold."""

    def __init__(self, message: bytes) -> None:
        self.fixed = [bytearray()]
        self.slots: list[Slot] = []
        self.pointed: set[int] = set()
        self.quotes = 0
        self.tree: dict[str, Any] = {}
        self._open: list[dict[str, Any] | None] = []
        self._name: str | None = None
        place = 0
        while place < len(message):
            token = _TOKEN.match(message, place)
            if token is None or len(self.slots) > MOST_SLOTS:
                raise Odd
            place = token.end()
            self._take(token)
        for slot in self.slots:
            slot.last = slot.quotes == self.quotes
        self._measure()

    def _take(self, token: re.Match[bytes]) -> None:
        what, text = token.lastgroup, token[0]
        inside = self._open[-1] if self._open else None
        if what == "text" and inside is not None and self._name is None:
            self.fixed[-1] += text
            self.quotes += 2
            self._name = token["text"].decode()
            if self._name in inside:
                raise Odd
        elif what == "text":
            self.fixed[-1] += b'"'
            self._put(self._slot(Slot("string", self.quotes + 1)))
            self.fixed[-1] += b'"'
            self.quotes += 2
        elif what == "number" and inside is not None:
            place = self._slot(Slot("number", self.quotes))
            if not text.lstrip(b"-").isdigit():
                self.pointed.add(place)
            else:
                self.slots[place].bound = 1 << 63
            self._put(place)
        else:
            self.fixed[-1] += text
            self._structure(text.decode())

    def _structure(self, text: str) -> None:
        if text == "{":
            made: dict[str, Any] = {} if self._open else self.tree
            if self._open:
                self._put(made)
            self._open.append(made)
            self._name = None
        elif text == "[":
            self._put(_OPAQUE)
            self._open.append(None)
        elif text in ("}", "]"):
            self._open.pop()
            self._name = None
        elif text in _WORDS:
            self._put(_Constant(_WORDS[text]))

    def _slot(self, slot: Slot) -> int:
        self.slots.append(slot)
        self.fixed.append(bytearray())
        return len(self.slots) - 1

    def _put(self, value: Any) -> None:
        """What was just read is the value of the last name, unless it is in a list."""
        inside = self._open[-1] if self._open else None
        if inside is not None and self._name is not None:
            inside[self._name] = value
            self._name = None

    def _measure(self) -> None:
        """How far the ends of numbers are before the next quote, or before the end."""
        for slot, behind in zip(self.slots, self.fixed[1:], strict=True):
            if slot.kind == "number":
                slot.behind = len(behind) if slot.last else behind.index(b'"')


def shape_of(message: bytes, struct: pyarrow.StructType, *, strict: bool = False) -> Shape:
    """The shape of a message that is a JSON object without a backslash. Raises Odd."""
    if len(message) > LARGEST or not struct.num_fields:
        raise Odd
    read = _Reader(message)
    build = _Columns(read, strict).of(read.tree, struct)
    return Shape([bytes(piece) for piece in read.fixed], read.slots, read.quotes, build)


class _Columns:
    """Makes builders of columns, and marks the slots that they need."""

    def __init__(self, read: _Reader, strict: bool) -> None:
        self._read = read
        self._strict = strict

    def of(self, node: Any, kind: pyarrow.DataType) -> Build:
        """How the column of a declared type is made of what a message has in its place (None: nothing)."""
        import pyarrow as pa
        import pyarrow.types as t

        if node is None:
            return lambda count, values: pa.nulls(count, kind)
        if isinstance(node, _Constant):
            value = coercion(kind)(node.value)
            if value is None:
                if self._strict and node.value is not None:
                    raise Odd
                return lambda count, values: pa.nulls(count, kind)
            return lambda count, values: pa.repeat(pa.scalar(value, kind), count)
        if isinstance(node, int):
            return self._slot(node, kind)
        if isinstance(node, dict) and t.is_struct(kind) and kind.num_fields:
            fields = list(kind)
            if self._strict and node.keys() - {field.name for field in fields}:
                raise Odd
            builders = [self.of(node.get(field.name), field.type) for field in fields]
            return lambda count, values: pa.StructArray.from_arrays(
                [build(count, values) for build in builders], fields=fields
            )
        raise Odd

    def _slot(self, place: int, kind: pyarrow.DataType) -> Build:
        import pyarrow as pa
        import pyarrow.types as t

        slot = self._read.slots[place]
        slot.wanted = True
        if slot.kind == "string" and t.is_string(kind):
            return lambda count, values: values[place]
        if slot.kind == "number" and t.is_floating(kind):
            slot.bound = None
            return lambda count, values: pa.array(values[place].astype(kind.to_pandas_dtype(), copy=False), kind)
        if place in self._read.pointed:
            raise Odd
        if slot.kind == "number" and str(kind) in INTEGERS:
            slot.bound = 1 << INTEGERS[str(kind)]
            return lambda count, values: pa.array(values[place].astype(kind.to_pandas_dtype(), copy=False), kind)
        if self._strict:
            raise Odd
        coerce = coercion(kind)
        if slot.kind == "string":
            return lambda count, values: column(list(map(coerce, values[place].to_pylist())), kind)
        return lambda count, values: column(list(map(coerce, values[place].tolist())), kind)
