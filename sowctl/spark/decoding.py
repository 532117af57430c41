"""Messages as structs: JSON views of any message type to Arrow arrays of a declared type (sowctl-spark(7), MESSAGES).

A field takes the value of the message's JSON view where that fits the declared type, else NULL; what is not declared is
not decoded. Columns of JSON messages are cut out of their text where :mod:`sowctl.spark.shaped` can do that. Others are
decoded into typed objects, whole batches at once, and columns are made of their fields; a message that does not fit
that is read again by itself, value by value, by :mod:`sowctl.spark.jsoncolumns`. Called by the readers of stores and
journals, and by the jobs that write columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Annotated, Any

from sowctl.messages.jsonexact import with_characters
from sowctl.spark import arrays
from sowctl.spark.jsoncolumns import INTEGERS, coercion, column
from sowctl.spark.shaped import ShapedMessages
from sowctl.spark.shapes import Odd
from sowctl.spark.templates import shape_of

if TYPE_CHECKING:
    import pyarrow

    from sowctl.messages.base import MessageType
    from sowctl.spark.arrays import Numbers
    from sowctl.spark.shapes import Shape


class StructDecoder:
    """Decodes messages into arrays of one struct type. Not for several threads at once."""

    def __init__(self, struct: pyarrow.StructType) -> None:
        import msgspec

        self._type = struct
        self._object = _typed(struct, [0])
        self._one = msgspec.json.Decoder(self._object)
        self._any = msgspec.json.Decoder()
        self._coerce = coercion(struct)
        self._errors = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
        self._shaped = ShapedMessages(self.views, self._shape)

    def array(self, payloads: Sequence[bytes | None], kind: MessageType) -> pyarrow.Array:
        """One struct per payload; NULL where there is no message, or one that cannot be read."""
        if kind.kind == "json":
            made = None
            if payloads and None not in payloads:
                made = self._shaped.array(payloads, arrays.lengths(payloads))  # type: ignore[arg-type]
            return self.views(payloads) if made is None else made
        return self.views([None if payload is None else kind.view(payload) for payload in payloads])

    def packed(self, parts: Sequence[Any], lengths: Numbers, present: Numbers) -> pyarrow.Array:
        """The same of JSON messages that lie back to back in ``parts``, ``lengths`` says how many bytes each.

        What is not ``present`` is NULL and has no bytes.
        """
        whole = bool(present.all())
        made = self._shaped.array(parts, lengths if whole else lengths[present]) if present.any() else None
        if made is None:
            raw = b"".join(parts)
            cut = [raw[start:end] for start, end in pairwise(accumulate(lengths.tolist(), initial=0))]
            return self.views(
                cut if whole else [one if there else None for one, there in zip(cut, present.tolist(), strict=True)]
            )
        return made if whole else made.take(arrays.places(present))

    def views(self, views: Sequence[bytes | None]) -> pyarrow.Array:
        """The same of JSON views."""
        return column(self._objects(views), self._type)

    def _shape(self, message: bytes) -> Shape:
        try:
            found = self._any.decode(message)
        except self._errors:
            raise Odd from None
        if not isinstance(found, dict):
            raise Odd
        return shape_of(message, self._type)

    def _objects(self, views: Sequence[bytes | None]) -> list[Any]:
        if None not in views:
            # Not decode_lines(): it takes two values on one line, and one on two, for two.
            try:
                return list(map(self._one.decode, views))  # type: ignore[arg-type]
            except self._errors:
                pass
        return [None if view is None else self._by_itself(view) for view in views]

    def _by_itself(self, view: bytes) -> Any:
        try:
            return self._one.decode(view)
        except self._errors:
            pass
        try:
            return self._coerce(self._any.decode(with_characters(view)))
        except self._errors:
            return None


def _typed(kind: pyarrow.DataType, counter: list[int]) -> Any:
    """The annotation for msgspec that accepts exactly the values which need no second look."""
    import msgspec
    import pyarrow.types as t

    if t.is_struct(kind):
        counter[0] += 1
        fields = [(f"f{place}", _typed(field.type, counter) | None, None) for place, field in enumerate(kind)]
        names = {f"f{place}": field.name for place, field in enumerate(kind)}
        return msgspec.defstruct(f"S{counter[0]}", fields, rename=names, gc=False)
    if t.is_list(kind):
        return list[_typed(kind.value_type, counter) | None]  # type: ignore[misc]
    if t.is_map(kind):
        return dict[str, _typed(kind.item_type, counter) | None]  # type: ignore[misc]
    if str(kind) in INTEGERS:
        bound = 1 << INTEGERS[str(kind)]
        return Annotated[int, msgspec.Meta(ge=-bound, le=bound - 1)]
    if t.is_floating(kind):
        return float
    if t.is_boolean(kind):
        return bool
    if t.is_string(kind):
        return str
    return msgspec.UnsetType  # accepts nothing: such values are always read by themselves
