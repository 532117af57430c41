"""Array-aware comparisons as generated code calls them (``sowctl-expressions(7)``, comparison).

An operand is a slot value: a value list supplies all its values, anything else one. Some pair decides.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sowctl.values.compare import LESS, MORE, SAME, UNORDERED, Plain, numeric_reading, plain, relation, text_of
from sowctl.values.fields import SlotValue, Values

Comparison = Callable[[SlotValue, SlotValue], bool]


def _make_comparison(fast: Callable[[Any, Any], bool], accepted: frozenset[int]) -> Comparison:
    def compare(a: SlotValue, b: SlotValue) -> bool:
        left, right = type(a), type(b)
        # Plain numbers, which most comparisons are about. Python compares Integers with Doubles exactly, and of NaN
        # only ``<>`` holds, as in the language.
        if (left is float or left is int) and (right is float or right is int):
            return fast(a, b)
        if left is Values or right is Values:
            others = [plain(value) for value in every(b)]
            # One pair that fits is enough, also for ``<>``: a list may be equal and unequal to a value at once.
            return any(relation(plain(value), other) in accepted for value in every(a) for other in others)
        # A NULL gives None, which no set holds: a comparison is FALSE there, for <> too, and never NULL.
        return relation(plain(a), plain(b)) in accepted

    return compare


def every(value: SlotValue) -> Sequence[SlotValue]:
    """The values that an operand supplies."""
    return value.items if type(value) is Values else (value,)


equal = _make_comparison(operator.eq, frozenset((SAME,)))
differ = _make_comparison(operator.ne, frozenset((LESS, MORE, UNORDERED)))
less = _make_comparison(operator.lt, frozenset((LESS,)))
at_most = _make_comparison(operator.le, frozenset((LESS, SAME)))
more = _make_comparison(operator.gt, frozenset((MORE,)))
at_least = _make_comparison(operator.ge, frozenset((MORE, SAME)))

COMPARISONS: dict[str, Comparison] = {
    "=": equal,
    "<>": differ,
    "<": less,
    "<=": at_most,
    ">": more,
    ">=": at_least,
}


class InMembers:
    """The literal members of an ``IN`` list, prepared so that their number does not matter.

    ``texts`` are its strings (as str where they are UTF-8), ``numbers`` its numbers, ``readings`` the numeric readings
    of its strings, which only numbers are compared with.
    """

    __slots__ = ("numbers", "raw", "readings", "texts")

    def __init__(self, values: Iterable[Plain]) -> None:
        self.texts: set[str] = set()
        self.raw: set[bytes] = set()
        self.numbers: set[int | float] = set()
        self.readings: set[int | float] = set()
        # NULL, the empty string among it, and NaN equal nothing, so they are no members. TRUE and 1, which are equal,
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
        # Two strings compare as bytes; only against a number does a string count by its reading.
        reading = numeric_reading(value)
        if reading is not None:
            self.readings.add(reading)

    def holds(self, value: SlotValue) -> bool:
        """Whether some value of the operand equals some member."""
        if type(value) is Values:
            return any(self._is_member(plain(item)) for item in value.items)
        return self._is_member(plain(value))

    def _is_member(self, value: Plain) -> bool:
        # The rule of the scalar comparison, by hash. Python hashes an Integer and an equal Double alike.
        if value is None or value != value:
            return False
        if isinstance(value, str | bytes):
            if value in self.texts if isinstance(value, str) else value in self.raw:
                return True
            # A list without numbers saves the reading; None, no reading, is no member.
            return bool(self.numbers) and numeric_reading(value) in self.numbers
        return value in self.numbers or value in self.readings


def texts(value: SlotValue) -> list[bytes]:
    """The texts of all values that an operand supplies, NULLs left out."""
    return [text for item in every(value) if (text := text_of(item)) is not None]


def begins(value: SlotValue, starts: tuple[bytes, ...]) -> bool:
    """Whether some value's text starts with one of ``starts``."""
    # startswith() takes all texts in one call; of an empty tuple, where every member was NULL, it finds none.
    return any(text.startswith(starts) for text in texts(value))


def ends(value: SlotValue, tails: tuple[bytes, ...]) -> bool:
    """Whether some value's text ends with one of ``tails``."""
    return any(text.endswith(tails) for text in texts(value))


def is_nan(value: SlotValue) -> bool:
    """Whether the scalar is a NaN number; text is not converted."""
    scalar = plain(value)
    return isinstance(scalar, float) and scalar != scalar
