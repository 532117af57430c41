"""Batches of JSON messages by their shapes (:mod:`sowctl.messages.json.shapes`), the rest of them by the decoder.

Called by :mod:`sowctl.arrow.decoding`, which makes the same structs with it and without it. A shape is taken into use
when it has read its own first message as the decoder does. Where a type holds what no shape can promise (an array, a
number in a column of another type), the decoder reads all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sowctl.arrow.jsoncolumns import INTEGERS, Misfit, coercion, column
from sowctl.messages.json.shapes import LINE, Found, Made, Shape, Shapes, Text
from sowctl.messages.json.template import LISTED, Template, Unshaped
from sowctl.messages.shaped import WORDS

if TYPE_CHECKING:
    import numpy
    import pyarrow

    from sowctl.messages.json.shapes import Column, Wanted

    Numbers = numpy.ndarray[Any, Any]
    Build = Callable[[int, dict[int, Column], bytes], pyarrow.Array]

FEWEST = 64
"""Messages below which a batch is decoded in less time than arrays are made."""


class ShapedMessages:
    """Reads batches of messages as structs of ``kind``, and knows the shapes that were of use.

    ``views`` decodes messages one by one. ``strict``: as in :class:`~sowctl.arrow.decoding.StructDecoder`.
    """

    def __init__(
        self,
        kind: pyarrow.StructType,
        views: Callable[[Sequence[bytes | None]], pyarrow.Array],
        *,
        strict: bool = False,
        partial: bool = False,
    ) -> None:
        self._kind = kind
        self._views = views
        self._strict = strict
        self._partial = partial
        self._shapes: Shapes[pyarrow.Array] = Shapes(self._learn)

    def array(self, parts: Sequence[Any], lengths: Numbers) -> pyarrow.Array | None:
        """The structs of the messages that lie back to back in ``parts``; None where decoding them is as good."""
        if self._shapes.wait() or len(lengths) < FEWEST:
            return None
        try:
            text = Text.of(parts, lengths)
        except Unshaped:
            self._shapes.rest()
            return None
        try:
            found, left = self._shapes.read(text)
        except Unshaped:
            return None
        if len(found) == 1 and found[0].rows is None:
            return found[0].made
        return self._together(text, found, left)

    def _learn(self, message: bytes) -> Made[pyarrow.Array]:
        """The shape of one message, if it reads that message as the decoder does. Raises Unshaped."""
        template = Template(message)
        wanted: dict[int, Wanted] = {}
        build = _Columns(template, wanted, strict=self._strict).struct(template.tree, self._kind, partial=self._partial)
        shape = Shape(template, wanted)
        alone = shape.match(Text(message + LINE, [message]), None)
        try:
            same = alone.size and build(*alone[1:]).to_pylist() == self._views([message]).to_pylist()
        except Misfit:
            same = False
        if not same:
            raise Unshaped
        shape.hits = 0
        return Made(shape, lambda match: build(*match[1:]))

    def _together(self, text: Text, found: Sequence[Found[pyarrow.Array]], left: Numbers) -> pyarrow.Array:
        import numpy as np
        import pyarrow as pa

        made = [one.made for one in found]
        places = [one.rows for one in found if one.rows is not None]
        if len(left):
            try:
                made.append(self._views([text.message(place) for place in left.tolist()]))
            except Misfit as problem:
                problem.row = int(left[problem.row])
                raise
            places.append(left)
        order = np.empty(len(text), "i8")
        order[np.concatenate(places)] = np.arange(len(text))
        return pa.concat_arrays(made).take(pa.array(order))


class _Columns:
    """Makes builders of columns, and notes in ``wanted`` the slots that they need."""

    def __init__(self, template: Template, wanted: dict[int, Wanted], *, strict: bool) -> None:
        self._template = template
        self._wanted = wanted
        self._strict = strict

    def struct(self, members: dict[str, Any], kind: pyarrow.StructType, *, partial: bool = False) -> Build:
        """How structs of ``kind`` are made of objects with these members. Raises Unshaped."""
        import pyarrow as pa

        fields = list(kind)
        if not fields or (self._strict and not partial and members.keys() - {field.name for field in fields}):
            raise Unshaped
        builds = [self._of(members.get(field.name), field.type) for field in fields]
        return lambda count, values, raw: pa.StructArray.from_arrays(
            [build(count, values, raw) for build in builds], fields=fields
        )

    def _of(self, node: Any, kind: pyarrow.DataType) -> Build:
        """How the column of a declared type is made of what messages have in its place (None: nothing)."""
        import pyarrow as pa
        import pyarrow.types as t

        if node is None:
            return lambda count, values, raw: pa.nulls(count, kind)
        if isinstance(node, dict) and t.is_struct(kind):
            return self.struct(node, kind)
        if isinstance(node, dict) or node is LISTED:
            raise Unshaped
        slot = self._template.slots[node]
        if slot.kind == "word":
            return self._words(node, kind)
        if slot.kind == "number":
            return self._number(node, kind)
        return self._string(node, kind)

    def _words(self, place: int, kind: pyarrow.DataType) -> Build:
        import pyarrow as pa
        import pyarrow.types as t

        self._wanted[place] = "whole"
        coerce = coercion(kind)
        known = column([coerce(word) for word in WORDS], kind)
        loses = self._strict and not t.is_boolean(kind)

        def build(count: int, values: dict[int, Column], raw: bytes) -> pyarrow.Array:
            codes: Any = values[place].data
            # Of an inferred type, only the decoder says what does not fit, and where.
            if loses and codes.any():
                raise Unshaped
            return known.take(pa.array(codes))

        return build

    def _number(self, place: int, kind: pyarrow.DataType) -> Build:
        import pyarrow as pa
        import pyarrow.types as t

        if t.is_floating(kind):
            self._wanted[place] = "any"
            # By way of doubles, as the decoder goes: a FLOAT is rounded twice there, too.
            return lambda count, values, raw: pa.array(values[place].data, pa.float64()).cast(kind, safe=False)
        if str(kind) not in INTEGERS or not self._template.slots[place].whole:
            raise Unshaped
        self._wanted[place] = "whole"
        bound = 1 << INTEGERS[str(kind)]

        def build(count: int, values: dict[int, Column], raw: bytes) -> pyarrow.Array:
            numbers: Any = values[place].data
            if bound < 1 << 63:
                fits = (numbers >= -bound) & (numbers < bound)
                if not fits.all():
                    if self._strict:
                        raise Unshaped
                    return pa.array(numbers, mask=~fits).cast(kind, safe=False)
            return pa.array(numbers).cast(kind, safe=False)

        return build

    def _string(self, place: int, kind: pyarrow.DataType) -> Build:
        import pyarrow.types as t

        self._wanted[place] = "whole"
        if t.is_string(kind):
            return lambda count, values, raw: strings(raw, *values[place].places)
        if self._strict:
            raise Unshaped
        coerce = coercion(kind)
        return lambda count, values, raw: column(
            list(map(coerce, strings(raw, *values[place].places).to_pylist())), kind
        )


def strings(raw: bytes, begins: Numbers, ends: Numbers) -> pyarrow.Array:
    """STRING of stretches of a text, in ascending order."""
    import numpy as np
    import pyarrow as pa

    count = len(begins)
    offsets = np.empty(2 * count, "<i4")
    offsets[::2], offsets[1::2] = begins, ends
    # Every second one is what lies between two stretches.
    pieces = pa.Array.from_buffers(pa.string(), 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(raw)])
    return pieces.take(pa.array(np.arange(0, 2 * count, 2, dtype="i4")))
