"""Sums that can be taken back: COUNT, SUM, AVG and deviations of a group to which inputs come and from which they go.

A Double is kept as a whole number of 2**-1074, an Integer as itself, so that sums are exact: they do not depend on the
order of additions and return to zero when everything is taken back. NaN and infinities are counted beside the sum, and
so are the inputs: with none left, the result is NULL again. Results equal those of ``aggregates`` over the inputs that
are left. ``sowctl-expressions(7)`` rules what they are.

States are plain lists for msgpack (:func:`encode_integer` says how long Integers look in them)::

    COUNT                    [inputs]
    SUM AVG                  [integers, their sum, finite doubles, mantissa, exponent, NaNs, +infinities, -infinities]
    STDDEV_POP STDDEV_SAMP   as SUM, then [sum of squared integers, mantissa, exponent of the squared doubles]

The sum of Doubles is ``mantissa * 2**exponent`` with an odd mantissa, or 0 and 0: equal inputs have equal states.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from operator import mul
from typing import Any

from sowctl.errors import DamageError
from sowctl.expressions.functions.sets import (
    DOUBLE_SCALE_BITS,
    compute_scaled_deviation,
    convert_to_numbers,
    divide_exactly,
    sum_scaled,
    sum_scaled_squares,
)
from sowctl.values.fields import Scalar
from sowctl.values.scalars import I64_MIN, NAN, U64_MAX

_EMPTY_SUMS = (0,) * 11


def build_damage_error(what: str) -> DamageError:
    """The error for a state from which more is taken than it holds: it belongs to other inputs."""
    return DamageError("SOW-EXP-050", f"an aggregate gives back {what} that it never got")


class Count:
    """COUNT: how many inputs there are."""

    __slots__ = ("size",)

    def __init__(self, state: Sequence[Any] = ()) -> None:
        self.size: int = state[0] if state else 0

    def update(self, values: Sequence[Scalar], sign: int) -> None:
        """Add inputs (``sign`` 1) or take them back (-1); none is NULL. Raises DamageError ``SOW-EXP-050``."""
        self.size += sign * len(values)
        if self.size < 0:
            raise build_damage_error("inputs")

    def add_count(self, inputs: int) -> None:
        """Add so many inputs."""
        self.size += inputs

    def merge(self, other: Count) -> None:
        """Add what another state of the same aggregate holds."""
        self.size += other.size

    def compute_result(self) -> Scalar:
        """The number of inputs."""
        return self.size

    def dump(self) -> list[Any]:
        """The state, as the module says."""
        return [self.size]


class Sum:
    """SUM: the exact sum, and what is no finite number counted."""

    __slots__ = ("doubles", "infinities", "integers", "minus", "nans", "scaled", "whole")

    def __init__(self, state: Sequence[Any] = ()) -> None:
        state = state or _EMPTY_SUMS
        self.integers: int = state[0]
        self.whole = decode_integer(state[1])
        self.doubles: int = state[2]
        self.scaled = decode_integer(state[3]) << (state[4] + DOUBLE_SCALE_BITS) if state[3] else 0
        self.nans: int = state[5]
        self.infinities: int = state[6]
        self.minus: int = state[7]

    def update(self, values: Sequence[Scalar], sign: int) -> None:
        """Add inputs (``sign`` 1) or take them back (-1); none is NULL. Raises DamageError ``SOW-EXP-050``."""
        found, kinds = convert_to_numbers(values)
        if kinds == {int}:
            self._add_integers(found, sign)
        elif found:
            self._add_integers([value for value in found if type(value) is int], sign)
            finite = [value for value in found if type(value) is float and math.isfinite(value)]
            self._add_doubles(finite, sign)
            if len(finite) < len(found):
                self.nans += sign * sum(value != value for value in found)
                self.infinities += sign * found.count(math.inf)
                self.minus += sign * found.count(-math.inf)
        if sign < 0:
            self._check_counts()

    def _add_integers(self, values: Sequence[Any], sign: int) -> None:
        self.integers += sign * len(values)
        self.whole += sign * sum(values)

    def _add_doubles(self, values: Sequence[Any], sign: int) -> None:
        self.doubles += sign * len(values)
        self.scaled += sign * sum_scaled(values)

    def _check_counts(self) -> None:
        if min(self.integers, self.doubles, self.nans, self.infinities, self.minus) < 0:
            raise build_damage_error("inputs")
        # A sum of nothing is nothing: what is left over came from other inputs.
        if (not self.integers and self.whole) or (not self.doubles and self.scaled):
            raise build_damage_error("a number")

    def add_sums(self, wholes: tuple[int, int], doubles: tuple[int, int], strange: tuple[int, int, int]) -> None:
        """Add inputs of which the sums are known: how many Integers and what they add up to, how many finite Doubles
        and that in units of 2**-1074, how many NaNs, infinities and negative infinities."""
        self.integers += wholes[0]
        self.whole += wholes[1]
        self.doubles += doubles[0]
        self.scaled += doubles[1]
        self.nans += strange[0]
        self.infinities += strange[1]
        self.minus += strange[2]

    def merge(self, other: Sum) -> None:
        """Add what another state of the same aggregate holds."""
        self.integers += other.integers
        self.whole += other.whole
        self.doubles += other.doubles
        self.scaled += other.scaled
        self.nans += other.nans
        self.infinities += other.infinities
        self.minus += other.minus

    @property
    def size(self) -> int:
        """The number of inputs."""
        return self.integers + self.doubles + self.nans + self.infinities + self.minus

    def find_special_sum(self) -> float | None:
        """The sum where an input is no finite number: NaN, or an infinity; None where all are finite."""
        if self.nans or (self.infinities and self.minus):
            return NAN
        return math.inf if self.infinities else -math.inf if self.minus else None

    def compute_result(self) -> Scalar:
        """The sum: an Integer if all inputs are and it is in range, else a Double; NULL of nothing."""
        size = self.size
        if not size:
            return None
        if size == self.integers:
            return self.whole if I64_MIN <= self.whole <= U64_MAX else float(self.whole)
        found = self.find_special_sum()
        return (
            divide_exactly((self.whole << DOUBLE_SCALE_BITS) + self.scaled, 1 << DOUBLE_SCALE_BITS)
            if found is None
            else found
        )

    def dump(self) -> list[Any]:
        """The state, as the module says."""
        mantissa = _normalize_mantissa(self.scaled, DOUBLE_SCALE_BITS)
        return [
            self.integers,
            encode_integer(self.whole),
            self.doubles,
            *mantissa,
            self.nans,
            self.infinities,
            self.minus,
        ]


class Average(Sum):
    """AVG: the exact sum, divided at the end."""

    __slots__ = ()

    def compute_result(self) -> Scalar:
        """The Double nearest to the mean; NULL of nothing."""
        size = self.size
        if not size:
            return None
        if size == self.integers:
            return self.whole / size
        found = self.find_special_sum()
        return (
            divide_exactly((self.whole << DOUBLE_SCALE_BITS) + self.scaled, size << DOUBLE_SCALE_BITS)
            if found is None
            else found
        )


class Deviation(Sum):
    """STDDEV_POP and STDDEV_SAMP: beside the exact sum the exact sum of squares. ``degrees`` is 0 or 1."""

    __slots__ = ("degrees", "scaled_squares", "squares")

    def __init__(self, degrees: int, state: Sequence[Any] = ()) -> None:
        state = state or _EMPTY_SUMS
        super().__init__(state)
        self.degrees = degrees
        self.squares = decode_integer(state[8])
        self.scaled_squares = decode_integer(state[9]) << (state[10] + 2 * DOUBLE_SCALE_BITS) if state[9] else 0

    def add_squares(self, whole: int, doubles: int) -> None:
        """Add what the squares of inputs add up to, those of Doubles in units of 2**-2148."""
        self.squares += whole
        self.scaled_squares += doubles

    def _add_integers(self, values: Sequence[Any], sign: int) -> None:
        super()._add_integers(values, sign)
        self.squares += sign * sum(map(mul, values, values))

    def _add_doubles(self, values: Sequence[Any], sign: int) -> None:
        super()._add_doubles(values, sign)
        self.scaled_squares += sign * sum_scaled_squares(values)

    def _check_counts(self) -> None:
        super()._check_counts()
        if (not self.integers and self.squares) or (not self.doubles and self.scaled_squares):
            raise build_damage_error("a number")

    def merge(self, other: Sum) -> None:
        """Add what another state of the same aggregate holds."""
        assert isinstance(other, Deviation)
        super().merge(other)
        self.squares += other.squares
        self.scaled_squares += other.scaled_squares

    def compute_result(self) -> Scalar:
        """The deviation; NULL for no more inputs than ``degrees``, NaN where one is no finite number."""
        size = self.size
        if size <= self.degrees:
            return None
        if size == self.integers:
            whole = self.whole
            return math.sqrt((size * self.squares - whole * whole) / (size * (size - self.degrees)))
        if self.find_special_sum() is not None:
            return NAN
        added = (self.whole << DOUBLE_SCALE_BITS) + self.scaled
        return compute_scaled_deviation(
            size, self.degrees, added, (self.squares << 2 * DOUBLE_SCALE_BITS) + self.scaled_squares
        )

    def dump(self) -> list[Any]:
        """The state, as the module says."""
        return [
            *super().dump(),
            encode_integer(self.squares),
            *_normalize_mantissa(self.scaled_squares, 2 * DOUBLE_SCALE_BITS),
        ]


SUM_STATES: dict[str, Callable[[Sequence[Any]], Count | Sum]] = {
    "COUNT": Count,
    "SUM": Sum,
    "AVG": Average,
    "STDDEV_POP": partial(Deviation, 0),
    "STDDEV_SAMP": partial(Deviation, 1),
}
"""The state of an aggregate call from what its ``state`` gave; of no input from nothing."""


def encode_integer(value: int) -> int | bytes:
    """An Integer for msgpack: itself within -2**63 .. 2**64-1, else its bytes, signed, the lowest first."""
    if I64_MIN <= value <= U64_MAX:
        return value
    return value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


def decode_integer(stored: int | bytes) -> int:
    """The Integer of :func:`encode_integer`."""
    return stored if isinstance(stored, int) else int.from_bytes(stored, "little", signed=True)


def _normalize_mantissa(scaled: int, scale: int) -> tuple[int | bytes, int]:
    """A whole number of 2**-scale as an odd mantissa and its exponent."""
    if not scaled:
        return 0, 0
    zeros = (scaled & -scaled).bit_length() - 1
    return encode_integer(scaled >> zeros), zeros - scale
