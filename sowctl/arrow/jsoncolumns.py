"""JSON values as Arrow columns of a declared type: values that fit are kept, others are NULL (sowctl-spark(7)).

Called by :mod:`sowctl.arrow.struct_decoder`, and through it for the columns that are cut out of messages' texts.
:func:`build_coercion` converts one value after the other to the declared type; :func:`build_column` builds an array
from the results, and from objects that were decoded completely: both have a struct's fields as ``f0``, ``f1`` and so
on. Values are those of :mod:`sowctl.arrow.jsontrees`: numbers other than ``int`` keep their digits. Nothing may be lost
with an inferred type: there, a value that does not fit raises :class:`Misfit`.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from itertools import accumulate
from math import isfinite
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Raw
from msgspec.json import decode, encode

from sowctl.arrow.jsontrees import TreeReader, Unreadable, read_digits
from sowctl.values.scalars import parse_number

if TYPE_CHECKING:
    import pyarrow

INTEGER_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
"""The types of whole numbers, and the bits of each without the sign."""
Coercion = Callable[[Any], Any]
_QUOTE_BYTE, _NUMERIC_BYTES = 0x22, b"-0123456789"
_MAX_DECIMAL_DIGITS = 40
"""Digits before the point beyond which no number fits a DECIMAL or a 64-bit integer."""


class Misfit(Exception):
    """A value that an inferred type cannot hold, or an unknown field; ``row`` is the index of its message."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.names: list[str] = []
        self.row = 0


class MemberCount:
    """The total number of members of decoded objects: fields of structs, entries of maps."""

    def __init__(self) -> None:
        self.members = 0

    def replace_absent(self, values: list[Any]) -> list[Any]:
        """Values of a field of structs that were counted completely, with UNSET, an absent member, replaced by None."""
        found = [None if value is UNSET else value for value in values]
        self.members -= sum(value is UNSET for value in values)
        return found


def build_column(values: Sequence[Any], kind: pyarrow.DataType, count: MemberCount | None = None) -> pyarrow.Array:
    """An array of ``kind`` from decoded objects, including Nones.

    ``count``: members are added to it, and a field may be UNSET, which does not count.
    """
    import pyarrow as pa
    import pyarrow.types as t

    # Arrow cannot build a struct array without children by itself, because its length would be unknown.
    if t.is_struct(kind) and not kind.num_fields:
        return pa.array([None if value is None else {} for value in values], kind)
    if t.is_struct(kind):
        mask = None
        if None in values:
            mask = pa.array([value is None for value in values], pa.bool_())
            # Children have a value for every row, even if the object is missing; the mask marks these rows.
            values = [_MISSING_OBJECT if value is None else value for value in values]
        if count is not None:
            count.members += kind.num_fields * (len(values) if mask is None else len(mask) - mask.true_count)
        children = [
            _build_field(list(map(attrgetter(f"f{place}"), values)), field.type, count)
            for place, field in enumerate(kind)
        ]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if t.is_list(kind):
        offsets, absent = _list_offsets(values)
        inner = build_column([item for value in values if value is not None for item in value], kind.value_type, count)
        return pa.ListArray.from_arrays(offsets, inner, type=kind, mask=absent)
    if t.is_map(kind):
        pairs = [None if value is None else list(value.items()) for value in values]
        offsets, absent = _list_offsets(pairs)
        flat = [pair for one in pairs if one is not None for pair in one]
        keys = pa.array([key for key, _ in flat], kind.key_type)
        if count is not None:
            count.members += len(flat)
        items = build_column([item for _, item in flat], kind.item_type, count)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=absent)
    # The decoder has read these types itself; the others are raw texts and are read here.
    if not ((t.is_primitive(kind) and not t.is_temporal(kind)) or t.is_string(kind)):
        coerce = build_coercion(kind)
        values = [coerce(_read_raw(value)) if type(value) is Raw else value for value in values]
    return pa.array(values, kind)


