"""Decode batches of JSON messages by their templates, and all other messages by the decoder.

Messages are split and read line by line (:mod:`sowctl.messages.json.template_match`). Called by
:mod:`sowctl.arrow.struct_decoder`, which builds the same structs with it and without it. A template is used only if it
has read its own first message as the decoder does. If a type contains something that no template can guarantee (an
array of objects, a number in a column of another type), the decoder reads all.

Templates extract arrays of values as texts, which are decoded separately. For messages with nine fields and an array of
up to three texts, reading a journal entry as a struct of all ten takes 2.8 us of CPU, 5.2 us with the decoder; as a
struct of two fields 0.8 us, and 1.6 us if each length of the array has its own template.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sowctl.arrow.jsoncolumns import INTEGER_BITS, Misfit, build_coercion, build_column
from sowctl.messages.json.limits import JSON_LIMITS
from sowctl.messages.json.template import ARRAY_MARKER, NoTemplateError, Template
from sowctl.messages.json.template_match import (
    LINE_END,
    WORD_VALUES,
    MessageLines,
    TemplateBuilder,
    TemplateCache,
    TemplateMatcher,
    TemplateResult,
)

if TYPE_CHECKING:
    import numpy
    import pyarrow

    from sowctl.messages.json.template_match import NumberForm
    from sowctl.values.textspans import TextSpans

    Numbers = numpy.ndarray[Any, Any]
    SlotValues = dict[int, Any]
    ColumnBuilder = Callable[[int, SlotValues], pyarrow.Array]
    ViewDecoder = Callable[[Sequence[bytes | None]], pyarrow.Array]


class DecodedBatch(NamedTuple):
    """A batch: its structs, and the messages (ascending) that the decoder has read, because no template matched."""

    structs: pyarrow.Array
    rows: Sequence[int] = ()
    messages: Sequence[bytes] = ()


class TemplateDecoder:
    """Reads batches of messages as structs of ``kind``, and caches useful templates.

    ``views`` decodes messages one by one. ``build_values`` returns, for a type and ``lossless``, the decoder of
    messages with one member, ``value``, of this type. ``strict`` and ``partial``: as in
    :class:`~sowctl.arrow.struct_decoder.StructDecoder`. ``lossless``: no template reads a message with a value of
    another type than its field, or outside of that type, which would be lost.
    """

    def __init__(
        self,
        kind: pyarrow.StructType,
        views: ViewDecoder,
        build_values: Callable[[pyarrow.DataType, bool], ViewDecoder],
        *,
        strict: bool = False,
        partial: bool = False,
        lossless: bool = False,
    ) -> None:
        self._kind = kind
        self._views = views
        self._build_values = build_values
        self._strict = strict
        self._partial = partial
        self._lossless = lossless
        self._shapes: TemplateCache[pyarrow.Array] = TemplateCache(self._learn_template)

    def decode(self, parts: Sequence[Any], lengths: Numbers) -> DecodedBatch | None:
        """The messages that are contiguous in ``parts``; None if decoding them is as fast."""
        if self._shapes.skips_next() or len(lengths) < JSON_LIMITS.min_array_messages:
            return None
        try:
            text = MessageLines.from_parts(parts, lengths)
        except NoTemplateError:
            self._shapes.pause()
            return None
        known = self._shapes.match_lines(text)
        if known is None:
            return None
        found, left = known
        if len(found) == 1 and found[0].rows is None:
            return DecodedBatch(found[0].made)
        return self._decode_joined(text, found, left)

    def decode_messages(self, messages: Sequence[bytes]) -> DecodedBatch | None:
        """As :meth:`decode`, for separate messages."""
        if len(messages) < JSON_LIMITS.min_array_messages:
            return None
        import numpy as np

        return self.decode(messages, np.fromiter(map(len, messages), "i8", len(messages)))

    def decode_present(self, parts: Sequence[Any], lengths: Numbers, present: Numbers) -> DecodedBatch | None:
        """As :meth:`decode`, if only some messages are ``present``: the others are NULL and have no bytes."""
        import numpy as np
        import pyarrow as pa

        if present.all():
            return self.decode(parts, lengths)
        if not present.any():
            return None
        try:
            # Messages that are not present have no bytes: the others are contiguous as well.
            found = self.decode(parts, lengths[present])
        except Misfit as problem:
            problem.row = int(np.flatnonzero(present)[problem.row])
            raise
        if found is None:
            return None
        # Back to one row for each place, NULL if there is no message.
        structs = found.structs.take(pa.array(np.cumsum(present) - 1, mask=~present))
        rows = np.flatnonzero(present)[np.array(found.rows, "i8")].tolist()
        return DecodedBatch(structs, rows, found.messages)

    def _learn_template(self, message: bytes) -> TemplateBuilder[pyarrow.Array]:
        """The template of one message, if it reads that message as the decoder does. Raises NoTemplateError."""
        template = Template(message)
        wanted: dict[int, NumberForm] = {}
        columns = _ColumnBuilders(template, wanted, self._build_values, strict=self._strict, lossless=self._lossless)
        build = columns.struct_builder(template.tree, self._kind, partial=self._partial)
        shape = TemplateMatcher(template, wanted)
        alone = shape.match(MessageLines(message + LINE_END, [message]), None)
        try:
            expected = self._views([message]).to_pylist()
            same = alone.size and build(*alone[1:]).to_pylist() == expected
        except Misfit:
            same = False
        if not same:
            raise NoTemplateError
        # The count of messages for which it was useful starts after this trial.
        shape.hits = 0
        return TemplateBuilder(shape, lambda match: build(*match[1:]))

    def _decode_joined(
        self, text: MessageLines, found: Sequence[TemplateResult[pyarrow.Array]], left: Numbers
    ) -> DecodedBatch:
        import numpy as np
        import pyarrow as pa

        made = [one.made for one in found]
        places = [one.rows for one in found if one.rows is not None]
        rows = left.tolist()
        messages = [text.read_message(place) for place in rows]
        if rows:
            try:
                made.append(self._views(messages))
            except Misfit as problem:
                problem.row = rows[problem.row]
                raise
            places.append(left)
        order = np.empty(len(text), "i8")
        order[np.concatenate(places)] = np.arange(len(text))
        return DecodedBatch(pa.concat_arrays(made).take(pa.array(order)), rows, messages)


class _ColumnBuilders:
    """Creates builders of columns, and adds the slots that they need to ``wanted``.

    Values that ``strict`` or ``lossless`` forbids raise NoTemplateError: on creation of a builder if the type shows it,
    else when it meets the value.
    """

    def __init__(
        self,
        template: Template,
        wanted: dict[int, NumberForm],
        build_values: Callable[[pyarrow.DataType, bool], ViewDecoder],
        *,
        strict: bool,
        lossless: bool,
    ) -> None:
        self._template = template
        self._wanted = wanted
        self._build_values = build_values
        self._strict = strict
        self._lossless = lossless

    def struct_builder(
        self, members: dict[str, Any], kind: pyarrow.StructType, *, partial: bool = False
    ) -> ColumnBuilder:
        """Return the builder of structs of ``kind`` from objects with these members. Raises NoTemplateError."""
        import pyarrow as pa

        fields = list(kind)
        if not fields or (self._strict and not partial and members.keys() - {field.name for field in fields}):
            raise NoTemplateError
        builds = [self._column_builder(members.get(field.name), field.type) for field in fields]
        return lambda count, values: pa.StructArray.from_arrays(
            [build(count, values) for build in builds], fields=fields
        )

    def _column_builder(self, node: Any, kind: pyarrow.DataType) -> ColumnBuilder:
        """Return the builder of a declared type's column from the node of messages in its place (None: absent)."""
        import pyarrow as pa
        import pyarrow.types as t

        if node is None:
            return lambda count, values: pa.nulls(count, kind)
        if isinstance(node, dict) and t.is_struct(kind):
            return self.struct_builder(node, kind)
        if isinstance(node, dict) or node is ARRAY_MARKER:
            raise NoTemplateError
        slot = self._template.slots[node]
        if slot.kind == "list":
            return self._list_builder(node, kind)
        if slot.kind == "word":
            return self._word_builder(node, kind)
        if slot.kind == "number":
            return self._number_builder(node, kind)
        return self._string_builder(node, kind)

    def _word_builder(self, place: int, kind: pyarrow.DataType) -> ColumnBuilder:
        import pyarrow as pa
        import pyarrow.types as t

        self._wanted[place] = "whole"
        coerce = build_coercion(kind)
        made = [coerce(word) for word in WORD_VALUES]
        known = build_column(made, kind)
        # For an inferred type, only the decoder reports misfits and their places.
        loses = (self._strict and not t.is_boolean(kind)) or (self._lossless and None in made[1:])

        def build(count: int, values: SlotValues) -> pyarrow.Array:
            codes: Any = values[place]
            if loses and codes.any():
                raise NoTemplateError
            return known.take(pa.array(codes))

        return build

    def _number_builder(self, place: int, kind: pyarrow.DataType) -> ColumnBuilder:
        import pyarrow as pa
        import pyarrow.types as t

        if t.is_floating(kind):
            self._wanted[place] = "any"
            # Through doubles, as in the decoder, where a FLOAT is rounded twice, too.
            return lambda count, values: pa.array(values[place], pa.float64()).cast(kind, safe=False)
        if str(kind) not in INTEGER_BITS or not self._template.slots[place].whole:
            raise NoTemplateError
        self._wanted[place] = "whole"
        bound = 1 << INTEGER_BITS[str(kind)]

        def build(count: int, values: SlotValues) -> pyarrow.Array:
            numbers: Any = values[place]
            if bound < 1 << 63:
                fits = (numbers >= -bound) & (numbers < bound)
                if not fits.all():
                    if self._strict or self._lossless:
                        raise NoTemplateError
                    return pa.array(numbers, mask=~fits).cast(kind, safe=False)
            return pa.array(numbers).cast(kind, safe=False)

        return build

    def _list_builder(self, place: int, kind: pyarrow.DataType) -> ColumnBuilder:
        self._wanted[place] = "whole"
        decode = self._build_values(kind, self._lossless)

        def build(count: int, values: SlotValues) -> pyarrow.Array:
            try:
                return decode([b'{"value":%b}' % text for text in values[place]]).field("value")
            except Misfit:
                # Only the decoder knows in which message it is.
                raise NoTemplateError from None

        return build

    def _string_builder(self, place: int, kind: pyarrow.DataType) -> ColumnBuilder:
        import pyarrow.types as t

        self._wanted[place] = "whole"
        if t.is_string(kind):
            return lambda count, values: build_strings(values[place])
        if self._strict:
            raise NoTemplateError
        coerce, lossless = build_coercion(kind), self._lossless

        def build(count: int, values: SlotValues) -> pyarrow.Array:
            made = list(map(coerce, build_strings(values[place]).to_pylist()))
            if lossless and None in made:
                raise NoTemplateError
            return build_column(made, kind)

        return build


def build_strings(texts: TextSpans) -> pyarrow.Array:
    """STRING of texts in ascending order of their offsets."""
    import numpy as np
    import pyarrow as pa

    count = len(texts)
    offsets = np.empty(2 * count, "<i4")
    offsets[::2], offsets[1::2] = texts.begins, texts.ends
    # Every second one is the text between two values.
    pieces = pa.Array.from_buffers(pa.string(), 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(texts.raw)])
    return pieces.take(pa.array(np.arange(0, 2 * count, 2, dtype="i4")))
