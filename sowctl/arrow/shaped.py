"""Batches of JSON messages by their shapes (:mod:`sowctl.messages.json.shapes`), the rest of them by the decoder.

Called by :mod:`sowctl.arrow.decoding`, which makes the same structs with it and without it. A shape is taken into use
when it has read its own first message as the decoder does. Where a type holds what no shape can promise (an array, a
number in a column of another type), the decoder reads all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sowctl.arrow.jsoncolumns import INTEGERS, Misfit, coercion, column
from sowctl.messages.json.shapes import WORDS, Shape, Text
from sowctl.messages.json.template import LISTED, Template, Unshaped

if TYPE_CHECKING:
    import numpy
    import pyarrow

    from sowctl.messages.json.shapes import Column

    Numbers = numpy.ndarray[Any, Any]
    Build = Callable[[int, dict[int, Column], bytes], pyarrow.Array]

FEWEST = 64
"""Messages below which a batch is decoded in less time than arrays are made."""
KEPT = 8
"""Shapes that are remembered."""
TRIED = 3
"""Messages of a batch of which a shape is made, if those that are known leave any."""
LONGEST_REST = 64
"""Most batches that go to the decoder as a whole after one in which shapes were of little use."""


class _Made:
    """A shape, and how structs are made of its values."""

    def __init__(self, shape: Shape, build: Build) -> None:
        self.shape = shape
        self.build = build

    def structs(self, text: Text, rows: Numbers | None) -> tuple[Numbers | None, pyarrow.Array | None]:
        """Which of ``rows`` (None: all) have this shape, None for all there are; and their structs, None for none."""
        found, count, values = self.shape.match(text, rows)
        return found, self.build(count, values, text.raw) if count else None


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
        self._known: list[_Made] = []
        self._pause = 0
        self._resting = 0

    def array(self, parts: Sequence[Any], lengths: Numbers) -> pyarrow.Array | None:
        """The structs of the messages that lie back to back in ``parts``; None where decoding them is as good."""
        if self._resting:
            self._resting -= 1
            return None
        if len(lengths) < FEWEST:
            return None
        try:
            text = Text(parts, lengths)
            made: list[pyarrow.Array] = []
            places: list[Numbers] = []
            left = self._match(text, made, places)
        except Unshaped:
            self._rest()
            return None
        if made and left is None:
            return made[0]
        if left is None or 2 * len(left) > len(lengths):
            self._rest()
            return None
        self._pause = 0
        return self._together(text, made, places, left)

    def _rest(self) -> None:
        # Data that shapes do not fit is tried more and more seldom.
        self._pause = self._resting = min(LONGEST_REST, 2 * self._pause + 1)

    def _match(self, text: Text, made: list[pyarrow.Array], places: list[Numbers]) -> Numbers | None:
        """Add structs and their places; which messages are left, None where one shape had all, or none had any."""
        import numpy as np

        left: Numbers | None = None
        tries = TRIED
        waiting = sorted(self._known, key=lambda one: one.shape.hits, reverse=True)
        while left is None or len(left):
            if not waiting:
                if not tries:
                    break
                tries -= 1
                fresh = self._learn(text, 0 if left is None else int(left[len(left) * tries // TRIED]))
                if fresh is None:
                    continue
                waiting.append(fresh)
            found, structs = waiting.pop(0).structs(text, left)
            if structs is None:
                continue
            made.append(structs)
            if found is None:
                return None
            places.append(found)
            waits = np.zeros(len(text), bool)
            waits[slice(None) if left is None else left] = True
            waits[found] = False
            left = np.flatnonzero(waits)
        return left

    def _learn(self, text: Text, place: int) -> _Made | None:
        """The shape of one message, if it reads that message as the decoder does."""
        import numpy as np

        message = text.message(place)
        try:
            template = Template(message)
            wanted: dict[int, bool] = {}
            build = _Columns(template, wanted, strict=self._strict).struct(
                template.tree, self._kind, partial=self._partial
            )
            made = _Made(Shape(template, wanted), build)
            alone = made.structs(Text([message], np.array([len(message)])), None)[1]
            if alone is None or alone.to_pylist() != self._views([message]).to_pylist():
                return None
        except (Unshaped, Misfit):
            return None
        best = sorted(self._known, key=lambda one: one.shape.hits, reverse=True)
        self._known = [*best[: KEPT - 1], made]
        return made

    def _together(self, text: Text, made: list[pyarrow.Array], places: list[Numbers], left: Numbers) -> pyarrow.Array:
        import numpy as np
        import pyarrow as pa

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

    def __init__(self, template: Template, wanted: dict[int, bool], *, strict: bool) -> None:
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

        self._wanted[place] = False
        coerce = coercion(kind)
        known = column([coerce(word) for word in WORDS], kind)
        loses = self._strict and not t.is_boolean(kind)

        def build(count: int, values: dict[int, Column], raw: bytes) -> pyarrow.Array:
            codes: Any = values[place]
            # Of an inferred type, only the decoder says what does not fit, and where.
            if loses and codes.any():
                raise Unshaped
            return known.take(pa.array(codes))

        return build

    def _number(self, place: int, kind: pyarrow.DataType) -> Build:
        import pyarrow as pa
        import pyarrow.types as t

        if t.is_floating(kind):
            self._wanted[place] = True
            # By way of doubles, as the decoder goes: a FLOAT is rounded twice there, too.
            return lambda count, values, raw: pa.array(values[place], pa.float64()).cast(kind, safe=False)
        if str(kind) not in INTEGERS or not self._template.slots[place].whole:
            raise Unshaped
        self._wanted[place] = False
        bound = 1 << INTEGERS[str(kind)]

        def build(count: int, values: dict[int, Column], raw: bytes) -> pyarrow.Array:
            numbers: Any = values[place]
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

        self._wanted[place] = False
        if t.is_string(kind):
            return lambda count, values, raw: strings(raw, *values[place])
        if self._strict:
            raise Unshaped
        coerce = coercion(kind)
        return lambda count, values, raw: column(list(map(coerce, strings(raw, *values[place]).to_pylist())), kind)


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
