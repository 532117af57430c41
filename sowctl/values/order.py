"""Order of records: the common reading of a set, and sort keys (``sowctl-expressions(7)``, ordering).

A sort key is a tuple of plain tuples of integers, floats and bytes: it supports ``<``, pickling, heaps and merges of
sorted runs. The caller breaks ties by adding the SOW key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, cast

from sowctl.values.fields import Number, SlotValue
from sowctl.values.scalars import parse_number, to_scalar, to_text

SortComponent: TypeAlias = tuple[Any, ...]
"""``(0,)`` NULL, ``(1,)`` NaN, ``(2, number)``, ``(3, bytes)``; negative if the order is descending."""
# The order of the kinds: NULL, NaN, numbers, then texts without a numeric reading.
_NULL, _NAN, _NUMBER, _TEXT = 0, 1, 2, 3
_NUMBER_TYPES = frozenset((int, float, Number))
_INVERTED_BYTES = bytes(255 - byte for byte in range(256))


def is_numeric(value: SlotValue) -> bool:
    """Return whether the scalar is a number or Boolean, so that numeric texts of its set count as numbers."""
    return isinstance(to_scalar(value), bool | int | float | Number)


def has_numbers(column: Iterable[SlotValue]) -> bool:
    """Return whether a set of values contains numbers, so that its numeric texts count as numbers."""
    values = list(column)
    # Most columns have only Strings and NULLs, which their types show without a check of each value.
    return not set(map(type, values)) <= {str, type(None)} and any(map(is_numeric, values))


def build_component(value: SlotValue, mixed: bool, text: bool = False) -> SortComponent:
    """Build the ascending key of one value: NULL, then NaN, numbers, texts. ``mixed``: the set contains a number or
    Boolean."""
    # The two most frequent kinds are handled before to_scalar() is called.
    if type(value) is str and (text or not mixed):
        return (_TEXT, value.encode()) if value else (_NULL,)
    if type(value) is int and not text:
        return (_NUMBER, value)
    scalar = to_scalar(value)
    if scalar is None:
        return (_NULL,)
    if text:
        return (_TEXT, to_text(scalar) or b"")
    if isinstance(scalar, str | bytes):
        reading = parse_number(scalar) if mixed else None
        if reading is None:
            return (_TEXT, to_text(scalar) or b"")
        return (_NUMBER, reading)
    number = scalar.value if isinstance(scalar, Number) else scalar
    return (_NAN,) if number != number else (_NUMBER, number)


def build_components(column: Sequence[SlotValue], mixed: bool, text: bool = False) -> list[SortComponent]:
    """Apply :func:`build_component` to every value of a column, faster if they are of one kind."""
    kinds = set(map(type, column))
    if kinds == {str} and (text or not mixed):
        texts = cast("Sequence[str]", column)
        return [(_TEXT, value.encode()) if value else (_NULL,) for value in texts]
    if kinds <= _NUMBER_TYPES and not text:
        numbers = [value.value if type(value) is Number else value for value in cast("Sequence[Any]", column)]
        return [(_NUMBER, number) if number == number else (_NAN,) for number in numbers]
    return [build_component(value, mixed, text) for value in column]


def reverse_component(key: SortComponent) -> SortComponent:
    """Return the component that sorts in the opposite order."""
    # NULL and NaN have no value to invert, only their rank: NULL is last in descending order.
    if len(key) == 1:
        return (-key[0],)
    value = key[1]
    if isinstance(value, bytes):
        # A prefix must follow its extensions: the end mark is above every inverted byte, of which FF is escaped.
        return (-_TEXT, value.translate(_INVERTED_BYTES).replace(b"\xff", b"\xff\x00") + b"\xff\xff")
    return (-_NUMBER, -value)


def reverse_components(keys: Iterable[SortComponent]) -> list[SortComponent]:
    """Apply :func:`reverse_component` to every component of a column, faster for numbers."""
    return [(-_NUMBER, -key[1]) if key[0] == _NUMBER else reverse_component(key) for key in keys]


def find_at_or_before(column: Sequence[SlotValue], limit: SortComponent, text: bool) -> Sequence[int]:
    """Return the indexes in a column whose component, reversed if ``limit`` is, may be at or before ``limit``.

    Plain numbers are compared without components, which few of many records need. Of other columns all indexes are
    returned.
    """
    if text or len(limit) < 2 or abs(limit[0]) != _NUMBER or not set(map(type, column)) <= {int, float}:
        return range(len(column))
    numbers = cast("Sequence[float]", column)
    # NaN is neither above nor below, so it remains, and its component decides.
    if limit[0] < 0:
        lowest = -limit[1]
        return [place for place, number in enumerate(numbers) if not number < lowest]
    highest = limit[1]
    return [place for place, number in enumerate(numbers) if not number > highest]
