"""JSON values as Arrow columns of a declared type: what fits is taken, the rest is NULL (sowctl-spark(7), MESSAGES).

Called by :mod:`sowctl.spark.decoding`, and by way of it for the columns that are cut out of messages' texts.
:func:`coercion` says of one value after the other what it is in the declared type; :func:`column` makes an array of
what came out, and of objects that were decoded as a whole: both have a struct's fields as ``f0``, ``f1`` and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

INTEGERS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
"""The types of whole numbers, and the bits of each besides the sign."""
Coerce = Callable[[Any], Any]


def column(values: Sequence[Any], kind: pyarrow.DataType) -> pyarrow.Array:
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
        children = [column(list(map(attrgetter(f"f{place}"), values)), field.type) for place, field in enumerate(kind)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if t.is_list(kind):
        offsets, absent = _offsets(values)
        inner = column([item for value in values if value is not None for item in value], kind.value_type)
        return pa.ListArray.from_arrays(offsets, inner, type=kind, mask=absent)
    if t.is_map(kind):
        pairs = [None if value is None else list(value.items()) for value in values]
        offsets, absent = _offsets(pairs)
        flat = [pair for one in pairs if one is not None for pair in one]
        keys = pa.array([key for key, _ in flat], kind.key_type)
        items = column([item for _, item in flat], kind.item_type)
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


def coercion(kind: pyarrow.DataType) -> Coerce:
    """From any JSON value to what :func:`column` takes, None where it does not fit."""
    import pyarrow.types as t

    if t.is_struct(kind):
        members = [(field.name, coercion(field.type)) for field in kind]

        def struct(value: Any) -> Any:
            if not isinstance(value, dict):
                return None
            return _Fields([coerce(value.get(name)) for name, coerce in members])

        return struct
    if t.is_list(kind):
        item = coercion(kind.value_type)
        return lambda value: [item(one) for one in value] if isinstance(value, list) else None
    if t.is_map(kind):
        inner = coercion(kind.item_type)
        return lambda value: {key: inner(one) for key, one in value.items()} if isinstance(value, dict) else None
    if str(kind) in INTEGERS:
        return _integer(1 << INTEGERS[str(kind)])
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
