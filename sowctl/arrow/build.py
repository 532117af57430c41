"""Rows to messages: what a value of each Arrow type is in a message of each type (sowctl-spark(7), WRITING).

Called by ``publish --from`` and by the pipeline's writers. NULL fields are left out.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from sowctl.errors import UsageError
from sowctl.values.compare import plain
from sowctl.values.fields import Number
from sowctl.values.times import EPOCH, format_time

if TYPE_CHECKING:
    import pyarrow

    from sowctl.config.model import TopicConfig
    from sowctl.messages.base import MessageType
    from sowctl.values.fields import Scalar


def stamp(at: datetime | None) -> str | None:
    """A time as messages and envelopes have it."""
    return None if at is None else format_time((_aware(at) - EPOCH) // timedelta(microseconds=1))


def _aware(at: datetime) -> datetime:
    # A time that names no zone is UTC (behaviour 11.22).
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


class MessageMaker:
    """Makes messages of one type from rows whose columns are their fields (sowctl-spark(7), WRITING).

    The one place that says what a value of a type is in a message: for ``publish --from``, for the data source's writer
    and for the job ``load``. ``fields`` are the columns; ``root`` is the root element that the topic's keys name, for
    XML; ``variant`` reads a VARIANT of Spark, its value and its metadata. Raises
    UsageError ``SOW-SPK-081`` where XML has no one root element for them.
    """

    def __init__(
        self,
        fields: Sequence[pyarrow.Field],
        kind: MessageType,
        root: str | None = None,
        variant: Callable[[bytes, bytes], Any] | None = None,
    ) -> None:
        from sowctl.messages.nested.type import TreeType

        self._kind = kind
        self._tree = kind if isinstance(kind, TreeType) else None
        self._root = wrapping([field.name for field in fields], root) if kind.rooted else None
        # JSON has numbers of any length and no bytes; the tree formats have bytes of their own; the others have texts.
        if kind.json_text:
            form = _Form(_base64, _digits, variant)
        elif self._tree is not None:
            form = _Form(lambda value: value, lambda value: plain(_number(value)), variant)
        else:
            form = _Form(_base64, _number, variant)
        self._cells = _struct(fields, form)

    def message(self, row: dict[str, Any]) -> bytes:
        """One message, without the fields that are NULL.

        Raises what :meth:`MessageType.build` raises, UsageError ``SOW-SPK-030`` for a field that its type cannot hold.
        """
        members = self._cells(row)
        if self._kind.json_text:
            import msgspec

            encoded: bytes = msgspec.json.encode(members)
            return encoded
        if self._tree is not None:
            return self._tree.made(members)
        return self._kind.build(list(_members(members, () if self._root is None else (self._root,))))


def root_of(topic: TopicConfig) -> str | None:
    """The step that all keys of a topic begin with: the root element of its messages, where these are XML."""
    roots = {key.names[0] for key in topic.keys}
    return roots.pop() if len(roots) == 1 else None


def wrapping(names: Sequence[str], root: str | None) -> str | None:
    """The root element that goes around the columns; None where the one column is that element."""
    # The column is the root element already, so nothing is put around it.
    if list(names) == [root] or (root is None and len(names) == 1):
        return None
    if root is not None and root not in names:
        return root
    one = "one root element" if root is None else f"one root element, and keys of this topic begin with /{root}"
    raise UsageError(
        "SOW-SPK-081",
        f"an XML message has {one}: it cannot be made of the columns {', '.join(names)}",
        hint=f"make them one column: select(struct(...).alias({root or 'ROOT'!r}))",
    )


Cell: TypeAlias = "Callable[[Any], Any]"


class _Form(Struct, frozen=True):
    """What depends on the format: how it has bytes, and how decimals; ``variant`` reads a VARIANT."""

    binary: Cell
    decimal: Cell
    variant: Callable[[bytes, bytes], Any] | None


def _base64(value: bytes) -> str:
    return b64encode(value).decode()


def _digits(value: Decimal) -> Any:
    """A JSON number with these digits."""
    import msgspec

    # Put in as text: a float would round it, and msgspec writes a Decimal as a JSON string.
    return msgspec.Raw(f"{value:f}".encode())


def _number(value: Decimal) -> Number | str:
    """A number with its digits; the digits alone where neither 64 bits nor a double hold it."""
    text = f"{value:f}"
    # Formats with numbers of their own hold 64 bits or a double; a number that either would change is written as its
    # digits.
    if value == value.to_integral_value() and abs(value) < 1 << 63:
        return Number(int(value), text.encode())
    return Number(float(value), text.encode()) if Decimal(repr(float(value))) == value else text


def _struct(fields: Sequence[pyarrow.Field], form: _Form) -> Cell:
    cells = [(field.name, _cell(field.type, form)) for field in fields]

    def struct(row: Any) -> Any:
        # NULL fields are left out, so that in a delta they keep their values (behaviour 1.3).
        return {name: made for name, cell in cells if (made := cell(row[name])) is not None}

    return struct


def _cell(kind: pyarrow.DataType, form: _Form) -> Cell:
    """What a value of this type is in a message, None for NULL."""
    import pyarrow.types as t

    made: Cell
    if t.is_integer(kind) or t.is_boolean(kind) or t.is_string(kind):
        return lambda value: value
    if t.is_struct(kind):
        made = _variant(form) if form.variant is not None and _is_variant(kind) else _struct(list(kind), form)
    elif t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        item = _cell(kind.value_type, form)
        made = lambda value: [item(one) for one in value]  # noqa: E731 - one of many
    elif t.is_map(kind):
        key, inner = _cell(kind.key_type, form), _cell(kind.item_type, form)
        made = lambda value: {  # noqa: E731
            _name(key(name)): found for name, one in value if (found := inner(one)) is not None
        }
    elif t.is_float32(kind) or t.is_float16(kind):
        made = _short_double
    else:
        made = lambda value: _scalar(value, form)  # noqa: E731
    return lambda value: None if value is None else made(value)


def json_cell(kind: pyarrow.DataType) -> Cell:
    """What makes of a value of this type what it is in a message of type json."""
    return _cell(kind, _Form(_base64, _digits, None))


def _short_double(value: float) -> float | None:
    """The shortest double that is this 32-bit number: 0.1 and not 0.10000000149011612."""
    import numpy as np

    return float(str(np.float32(value))) if isfinite(value) else None


def _scalar(value: Any, form: _Form) -> Any:
    """One value; NaN and infinities, which most formats do not have, are NULL."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, bool | int | str):
        return value
    # Before dates: in Python a datetime is a date, too.
    if isinstance(value, datetime):
        return stamp(value)
    if isinstance(value, bytes):
        return form.binary(value)
    if isinstance(value, Decimal):
        return form.decimal(value)
    if isinstance(value, timedelta):
        return form.decimal(_seconds(value))
    return value.isoformat() if isinstance(value, date | time) else str(value)


