"""COUNT, SUM, AVG and deviations: exact sums, to which inputs are added and from which they are removed.

A sum of Doubles is stored as an integer in units of 2**-1074, a sum of Integers as itself: both are exact, independent
of the order of additions, and return to zero when all inputs are removed. NaN and infinities are counted separately.

States are lists for msgpack (for long Integers see :func:`encode_integer`)::

    COUNT                    [inputs]
    SUM AVG                  [integers, their sum, finite doubles, mantissa, exponent, NaNs, +infinities, -infinities]
    STDDEV_POP STDDEV_SAMP   as SUM, then [sum of squared integers, mantissa, exponent of the squared doubles]

The sum of Doubles is ``mantissa * 2**exponent`` with an odd mantissa, or 0 and 0: equal inputs have equal states.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import mul
from typing import Any, ClassVar, Self

from sowctl.expressions.aggregates.accumulator import (
    MAX_WAITING_INPUTS,
    Accumulator,
    ColumnInputs,
    InputReader,
    Stamp,
    append_inputs,
    build_damage_error,
)
from sowctl.values.fields import Scalar, SlotValue
from sowctl.values.scalars import I64_MIN, NAN, U64_MAX, to_number

DOUBLE_SCALE_BITS = 1074
"""Every finite Double is a multiple of 2**-1074, so sums in this unit are exact."""


class Count(Accumulator):
    """COUNT: the number of inputs."""

    __slots__ = ("size",)

    def __init__(self, size: int = 0) -> None:
        self.size = size

    def add(self, values: Sequence[Scalar], stamps: Sequence[Stamp] = ()) -> None:
        """Add inputs."""
        self.size += len(values)

    def remove(self, values: Sequence[Scalar], stamps: Sequence[Stamp] = ()) -> None:
        """Remove inputs. Raises DamageError ``SOW-EXP-050``."""
        self.size -= len(values)
        if self.size < 0:
            raise build_damage_error("inputs")

    @classmethod
    def add_column(cls, states: Sequence[Self], inputs: ColumnInputs) -> int:
        """Add a column of inputs."""
        for state, count in zip(states, inputs.count_inputs(), strict=True):
            state.size += count
        return 0

    def merge(self, other: Self) -> None:
        """Add the inputs of another state."""
        self.size += other.size

    def compute_result(self, read_inputs: InputReader | None = None, delimiter: SlotValue = b",") -> Scalar:
        """Return the number of inputs."""
        return self.size

    def dump(self) -> list[Any]:
        """Return the state, in the format described by the module."""
        return [self.size]

    @classmethod
    def load(cls, state: Sequence[Any]) -> Self:
        """Build an accumulator from a state."""
        return cls(state[0])


class Sum(Accumulator):
    """SUM: the exact sum of Integers, that of finite Doubles in units of 2**-1074, and counts of all kinds of inputs.

    ``waiting``: inputs that are not yet added up.
    """

    __slots__ = ("doubles", "infinities", "integers", "minus", "nans", "scaled", "waiting", "whole")

    squared: ClassVar[bool] = False

    def __init__(self) -> None:
        self.waiting: Sequence[Scalar] = ()
        self.integers = self.whole = self.doubles = self.scaled = self.nans = self.infinities = self.minus = 0

    def add(self, values: Sequence[Scalar], stamps: Sequence[Stamp] = ()) -> None:
        """Add inputs."""
        self.waiting = append_inputs(self.waiting, values)
        if len(self.waiting) > MAX_WAITING_INPUTS:
            self._add_waiting()

    def remove(self, values: Sequence[Scalar], stamps: Sequence[Stamp] = ()) -> None:
        """Remove inputs. Raises DamageError ``SOW-EXP-050``."""
        self._add_waiting()
        self._update(values, -1)
        self._check_counts()

    def _add_waiting(self) -> None:
        if self.waiting:
            values, self.waiting = self.waiting, ()
            self._update(values, 1)

    def _update(self, values: Sequence[Scalar], sign: int) -> None:
        found, kinds = _convert_to_numbers(values)
        if kinds == {int}:
            self._add_integers(found, sign)
        elif kinds == {float} and math.isfinite(sum(found)):
            self._add_doubles(found, sign)
        elif found:
            self._add_integers([value for value in found if type(value) is int], sign)
            finite = [value for value in found if type(value) is float and math.isfinite(value)]
            self._add_doubles(finite, sign)
            if len(finite) < len(found):
                self.nans += sign * sum(value != value for value in found)
                self.infinities += sign * found.count(math.inf)
                self.minus += sign * found.count(-math.inf)

    def _add_integers(self, values: Sequence[Any], sign: int) -> None:
        self.integers += sign * len(values)
        self.whole += sign * sum(values)

    def _add_doubles(self, values: Sequence[Any], sign: int) -> None:
        self.doubles += sign * len(values)
        self.scaled += sign * sum_scaled(values)

    def _check_counts(self) -> None:
        if min(self.integers, self.doubles, self.nans, self.infinities, self.minus) < 0:
            raise build_damage_error("inputs")
        # A sum of no inputs is zero: a remainder comes from other inputs.
        if (not self.integers and self.whole) or (not self.doubles and self.scaled):
            raise build_damage_error("a number")

    @classmethod
    def add_column(cls, states: Sequence[Self], inputs: ColumnInputs) -> int:
        """Add a column of inputs: as sums, if groups have several inputs."""
        sums = inputs.compute_sums(squares=cls.squared)
        if sums is None:
            return super().add_column(states, inputs)
        for state, one in zip(states, sums, strict=True):
            state.add_sums(*one)
        return 0

    def add_sums(
        self,
        wholes: tuple[int, int],
        doubles: tuple[int, int],
        strange: tuple[int, int, int],
        squares: tuple[int, int] = (0, 0),
    ) -> None:
        """Add inputs given by their sums: count and sum of Integers, of finite Doubles in units of 2**-1074,
        and the numbers of NaNs, infinities and negative infinities. ``squares``: the sums of the squares of Integers,
        and of Doubles in units of 2**-2148."""
        self.integers += wholes[0]
        self.whole += wholes[1]
        self.doubles += doubles[0]
        self.scaled += doubles[1]
        self.nans += strange[0]
        self.infinities += strange[1]
        self.minus += strange[2]

    def merge(self, other: Self) -> None:
        """Add the inputs of another state."""
        other._add_waiting()
        self.add_sums(*other._list_sums())

    def _list_sums(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int, int], tuple[int, int]]:
        """The arguments for :meth:`add_sums`."""
        strange = (self.nans, self.infinities, self.minus)
        return (self.integers, self.whole), (self.doubles, self.scaled), strange, (0, 0)

    @property
    def size(self) -> int:
        """The number of inputs."""
        self._add_waiting()
        return self.integers + self.doubles + self.nans + self.infinities + self.minus

    def compute_result(self, read_inputs: InputReader | None = None, delimiter: SlotValue = b",") -> Scalar:
        """The sum: an Integer if all inputs are and it is in range, else the nearest Double; NULL for no inputs."""
        if self.waiting and not (self.integers or self.doubles or self.nans or self.infinities or self.minus):
            # Doubles that are not yet added up need not be: fsum() also rounds only once.
            try:
                if set(map(type, self.waiting)) == {float}:
                    return math.fsum(self.waiting)  # type: ignore[arg-type]  # all are Doubles
            except ValueError:
                return NAN  # infinities of both signs
            except OverflowError:
                pass
        size = self.size
        if not size:
            return None
        if size == self.integers:
            return self.whole if I64_MIN <= self.whole <= U64_MAX else float(self.whole)
        special = self._find_special_sum()
        if special is not None:
            return special
        return _divide_exactly((self.whole << DOUBLE_SCALE_BITS) + self.scaled, 1 << DOUBLE_SCALE_BITS)

    def _find_special_sum(self) -> float | None:
        """The sum if an input is not a finite number: NaN, or an infinity; None if all are finite."""
        if self.nans or (self.infinities and self.minus):
            return NAN
        return math.inf if self.infinities else -math.inf if self.minus else None

    def compact(self) -> int:
        """Add up the waiting inputs."""
        self._add_waiting()
        return 0

    def dump(self) -> list[Any]:
        """Return the state, in the format described by the module."""
        self._add_waiting()
        mantissa = _normalize_mantissa(self.scaled, DOUBLE_SCALE_BITS)
        counts = (self.nans, self.infinities, self.minus)
        return [self.integers, encode_integer(self.whole), self.doubles, *mantissa, *counts]

    @classmethod
    def load(cls, state: Sequence[Any]) -> Self:
        """Build an accumulator from a state."""
        made = cls()
        made.integers, made.whole, made.doubles = state[0], decode_integer(state[1]), state[2]
        made.scaled = _restore_scaled(state[3], state[4], DOUBLE_SCALE_BITS)
        made.nans, made.infinities, made.minus = state[5:8]
        return made


class Average(Sum):
    """AVG: the exact sum, divided at the end."""

    __slots__ = ()

    def compute_result(self, read_inputs: InputReader | None = None, delimiter: SlotValue = b",") -> Scalar:
        """The Double nearest to the mean; NULL for no inputs."""
        size = self.size
        if not size:
            return None
        if size == self.integers:
            return self.whole / size  # true division of two ints gives the nearest Double
        special = self._find_special_sum()
        if special is not None:
            return special
        return _divide_exactly((self.whole << DOUBLE_SCALE_BITS) + self.scaled, size << DOUBLE_SCALE_BITS)


class PopulationDeviation(Sum):
    """STDDEV_POP: the exact sum and the exact sum of squares. ``degrees`` is subtracted from the denominator."""

    __slots__ = ("scaled_squares", "squares")

    squared = True
    degrees: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.squares = self.scaled_squares = 0

    def add_sums(
        self,
        wholes: tuple[int, int],
        doubles: tuple[int, int],
        strange: tuple[int, int, int],
        squares: tuple[int, int] = (0, 0),
    ) -> None:
        """Add inputs given by their sums and the sums of their squares."""
        super().add_sums(wholes, doubles, strange)
        self.squares += squares[0]
        self.scaled_squares += squares[1]

    def _add_integers(self, values: Sequence[Any], sign: int) -> None:
        super()._add_integers(values, sign)
        self.squares += sign * sum(map(mul, values, values))

    def _add_doubles(self, values: Sequence[Any], sign: int) -> None:
        super()._add_doubles(values, sign)
        self.scaled_squares += sign * _sum_scaled_squares(values)

    def _check_counts(self) -> None:
        super()._check_counts()
        if (not self.integers and self.squares) or (not self.doubles and self.scaled_squares):
            raise build_damage_error("a number")

    def _list_sums(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int, int], tuple[int, int]]:
        """The arguments for :meth:`add_sums`."""
        return (*super()._list_sums()[:3], (self.squares, self.scaled_squares))

    def compute_result(self, read_inputs: InputReader | None = None, delimiter: SlotValue = b",") -> Scalar:
        """The root of the Double nearest to the exact variance, so equal inputs always give 0; NULL if there are not
        more inputs than ``degrees``, NaN if an input is not a finite number."""
        size, degrees = self.size, self.degrees
        if size <= degrees:
            return None
        if size == self.integers:
            whole = self.whole
            return math.sqrt((size * self.squares - whole * whole) / (size * (size - degrees)))
        if self._find_special_sum() is not None:
            return NAN
        added = (self.whole << DOUBLE_SCALE_BITS) + self.scaled
        squared = (self.squares << 2 * DOUBLE_SCALE_BITS) + self.scaled_squares
        above, below = size * squared - added * added, size * (size - degrees) << 2 * DOUBLE_SCALE_BITS
        # The variance may exceed the range of Doubles although its root does not: the root is taken of a number near 1.
        half = (above.bit_length() - below.bit_length()) // 2
        root = math.sqrt(_divide_exactly(above << 2 * max(-half, 0), below << 2 * max(half, 0)))
        try:
            return math.ldexp(root, half)
        except OverflowError:
            return math.inf

    def dump(self) -> list[Any]:
        """Return the state, in the format described by the module."""
        state = super().dump()
        mantissa = _normalize_mantissa(self.scaled_squares, 2 * DOUBLE_SCALE_BITS)
        return [*state, encode_integer(self.squares), *mantissa]

    @classmethod
    def load(cls, state: Sequence[Any]) -> Self:
        """Build an accumulator from a state."""
        made = super().load(state)
        made.squares = decode_integer(state[8])
        made.scaled_squares = _restore_scaled(state[9], state[10], 2 * DOUBLE_SCALE_BITS)
        return made


class SampleDeviation(PopulationDeviation):
    """STDDEV_SAMP."""

    __slots__ = ()

    degrees = 1


def compute_sum(values: Iterable[Scalar]) -> Scalar:
    """The result of SUM over values without NULLs."""
    total = Sum()
    total.waiting = tuple(values)
    return total.compute_result()


def _convert_to_numbers(values: Sequence[Scalar]) -> tuple[Sequence[Any], set[type]]:
    """The values as numbers and their types; a text without a numeric reading is NaN."""
    found: Any = values
    kinds = set(map(type, found))
    if not kinds <= {int, float}:
        found = [number for value in found if (number := to_number(value)) is not None]
        kinds = set(map(type, found))
    return found, kinds


def scale_double(value: float) -> int:
    """A finite Double in units of 2**-1074."""
    numerator, denominator = value.as_integer_ratio()
    # The denominator is a power of two: its bit length is its exponent plus one.
    return numerator << (DOUBLE_SCALE_BITS + 1 - denominator.bit_length())


def sum_scaled(doubles: Sequence[float]) -> int:
    """The sum of finite Doubles in units of 2**-1074, without rounding."""
    if len(doubles) > 3:
        taken: list[float] = []
        try:
            # fsum returns the Double nearest to the sum. Subtracting it and summing again gives the rounding error;
            # when that is zero, the subtracted values are the exact sum in two or three Doubles.
            while math.isfinite(rest := math.fsum(chain(doubles, taken))):
                if not rest:
                    return -sum(map(scale_double, taken))
                taken.append(-rest)
        except OverflowError:
            pass
    return sum(map(scale_double, doubles))


def _sum_scaled_squares(doubles: Sequence[float]) -> int:
    """The sum of the squares of finite Doubles in units of 2**-2148, without rounding."""
    if len(doubles) == 1:
        return scale_double(doubles[0]) ** 2
    # Squares of equal scale are added before they are shifted, so that their integers stay short.
    by_scale: defaultdict[int, int] = defaultdict(int)
    for value in doubles:
        numerator, denominator = value.as_integer_ratio()
        by_scale[denominator] += numerator * numerator
    return sum(found << 2 * (DOUBLE_SCALE_BITS + 1 - one.bit_length()) for one, found in by_scale.items())


def _divide_exactly(numerator: int, denominator: int) -> float:
    """The Double nearest to a fraction; an infinity if it exceeds the range of Doubles."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def encode_integer(value: int) -> int | bytes:
    """An Integer for msgpack: itself within -2**63 .. 2**64-1, else its bytes: signed, little-endian."""
    if I64_MIN <= value <= U64_MAX:
        return value
    return value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


def decode_integer(stored: int | bytes) -> int:
    """The Integer encoded by :func:`encode_integer`."""
    return stored if isinstance(stored, int) else int.from_bytes(stored, "little", signed=True)


def _normalize_mantissa(scaled: int, scale: int) -> tuple[int | bytes, int]:
    """A multiple of 2**-scale as an odd mantissa and its exponent."""
    if not scaled:
        return 0, 0
    zeros = (scaled & -scaled).bit_length() - 1
    return encode_integer(scaled >> zeros), zeros - scale


def _restore_scaled(mantissa: int | bytes, exponent: int, scale: int) -> int:
    """The multiple of 2**-scale, from the result of :func:`_normalize_mantissa`."""
    return decode_integer(mantissa) << (exponent + scale) if mantissa else 0
