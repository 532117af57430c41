"""Convert members to messages of each type, and results of SQL to JSON. The columns of typed tables are converted by
:mod:`sowctl.arrow.inputs.columnvalues`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from sowctl.arrow.jsoncolumns import format_non_finite
from sowctl.errors import SowError, UsageError
from sowctl.messages.native_values import (
    JSON_FORM,
    Cell,
    Form,
    choose_form,
    convert_scalar,
    encode_message,
    format_name,
    format_timestamp,
)

if TYPE_CHECKING:
    import pyarrow

    from sowctl.config.model import TopicConfig
    from sowctl.messages.base import MessageType

__all__ = [
    "MessageEncoder",
    "build_json_encoder",
    "find_root",
    "find_wrapping_root",
    "format_interval",
    "format_timestamp",
]


UNWRITABLE_ERRORS = (SowError, ValueError, TypeError, OverflowError, RecursionError)
"""Exceptions of building a message whose type cannot represent the members."""


class MessageEncoder:
    """Messages of one type from their members. ``names`` are those of all members; ``root`` is the root element that
    the topic's keys name, for XML. Raises UsageError ``SOW-SPK-081`` if XML has no unique root element for them."""

    def __init__(
        self,
        kind: MessageType,
        names: Sequence[str],
        root: str | None = None,
    ) -> None:
        self._kind = kind
        self._above: tuple[str, ...] = ()
        if kind.rooted and (around := find_wrapping_root(names, root)) is not None:
            self._above = (around,)
        self._single_root = names[0] if kind.rooted and not self._above and len(names) == 1 else None
        self.form = replace(choose_form(kind), odd=format_non_finite)

    def encode(self, members: dict[str, Any]) -> bytes:
        """Return one message. Raises the errors of :meth:`MessageType.build_message`, UsageError ``SOW-SPK-030``; the
        error names the member that the type cannot represent."""
        if self._single_root is not None and not members:
            # A column does not distinguish an empty root element from an absent one, but a message has one.
            members = {self._single_root: None}
        try:
            return encode_message(members, self._kind, self._above, _list_error)
        except UNWRITABLE_ERRORS as problem:
            raise self._name_member(members, problem) from None

    def _name_member(self, members: dict[str, Any], problem: Exception) -> Exception:
        for name, value in members.items():
            try:
                encode_message({name: value}, self._kind, self._above, _list_error)
            except UNWRITABLE_ERRORS as own:
                if str(own) != str(problem):
                    continue
                if isinstance(problem, SowError):
                    return type(problem)(problem.code, f"column {name}: {problem.message}", hint=problem.hint)
                return ValueError(f"column {name}: {problem}")
        return problem


def find_root(topic: TopicConfig) -> str | None:
    """The common first step of all keys of a topic: the root element of its messages, if these are XML."""
    roots = {key.names[0] for key in topic.keys}
    return roots.pop() if len(roots) == 1 else None


def find_wrapping_root(names: Sequence[str], root: str | None) -> str | None:
    """The root element to put around the columns; None if the only column is that element."""
    # The column is the root element already, so nothing is put around it.
    if list(names) == [root] or (root is None and len(names) == 1):
        return None
    if root is not None and root not in names:
        return root
    one = "one root element" if root is None else f"one root element, and keys of this topic begin with /{root}"
    raise UsageError(
        "SOW-SPK-081",
        f"an XML message has {one}, so it cannot be constructed from the columns {', '.join(names)}",
        hint=f"make them one column: select(struct(...).alias({root or 'ROOT'!r}))",
    )


def _struct_encoder(fields: Sequence[pyarrow.Field], form: Form) -> Cell:
    cells = [(field.name, _cell_encoder(field.type, form)) for field in fields]

    def struct(row: Any) -> Any:
        # NULL fields are omitted, so that in a delta they keep their values (behaviour 1.3).
        return {name: made for name, cell in cells if (made := cell(row[name])) is not None}

    return struct


def _cell_encoder(kind: pyarrow.DataType, form: Form) -> Cell:
    """Return the function that converts a value of this type to its value in a message, None for NULL."""
    import pyarrow.types as t

    made: Cell
    if t.is_integer(kind) or t.is_boolean(kind) or t.is_string(kind):
        return lambda value: value
    if t.is_struct(kind):
        made = _struct_encoder(list(kind), form)
    elif t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        item = _cell_encoder(kind.value_type, form)
        made = lambda value: [item(one) for one in value]  # noqa: E731 - one of many
    elif t.is_map(kind):
        key, inner = _cell_encoder(kind.key_type, form), _cell_encoder(kind.item_type, form)
        made = lambda value: {  # noqa: E731
            format_name(key(name)): found for name, one in value if (found := inner(one)) is not None
        }
    elif t.is_float32(kind) or t.is_float16(kind):
        made = lambda value: _short_double(value, form)  # noqa: E731
    elif t.is_interval(kind):
        made = format_interval
    else:
        made = lambda value: convert_scalar(value, form)  # noqa: E731
    return lambda value: None if value is None else made(value)


def build_json_encoder(kind: pyarrow.DataType) -> Cell:
    """Return the encoder of values of this type to JSON; NaN and infinities become texts, to distinguish them from
    NULL."""
    return _cell_encoder(kind, Form(JSON_FORM.binary, JSON_FORM.decimal, format_non_finite))


def format_interval(value: Any) -> str:
    """An interval of months, days and nanoseconds in ISO 8601: ``P1M``, ``P1DT-0.5S``, ``PT0S`` for none."""
    months, days, nanoseconds = value
    date = (f"{months}M" if months else "") + (f"{days}D" if days else "")
    if not nanoseconds:
        return f"P{date}" if date else "PT0S"
    whole, rest = divmod(abs(nanoseconds), 1_000_000_000)
    fraction = f".{rest:09}".rstrip("0") if rest else ""
    return f"P{date}T{'-' if nanoseconds < 0 else ''}{whole}{fraction}S"


def _short_double(value: float, form: Form) -> Any:
    """The shortest double of this 32-bit number: 0.1 and not 0.10000000149011612."""
    import numpy as np

    return float(str(np.float32(value))) if isfinite(value) else form.odd(value)


def _list_error(path: str, name: str) -> UsageError:
    return UsageError(
        "SOW-SPK-030",
        f"field {path} is a list, which a message of type {name} cannot have there",
        hint="provide such messages as bytes in a column payload",
    )