def _seconds(value: timedelta) -> Decimal:
    """An interval in seconds, exact, without zeros at the end of its fraction."""
    micros = Decimal(value // timedelta(microseconds=1)).scaleb(-6)
    whole = micros.to_integral_value()
    return whole if whole == micros else micros.normalize()


def _is_variant(kind: pyarrow.StructType) -> bool:
    """Whether a struct is what Spark hands over for a VARIANT."""
    return any(field.name == "metadata" and b"variant" in (field.metadata or {}) for field in kind)


def _variant(form: _Form) -> Cell:
    read = form.variant
    assert read is not None
    return lambda value: _loose(read(value["value"], value["metadata"]), form)


def _loose(value: Any, form: _Form) -> Any:
    """A value of a VARIANT, which brings its type with it. NULLs in it are kept: they were written."""
    if isinstance(value, dict):
        return {name: _loose(inner, form) for name, inner in value.items()}
    if isinstance(value, list):
        return [_loose(inner, form) for inner in value]
    return None if value is None else _scalar(value, form)


def _name(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, str | int | float | None):
        return str(key)
    return key.text.decode() if isinstance(key, Number) else bytes(key).decode()


def _members(row: dict[str, Any], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Scalar]]:
    for name, value in row.items():
        path = (*above, name)
        if isinstance(value, dict):
            yield from _members(value, path)
        elif isinstance(value, list):
            raise UsageError(
                "SOW-SPK-030",
                f"field {'/'.join(path)} is a list, and messages of this type cannot be made with one",
                hint="give such messages as bytes in a column payload",
            )
        elif value is not None:
            yield path, value