def _build_field(values: list[Any], kind: pyarrow.DataType, count: MemberCount | None) -> pyarrow.Array:
    """The array of one field of some structs."""
    import pyarrow as pa
    import pyarrow.types as t

    if count is None:
        return build_column(values, kind)
    if t.is_nested(kind):
        return build_column(count.replace_absent(values) if UNSET in values else values, kind, count)
    try:
        # Usually no member is absent, and no value need be checked: Arrow accepts UNSET for no type.
        return build_column(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return build_column(count.replace_absent(values), kind)


def _read_raw(raw: Raw) -> Any:
    """Read a value that was cut out of a message; no other values are Raw here."""
    text = bytes(raw)
    if text[0] != _QUOTE_BYTE:
        # Types that are read here come from texts and numbers; objects, arrays, truth values and null fit none of them.
        return raw if text[0] in _NUMERIC_BYTES else None
    return text[1:-1].decode() if b"\\" not in text else decode(text)


def _list_offsets(values: Sequence[Any]) -> tuple[pyarrow.Array, pyarrow.Array | None]:
    """Where the items of each list begin, one place more than lists, and which lists are missing (None: none is)."""
    import numpy as np
    import pyarrow as pa

    if None not in values:
        offsets = np.zeros(len(values) + 1, "i8")
        np.cumsum(np.fromiter(map(len, values), "i8", len(values)), out=offsets[1:])
        return pa.array(offsets).cast(pa.int32()), None
    ends = accumulate((0 if value is None else len(value) for value in values), initial=0)
    return pa.array(list(ends), pa.int32()), pa.array([value is None for value in values], pa.bool_())


class _MissingObject:
    """Represents a missing object: every field of it is None."""

    def __getattr__(self, name: str) -> None:
        return None


_MISSING_OBJECT = _MissingObject()


class _DecodedObject:
    """Represents a decoded object whose values were read one by one."""

    def __init__(self, values: Sequence[Any]) -> None:
        for place, value in enumerate(values):
            setattr(self, f"f{place}", value)


def build_coercion(kind: pyarrow.DataType, *, strict: bool = False, partial: bool = False) -> Coercion:
    """Return the conversion of any JSON value to a value for :func:`build_column`, None if it does not fit.

    ``strict``: raise :class:`Misfit` instead, also for undeclared members of an object; for ``partial`` objects, only
    for those of nested objects.
    """
    if not strict:
        return _lenient_coercion(kind, build_coercion)
    import pyarrow.types as t

    if t.is_struct(kind):
        return _strict_struct_coercion(kind, partial=partial)
    coerce, rounds = _lenient_coercion(kind, lambda inner: build_coercion(inner, strict=True)), t.is_decimal(kind)

    def strictly(value: Any) -> Any:
        found = coerce(value)
        # A DECIMAL was chosen to keep every digit: rounding is a loss like any other.
        if (found is None and value is not None) or (rounds and found is not None and found != _parse_exact(value)):
            raise Misfit(f"{_shorten_value(value)} is not of type {_shorten_text(format_type(kind))}")
        return found

    return strictly


def make_declared_view(kind: pyarrow.DataType, *, numbers: bool, lists: bool) -> Callable[[bytes], bytes] | None:
    """Return the function that converts a JSON view of an untyped message type to the declared types.

    ``numbers``: numeric texts in columns of numbers become numbers. ``lists``: a single value in a column of lists
    becomes a list of one. Return None if there is no such column.
    """
    convert = _view_converter(kind, numbers, lists)
    if convert is None:
        return None
    read_tree = TreeReader().read_tree

    def view(text: bytes) -> bytes:
        # Without texts among the values there are no numeric ones.
        if not lists and b':"' not in text and b',"' not in text and b'["' not in text:
            return text
        try:
            return encode(convert(read_tree(text)))
        except (Unreadable, OverflowError, RecursionError):
            return text

    return view


def _view_converter(kind: pyarrow.DataType, numbers: bool, lists: bool) -> Coercion | None:
    """Return the converter of one value for :func:`make_declared_view`; None if it is unchanged."""
    import pyarrow.types as t

    if t.is_struct(kind):
        inner_of = [(field.name, _view_converter(field.type, numbers, lists)) for field in kind]
        members = [(name, inner) for name, inner in inner_of if inner is not None]
        if not members:
            return None

        def struct(value: Any) -> Any:
            if isinstance(value, dict):
                value |= {name: inner(value[name]) for name, inner in members if name in value}
            return value

        return struct
    if t.is_list(kind):
        item = _view_converter(kind.value_type, numbers, lists)
        if item is None and not lists:
            return None

        def items(value: Any) -> Any:
            if lists and value is not None and not isinstance(value, list):
                value = [value]
            return list(map(item, value)) if isinstance(value, list) and item is not None else value

        return items
    if t.is_map(kind):
        one_of = _view_converter(kind.item_type, numbers, lists)
        if one_of is None:
            return None

        def pairs(value: Any) -> Any:
            return {name: one_of(one) for name, one in value.items()} if isinstance(value, dict) else value

        return pairs
    if not numbers:
        return None
    return _parse_number_text if str(kind) in INTEGER_BITS or t.is_floating(kind) or t.is_decimal(kind) else None


def _parse_number_text(value: Any) -> Any:
    """Convert a text with a numeric reading to a JSON number with all its digits."""
    if not isinstance(value, str) or parse_number(value) is None:
        return value
    try:
        return Raw(str(Decimal(value)).encode())
    except InvalidOperation:  # an exponent beyond all limits
        return value


_TYPE_NAMES = {
    "bool": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "binary": "BINARY",
    "date32[day]": "DATE",
}


def format_type(kind: pyarrow.DataType) -> str:
    """Return the name of a type in SQL: reasons show types as declared."""
    import pyarrow.types as t

    if t.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz else "TIMESTAMP_NTZ"
    if t.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if t.is_list(kind):
        return f"ARRAY<{format_type(kind.value_type)}>"
    if t.is_map(kind):
        return f"MAP<{format_type(kind.key_type)}, {format_type(kind.item_type)}>"
    if t.is_struct(kind):
        return f"STRUCT<{', '.join(f'{one.name}: {format_type(one.type)}' for one in kind)}>"
    return _TYPE_NAMES.get(str(kind), str(kind))


def _strict_struct_coercion(kind: pyarrow.DataType, *, partial: bool = False) -> Coercion:
    members = [(field.name, build_coercion(field.type, strict=True)) for field in kind]
    known = {name for name, _ in members}

    def struct(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise Misfit(f"{_shorten_value(value)} is not an object")
        # One is enough for the error; the names on the path are prepended by the enclosing objects.
        for name in () if partial else value.keys() - known:
            problem = Misfit("it is among no fields that were seen")
            problem.names.append(name)
            raise problem
        found = []
        for name, coerce in members:
            try:
                found.append(coerce(value.get(name)))
            except Misfit as problem:
                problem.names.insert(0, name)
                raise
        return _DecodedObject(found)

    return struct


def _shorten_value(value: Any) -> str:
    text = _coerce_text(value) or ""
    return _shorten_text(text)


def _shorten_text(text: str) -> str:
    return text if len(text) <= 60 else text[:60] + "..."


def _lenient_coercion(kind: pyarrow.DataType, inner_of: Callable[[pyarrow.DataType], Coercion]) -> Coercion:
    """The coercion of one type; ``inner_of`` returns those of the types in it."""
    import pyarrow.types as t

    if t.is_struct(kind):
        members = [(field.name, inner_of(field.type)) for field in kind]

        def struct(value: Any) -> Any:
            if not isinstance(value, dict):
                return None
            return _DecodedObject([coerce(value.get(name)) for name, coerce in members])

        return struct
    if t.is_list(kind):
        item = inner_of(kind.value_type)
        return lambda value: [item(one) for one in value] if isinstance(value, list) else None
    if t.is_map(kind):
        inner = inner_of(kind.item_type)
        return lambda value: {key: inner(one) for key, one in value.items()} if isinstance(value, dict) else None
    if str(kind) in INTEGER_BITS:
        return _integer_coercion(1 << INTEGER_BITS[str(kind)])
    if t.is_floating(kind):
        return _coerce_double
    if t.is_boolean(kind):
        return lambda value: value if isinstance(value, bool) else None
    if t.is_string(kind):
        return _coerce_text
    if t.is_binary(kind):
        return _coerce_binary
    if t.is_decimal(kind):
        return _decimal_coercion(kind)
    if t.is_timestamp(kind) or t.is_date(kind):
        return _timestamp_coercion(kind)
    if t.is_null(kind):
        return lambda value: None
    raise TypeError(f"a message has no {kind}")  # refused earlier by sowctl.spark.schema


def _parse_exact(value: Any) -> Decimal | None:
    """A number with all its digits; None for other values, and for one that is too long for any type."""
    if isinstance(value, bool) or not isinstance(value, int | Raw):
        return None
    try:
        number = Decimal(value) if isinstance(value, int) else Decimal(read_digits(value))
    except InvalidOperation:  # an exponent beyond all limits
        return None
    return number if not number or number.adjusted() <= _MAX_DECIMAL_DIGITS else None


def _integer_coercion(bound: int) -> Coercion:
    def integer(value: Any) -> int | None:
        if isinstance(value, Raw):
            number = _parse_exact(value)
            # ``1.0`` and ``1e3`` are whole numbers in JSON; fractions do not fit the type.
            if number is None or number != number.to_integral_value():
                return None
            value = int(number)
        if isinstance(value, int) and not isinstance(value, bool) and -bound <= value < bound:
            return value
        return None

    return integer


def _coerce_double(value: Any) -> float | None:
    """The nearest double, None for a number beyond the range; also NaN and infinities, which only floats have."""
    if isinstance(value, float):
        return value
    if isinstance(value, bool) or not isinstance(value, int | Raw):
        return None
    try:
        found = float(value) if isinstance(value, int) else float(read_digits(value))
    except OverflowError:
        return None
    return found if isfinite(found) else None


def _coerce_text(value: Any) -> str | None:
    """A string unchanged; any other value as in the message, without white space between its tokens."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Raw):
        return read_digits(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, float):
        return format_non_finite(value)
    return encode(_convert_for_json(value)).decode()


def format_non_finite(value: float) -> str:
    """NaN and infinities as texts, as Spark's ``to_json`` writes them; if omitted, a delta would keep the old value."""
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _convert_for_json(value: Any) -> Any:
    """A value of a format with binary data, NaN and infinities, in its JSON form."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, float):
        return format_non_finite(value)
    if isinstance(value, dict):
        return {name: _convert_for_json(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_convert_for_json(inner) for inner in value]
    return value


def _coerce_binary(value: Any) -> bytes | None:
    """Binary data of a format that has them; otherwise decode the Base64 form of bytes."""
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        return None
    try:
        return b64decode(value, validate=True)
    except ValueError:
        return None


def _decimal_coercion(kind: pyarrow.DataType) -> Coercion:
    quantum = Decimal(1).scaleb(-kind.scale)
    # a context of its own: the default one rounds to 28 digits
    context = Context(prec=2 * _MAX_DECIMAL_DIGITS, rounding=ROUND_HALF_EVEN)

    def decimal(value: Any) -> Decimal | None:
        try:
            # A decimal number may also be in a text.
            number = Decimal(value) if isinstance(value, str) else _parse_exact(value)
            if number is None or not number.is_finite():
                return None
            exact = number.quantize(quantum, context=context)
        except InvalidOperation:
            return None
        # With more digits before the point than the type has, null rather than another number.
        return exact if len(exact.as_tuple().digits) <= kind.precision else None

    return decimal


def _timestamp_coercion(kind: pyarrow.DataType) -> Coercion:
    """ISO-8601 texts; a time without a zone is UTC."""
    from datetime import UTC, date, datetime

    import pyarrow.types as t

    def moment(value: Any) -> date | None:
        if not isinstance(value, str):
            return None
        try:
            if t.is_date(kind):
                # A time after the date is dropped.
                return date.fromisoformat(value[:10])
            found = datetime.fromisoformat(value)
        except ValueError:
            return None
        # Such a column has no zone, so it has the time as written.
        if kind.tz is None:
            return found.replace(tzinfo=None)
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)

    return moment
