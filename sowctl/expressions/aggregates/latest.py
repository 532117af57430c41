"""The value with the highest stamp: ANY, and the last message of a group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

from sowctl.expressions.aggregates.accumulator import (
    Accumulator,
    ColumnInputs,
    InputReader,
    Stamp,
    build_damage_error,
)
from sowctl.values.fields import Scalar, SlotValue


class Latest(Accumulator):
    """ANY: the value with the highest stamp, of equal stamps the one added later.

    State: ``[inputs, stamp, whether the value is known, value]``. After a removal the value is unknown.
    """

    __slots__ = ("known", "size", "stamp", "value")

    ordered = True

    def __init__(self) -> None:
        self.size = 0
        self.stamp: Stamp = ()
        self.known = True
        self.value: Any = None

    def add(self, values: Sequence[Any], stamps: Sequence[Stamp] = ()) -> None:
        """Add values."""
        if values:
            place = find_latest(stamps)
            self.add_latest(values[place], stamps[place], len(values))

    def add_latest(self, value: Any, stamp: Stamp, size: int) -> None:
        """Add ``size`` values, of which ``value`` is the latest."""
        # An earlier batch may contain a later update, whose value is kept.
        if not self.size or stamp >= self.stamp:
            self.stamp, self.known, self.value = stamp, True, value
        self.size += size

    @classmethod
    def add_column(cls, states: Sequence[Self], inputs: ColumnInputs) -> int:
        """Add a column of inputs."""
        return inputs.add_values(states, inputs.find_latest())

    def remove(self, values: Sequence[Any], stamps: Sequence[Stamp] = ()) -> None:
        """Remove values. Raises DamageError ``SOW-EXP-050``."""
        if not values:
            return
        self.size -= len(values)
        highest = max(stamps)
        if self.size < 0 or highest > self.stamp:
            raise build_damage_error("rows")
        if self.size == 0:
            self.stamp, self.known, self.value = (), True, None
        elif highest == self.stamp:
            self.known, self.value = False, None

    def merge(self, other: Self) -> None:
        """Add the values of another state."""
        if other.size:
            newer = not self.size or other.stamp >= self.stamp
            self.add_latest(other.value, other.stamp, other.size)
            if newer:
                self.known = other.known

    def restore_latest(self, values: Iterable[tuple[Stamp, Any]]) -> None:
        """Set the latest value from the remaining values, given in descending order of stamps."""
        for stamp, value in values:
            self.stamp, self.known, self.value = stamp, True, value
            return
        raise build_damage_error("rows")

    def compute_result(self, read_inputs: InputReader | None = None, delimiter: SlotValue = b",") -> Scalar:
        """The latest input; NULL for no inputs."""
        if not self.known:
            if read_inputs is None:
                raise build_damage_error("rows")
            self.restore_latest((stamp, value) for stamp, value in read_inputs(True) if value is not None)
        found: Scalar = self.value
        return found

    def dump(self) -> list[Any]:
        """Return the state, in the format described by the class."""
        return [self.size, self.stamp, self.known, self.value]

    @classmethod
    def load(cls, state: Sequence[Any]) -> Self:
        """Build an accumulator from a state."""
        made = cls()
        made.size, stamp, made.known, made.value = state
        made.stamp = tuple(stamp)
        return made


def find_latest(stamps: Sequence[Stamp]) -> int:
    """The place of the highest stamp, the last of equal ones."""
    if len(stamps) == 1:
        return 0
    # max() returns the first of equals: in reversed order, that is the last.
    return max(reversed(range(len(stamps))), key=stamps.__getitem__)
