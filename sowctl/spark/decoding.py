"""Messages as structs: JSON views of any message type to Arrow arrays of a declared type (sowctl-spark(7), MESSAGES).

A field takes the value of the message's JSON view where that fits the declared type, else NULL; what is not declared is
not decoded. Columns of JSON messages are cut out of their text where :mod:`sowctl.spark.shaped` can do that. Others are
decoded into typed objects, whole batches at once, and columns are made of their fields; a message that does not fit
that is read again by itself, value by value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any

from sowctl.spark import arrays
from sowctl.spark.shaped import ShapedMessages
from sowctl.spark.shapes import Odd
from sowctl.spark.templates import shape_of

if TYPE_CHECKING:
    import pyarrow

    from sowctl.messages.base import MessageType
    from sowctl.spark.arrays import Numbers
    from sowctl.spark.shapes import Shape

_INTEGERS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
Coerce = Callable[[Any], Any]


class StructDecoder:
    """Decodes messages into arrays of one struct type. Not for several threads at once."""

    def __init__(self, struct: pyarrow.StructType) -> None:
        import msgspec

        self._type = struct
        self._object = _typed(struct, [0])
        self._one = msgspec.json.Decoder(self._object)
        self._any = msgspec.json.Decoder()
        self._coerce = _coercion(struct)
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
        return _column(self._objects(views), self._type)

    def _shape(self, message: bytes) -> Shape:
        try:
            found = self._any.decode(message)
        except self._errors:
            raise Odd from None
        if not isinstance(found, dict):
            raise Odd
        return shape_of(message, self._type, _coercion, _column)

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
            return self._coerce(self._any.decode(view))
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
    if str(kind) in _INTEGERS:
        bound = 1 << _INTEGERS[str(kind)]
        return Annotated[int, msgspec.Meta(ge=-bound, le=bound - 1)]
    if t.is_floating(kind):
        return float
    if t.is_boolean(kind):
        return bool
    if t.is_string(kind):
        return str
    return msgspec.UnsetType  # accepts nothing: such values are always read by themselves


def _column(values: Sequence[Any], kind: pyarrow.DataType) -> pyarrow.Array:
    """An array of ``kind`` from decoded objects, Nones among them."""
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_struct(kind) and not kind.num_fields:
        return pa.array([None if value is None else {} for value in values], kind)
    if t.is_struct(kind):
        mask = None
        if None in values:
            mask = pa.array([value is None for value in values], pa.bool_())
            values = [_NOTHING if value is None else value for value in values]
        children = [_column(list(map(attrgetter(f"f{place}"), values)), field.type) for place, field in enumerate(kind)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if t.is_list(kind):
        offsets, absent = _offsets(values)
        inner = _column([item for value in values if value is not None for item in value], kind.value_type)
        return pa.ListArray.from_arrays(offsets, inner, type=kind, mask=absent)
    if t.is_map(kind):
        pairs = [None if value is None else list(value.items()) for value in values]
        offsets, absent = _offsets(pairs)
        flat = [pair for one in pairs if one is not None for pair in one]
        keys = pa.array([key for key, _ in flat], kind.key_type)
        items = _column([item for _, item in flat], kind.item_type)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=absent)
    return pa.array(values, kind)


def _offsets(values: Sequence[Any]) -> tuple[pyarrow.Array, pyarrow.Array]:
    import pyarrow as pa

    ends = accumulate((0 if value is None else len(value) for value in values), initial=0)
    return pa.array(list(ends), pa.int32()), pa.array([value is None for value in values], pa.bool_())


class _Nothing:
    """Stands for an object that is not there: every field of it is None."""

    def __getattr__(self, name: str) -> None:
        return None


_NOTHING = _Nothing()


class _Fields:
    """Stands for a decoded object whose values were read one by one."""

    def __init__(self, values: Sequence[Any]) -> None:
        for place, value in enumerate(values):
            setattr(self, f"f{place}", value)


def _coercion(kind: pyarrow.DataType) -> Coerce:
    """From any JSON value to what :func:`_column` takes, None where it does not fit."""
    import pyarrow.types as t

    if t.is_struct(kind):
        members = [(field.name, _coercion(field.type)) for field in kind]

        def struct(value: Any) -> Any:
            if not isinstance(value, dict):
                return None
            return _Fields([coerce(value.get(name)) for name, coerce in members])

        return struct
    if t.is_list(kind):
        item = _coercion(kind.value_type)
        return lambda value: [item(one) for one in value] if isinstance(value, list) else None
    if t.is_map(kind):
        inner = _coercion(kind.item_type)
        return lambda value: {key: inner(one) for key, one in value.items()} if isinstance(value, dict) else None
    if str(kind) in _INTEGERS:
        return _integer(1 << _INTEGERS[str(kind)])
    if t.is_floating(kind):
        return lambda value: float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    if t.is_boolean(kind):
        return lambda value: value if isinstance(value, bool) else None
    if t.is_string(kind):
        return _text
    if t.is_binary(kind):
        return lambda value: value.encode() if isinstance(value, str) else None
    if t.is_decimal(kind):
        return _decimal(kind)
    if t.is_timestamp(kind) or t.is_date(kind):
        return _moment(kind)
    return lambda value: None


def _integer(bound: int) -> Coerce:
    def integer(value: Any) -> int | None:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and -bound <= value < bound:
            return value
        return None

    return integer


def _text(value: Any) -> str | None:
    """A string as it is; anything else as JSON writes it."""
    import msgspec

    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def _decimal(kind: pyarrow.DataType) -> Coerce:
    from decimal import Decimal, InvalidOperation

    def decimal(value: Any) -> Decimal | None:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return None
        try:
            exact = Decimal(str(value)).quantize(Decimal(1).scaleb(-kind.scale))
        except InvalidOperation:
            return None
        return exact if len(exact.as_tuple().digits) <= kind.precision and exact.is_finite() else None

    return decimal


def _moment(kind: pyarrow.DataType) -> Coerce:
    """ISO-8601 texts; a time without a zone is UTC."""
    from datetime import UTC, date, datetime

    import pyarrow.types as t

    def moment(value: Any) -> date | None:
        if not isinstance(value, str):
            return None
        try:
            if t.is_date(kind):
                return date.fromisoformat(value[:10])
            found = datetime.fromisoformat(value)
        except ValueError:
            return None
        if kind.tz is None:
            return found.replace(tzinfo=None)
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)

    return moment
