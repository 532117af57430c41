"""Array-aware comparisons, called by generated code (``sowctl-expressions(7)``, comparison).

An operand is a slot value: a value list provides all its values, anything else one. A comparison is TRUE if it holds
for some pair.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sowctl.values.fields import SlotValue, ValueList
from sowctl.values.scalars import (
    EQUAL,
    GREATER,
    LESS,
    UNORDERED,
    PlainScalar,
    compare_scalars,
    parse_number,
    to_plain_scalar,
    to_text,
)

Comparison = Callable[[SlotValue, SlotValue], bool]


def _make_comparison(fast: Callable[[Any, Any], bool], accepted: frozenset[int]) -> Comparison:
    def compare(a: SlotValue, b: SlotValue) -> bool:
        left, right = type(a), type(b)
        # Plain numbers are the most frequent case. Python compares Integers with Doubles exactly, and for NaN
        # only ``<>`` holds, as in the language.
        if (left is float or left is int) and (right is float or right is int):
            return fast(a, b)
        if left is ValueList or right is ValueList:
            others = [to_plain_scalar(value) for value in list_values(b)]
            # One matching pair suffices, also for ``<>``: a list may be both equal and unequal to a value.
            return any(
                compare_scalars(to_plain_scalar(value), other) in accepted
                for value in list_values(a)
                for other in others
            )
        # NULL gives None, which is in no set: the comparison is FALSE, also for <>, and never NULL.
        return compare_scalars(to_plain_scalar(a), to_plain_scalar(b)) in accepted

    return compare


def list_values(value: SlotValue) -> Sequence[SlotValue]:
    """The values that an operand provides."""
    return value.items if type(value) is ValueList else (value,)


is_equal = _make_comparison(operator.eq, frozenset((EQUAL,)))
is_different = _make_comparison(operator.ne, frozenset((LESS, GREATER, UNORDERED)))
is_less = _make_comparison(operator.lt, frozenset((LESS,)))
is_at_most = _make_comparison(operator.le, frozenset((LESS, EQUAL)))
is_greater = _make_comparison(operator.gt, frozenset((GREATER,)))
is_at_least = _make_comparison(operator.ge, frozenset((GREATER, EQUAL)))

COMPARISONS: dict[str, Comparison] = {
    "=": is_equal,
    "<>": is_different,
    "<": is_less,
    "<=": is_at_most,
    ">": is_greater,
    ">=": is_at_least,
}


class InMembers:
    """The literal members of an ``IN`` list, prepared so that their number does not matter.

    ``texts`` are its strings (as str if they are UTF-8), ``numbers`` its numbers, ``readings`` the numeric readings
    of its strings, which are compared only with numbers.
    """

    __slots__ = ("numbers", "raw", "readings", "texts")

    def __init__(self, values: Iterable[PlainScalar]) -> None:
        self.texts: set[str] = set()
        self.raw: set[bytes] = set()
        self.numbers: set[int | float] = set()
        self.readings: set[int | float] = set()
        # NULL, including the empty string, and NaN equal nothing, so they are not members. TRUE and 1, which are equal,
        # become one member.
        for value in values:
            if isinstance(value, bytes) and value:
                self._add_text(value)
            elif isinstance(value, bool | int | float) and value == value:
                self.numbers.add(value)

    def _add_text(self, value: bytes) -> None:
        self.raw.add(value)
        try:
            self.texts.add(value.decode())
        except UnicodeDecodeError:
            pass
        # Two strings compare as bytes; a string's numeric reading counts only against a number.
        reading = parse_number(value)
        if reading is not None:
            self.readings.add(reading)

    def has_match(self, value: SlotValue) -> bool:
        """Return whether some value of the operand equals some member."""
        if type(value) is ValueList:
            return any(self._is_member(to_plain_scalar(item)) for item in value.items)
        return self._is_member(to_plain_scalar(value))

    def _is_member(self, value: PlainScalar) -> bool:
        # The rule of the scalar comparison, by hash. Python hashes an Integer and an equal Double alike.
        if value is None or value != value:
            return False
        if isinstance(value, str | bytes):
            if value in self.texts if isinstance(value, str) else value in self.raw:
                return True
            # A list without numbers avoids the parsing; None, no reading, is not a member.
            return bool(self.numbers) and parse_number(value) in self.numbers
        return value in self.numbers or value in self.readings


def list_texts(value: SlotValue) -> list[bytes]:
    """The texts of all values that an operand provides, without NULLs."""
    return [text for item in list_values(value) if (text := to_text(item)) is not None]


def has_prefix(value: SlotValue, starts: tuple[bytes, ...]) -> bool:
    """Return whether some value's text starts with one of ``starts``."""
    # startswith() takes all texts in one call; for an empty tuple, if every member was NULL, it returns False.
    return any(text.startswith(starts) for text in list_texts(value))


def has_suffix(value: SlotValue, tails: tuple[bytes, ...]) -> bool:
    """Return whether some value's text ends with one of ``tails``."""
    return any(text.endswith(tails) for text in list_texts(value))


def is_nan(value: SlotValue) -> bool:
    """Return whether the scalar is a NaN number; text is not converted."""
    scalar = to_plain_scalar(value)
    return isinstance(scalar, float) and scalar != scalar
