"""MIN, MAX, UNIQUE, GROUP_CONCAT, COUNT_DISTINCT: distinct inputs with counts, so that inputs can be removed.

Inputs are equal by the common reading of all inputs of the group, which decides whether numeric texts count as numbers.
If equal inputs are spelled differently (1, 1.0, '1'), the result is the first by stamp, so each spelling has its own
entry with the number of its inputs and the stamp of the first one. When the first one is removed, it is unknown which
is the first now. The group's rows are read only if the result depends on that.

States are lists for msgpack: ``[input, count, stamp or nil, input, count ...]`` (nil if it is unknown);
for COUNT_DISTINCT see :class:`CountDistinct`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Self

from sowctl.errors import LimitError
from sowctl.expressions.aggregates.accumulator import (
    MAX_WAITING_INPUTS,
    Accumulator,
    ColumnInputs,
    InputReader,
    Stamp,
    append_inputs,
    build_damage_error,
)
from sowctl.expressions.aggregates.extremes import build_sort_components, find_extreme, select_distinct
from sowctl.expressions.environment import MAX_VALUE_BYTES
from sowctl.values.fields import Number, Scalar, SlotValue
from sowctl.values.scalars import parse_number, to_text

_NUMBER_TYPES = frozenset((int, float, bool, Number))


class InputEntry:
    """A distinct input: its count, and the stamp of the first one, None if a removal made it unknown."""

    __slots__ = ("count", "stamp", "value")

    def __init__(self, value: Scalar, count: int, stamp: Stamp | None) -> None:
        self.value = value
        self.count = count
        self.stamp = stamp


_NO_ENTRIES: dict[Hashable, InputEntry] = {}
"""No entries: shared by all empty states, of which there are many, and never changed."""


class InputSet(Accumulator):
    """The distinct inputs by spelling. ``waiting`` and ``stamps``: inputs that are not yet counted."""

    __slots__ = ("entries", "stamps", "waiting")

    ordered = True

    def __init__(self) -> None:
        self.waiting: Sequence[Scalar] = ()
        self.stamps: Sequence[Stamp] = ()
        self.entries: dict[Hashable, InputEntry] = _NO_ENTRIES

    def add(self, values: Sequence[Scalar], stamps: Sequence[Stamp] = ()) -> None:
        """Add inputs."""
        self.waiting = append_inputs(self.waiting, values)
        self.stamps = append_inputs(self.stamps, stamps)
        # If nearly all inputs differ, counting does not reduce their number.
        if len(self.waiting) > MAX_WAITING_INPUTS + 2 * len(self.entries):
            self._count_waiting()

    @classmethod
    def add_column(cls, states: Sequence[Self], inputs: ColumnInputs) -> int:
        """Add a column of inputs."""
        return inputs.add_values(states, inputs.find_distinct())

    def remove(self, values: Sequence[Scalar], stamps: Sequence[Stamp] = ()) -> None:
        """Remove inputs. Raises DamageError ``SOW-EXP-050``."""
        self._count_waiting()
        for value, stamp in zip(values, stamps, strict=True):
            key = identify_input(value)
            entry = self.entries.get(key)
            if entry is None:
                raise build_damage_error("inputs")
            entry.count -= 1
            if not entry.count:
                del self.entries[key]
            elif entry.stamp is not None and stamp <= entry.stamp:
                if stamp < entry.stamp:
                    raise build_damage_error("inputs")
                entry.stamp = None

    def merge(self, other: Self) -> None:
        """Add the inputs of another state."""
        for key, entry in other.entries.items():
            self._add_entry(key, entry)
        self.add(other.waiting, other.stamps)

    def _count_waiting(self) -> None:
        for value, stamp in zip(self.waiting, self.stamps, strict=True):
            self._add_entry(identify_input(value), InputEntry(value, 1, stamp))
        self.waiting, self.stamps = (), ()

    def _add_entry(self, key: Hashable, added: InputEntry) -> None:
        if self.entries is _NO_ENTRIES:
            self.entries = {}
        known = self.entries.get(key)
        if known is None:
            self.entries[key] = added
            return
        known.count += added.count
        # An unknown first stays unknown: it may be earlier than this one.
        if known.stamp is None or added.stamp is None:
            known.stamp = None
        elif added.stamp < known.stamp:
            # Entries are in the order of their first inputs, which decides between equal stamps.
            del self.entries[key]
            self.entries[key] = known
            known.stamp = added.stamp

    def _list_inputs(self) -> tuple[Sequence[Scalar], list[Stamp | None]]:
        """All inputs, one for each entry, with their stamps."""
        if not self.entries:
            return self.waiting, list(self.stamps)
        entries = self.entries.values()
        return (
            [*(entry.value for entry in entries), *self.waiting],
            [*(entry.stamp for entry in entries), *self.stamps],
        )

    def _find_stamps(self, places: Sequence[int], stamps: list[Stamp | None], read_inputs: InputReader | None) -> None:
        """Set the unknown stamps of these places, from the rows of the group."""
        if None not in (stamps[place] for place in places):
            return
        # Entries come before waiting inputs, and only entries can be unknown.
        keys = list(self.entries)
        unknown = {keys[place]: place for place in places if stamps[place] is None}
        for stamp, value in read_inputs(False) if read_inputs is not None else ():
            key = None if value is None else identify_input(value)
            if key in unknown:
                place = unknown.pop(key)
                stamps[place] = self.entries[key].stamp = stamp
                if not unknown:
                    return
        raise build_damage_error("inputs")

    def compact(self) -> int:
        """Count the waiting inputs; return the number of distinct ones."""
        self._count_waiting()
        return len(self.entries)

    def dump(self) -> list[Any]:
        """Return the state, in the format described by the module."""
        self._count_waiting()
        return [part for entry in self.entries.values() for part in (entry.value, entry.count, entry.stamp)]

    @classmethod
    def load(cls, state: Sequence[Any]) -> Self:
        """Build an accumulator from a state."""
        made = cls()
        made.entries = {}
        for value, count, stamp in zip(state[::3], state[1::3], state[2::3], strict=True):
            made.entries[identify_input(value)] = InputEntry(value, count, None if stamp is None else tuple(stamp))
        return made


class Minimum(InputSet):
    """MIN: the least input, the first of equals; NaN if any input is NaN; NULL for no inputs."""

    __slots__ = ()

    greatest: ClassVar[bool] = False

    @classmethod
    def add_column(cls, states: Sequence[Self], inputs: ColumnInputs) -> int:
        """Add a column of inputs."""
        return inputs.add_values(states, inputs.find_extremes(greatest=cls.greatest))

    def compute_result(self, read_inputs: InputReader | None = None, delimiter: SlotValue = b",") -> Scalar:
        """Return the least input, or the greatest. Raises DamageError ``SOW-EXP-050``."""
        if len(self.waiting) == 1 and not self.entries:
            # Of columns, nearly always.
            return find_extreme(self.waiting, self.greatest)
        values, stamps = self._list_inputs()

        def find_first(places: Sequence[int]) -> int:
            self._find_stamps(places, stamps, read_inputs)
            return min(places, key=stamps.__getitem__)  # type: ignore[arg-type]  # all of them are known now

        return find_extreme(values, self.greatest, find_first)

    def compact(self) -> int:
        """Keep the inputs that may be the least or greatest; all of them, if not all are numbers."""
        values, stamps = self._list_inputs()
        if not values or not _NUMBER_TYPES.issuperset(map(type, values)):
            return super().compact()
        numbers: list[Any] = [value.value if type(value) is Number else value for value in values]
        # A single NaN decides the result.
        places = next(([place] for place, number in enumerate(numbers) if number != number), None)
        if places is None:
            best = max(numbers) if self.greatest else min(numbers)
            places = [place for place, number in enumerate(numbers) if number == best]
        self.entries = _NO_ENTRIES
        self.waiting = [values[place] for place in places]
        self.stamps = [stamp for place in places if (stamp := stamps[place]) is not None]
        return len(places)


class Maximum(Minimum):
    """MAX: the greatest input, the first of equals; NaN if any input is NaN; NULL for no inputs."""

    __slots__ = ()

    greatest = True


class Unique(InputSet):
    """UNIQUE: the first input if all are equal, else NULL."""

    __slots__ = ()

    def compute_result(self, read_inputs: InputReader | None = None, delimiter: SlotValue = b",") -> Scalar:
        """Return the only value. Raises DamageError ``SOW-EXP-050``."""
        values, stamps = self._list_inputs()
        if len(values) < 2:
            return values[0] if values else None
        first, *others = build_sort_components(values)
        if any(key != first for key in others):
            return None
        places = range(len(values))
        self._find_stamps(places, stamps, read_inputs)
        return values[min(places, key=stamps.__getitem__)]  # type: ignore[arg-type]  # all of them are known now


class JoinedTexts(InputSet):
    """GROUP_CONCAT: the texts of distinct inputs, in the order of the first of equals."""

    __slots__ = ()

    def compute_result(self, read_inputs: InputReader | None = None, delimiter: SlotValue = b",") -> Scalar:
        """Return the texts, joined; a NULL delimiter is empty. Raises DamageError ``SOW-EXP-050``, LimitError
        ``SOW-EXP-037`` for more bytes than a message may have."""
        values, stamps = self._list_inputs()
        if len(values) > 1:
            self._find_stamps(range(len(values)), stamps, read_inputs)
            values = select_distinct(values, stamps)
        between = to_text(delimiter) or b""
        texts = [to_text(value) or b"" for value in values]
        if sum(map(len, texts)) + len(between) * (len(texts) - 1) > MAX_VALUE_BYTES:
            words = f"GROUP_CONCAT makes a text of more than {MAX_VALUE_BYTES:,} bytes"
            raise LimitError(
                "SOW-EXP-037", words, hint="group by more fields, or filter, so that each group has fewer values"
            )
        # An empty result is NULL, like every empty string.
        return between.join(texts) or None


class CountDistinct(Accumulator):
    """COUNT_DISTINCT: counts of numbers by value, and of texts.

    Whether numeric texts are numbers is decided when the result is computed. State: ``[NaNs, number, count, ...],
    [text, count, ...]``.
    """

    __slots__ = ("nans", "numbers", "texts")

    def __init__(self) -> None:
        self.nans = 0
        self.numbers: dict[int | float, int] = {}
        self.texts: dict[bytes, int] = {}

    def add(self, values: Sequence[Scalar], stamps: Sequence[Stamp] = ()) -> None:
        """Add inputs."""
        self._update(values, 1)

    @classmethod
    def add_column(cls, states: Sequence[Self], inputs: ColumnInputs) -> int:
        """Add a column of inputs."""
        return inputs.add_values(states, inputs.find_distinct())

    def remove(self, values: Sequence[Scalar], stamps: Sequence[Stamp] = ()) -> None:
        """Remove inputs. Raises DamageError ``SOW-EXP-050``."""
        self._update(values, -1)

    def _update(self, values: Sequence[Scalar], sign: int) -> None:
        for value in values:
            if type(value) is str:
                _change_count(self.texts, value.encode(), sign)
            elif type(value) is bytes:
                _change_count(self.texts, value, sign)
            else:
                # In Python, equal Integers, Doubles and Booleans share one key and are compared exactly.
                number: Any = value.value if type(value) is Number else value
                if number == number:
                    _change_count(self.numbers, number, sign)
                else:
                    self.nans += sign
        if self.nans < 0:
            raise build_damage_error("inputs")

    def compact(self) -> int:
        """Return the number of distinct inputs, all of which are needed."""
        return len(self.numbers) + len(self.texts)

    def merge(self, other: Self) -> None:
        """Add the inputs of another state."""
        self.nans += other.nans
        for number, count in other.numbers.items():
            _change_count(self.numbers, number, count)
        for text, count in other.texts.items():
            _change_count(self.texts, text, count)

    def compute_result(self, read_inputs: InputReader | None = None, delimiter: SlotValue = b",") -> Scalar:
        """Return the number of different inputs by their common reading."""
        if not self.nans and not self.numbers:
            return len(self.texts)
        readings = [parse_number(text) for text in self.texts]
        apart = {reading for reading in readings if reading is not None and reading not in self.numbers}
        return bool(self.nans) + len(self.numbers) + len(apart) + readings.count(None)

    def dump(self) -> list[Any]:
        """Return the state, in the format described by the class."""
        numbers = [self.nans, *(part for item in self.numbers.items() for part in item)]
        return [numbers, [part for item in self.texts.items() for part in item]]

    @classmethod
    def load(cls, state: Sequence[Any]) -> Self:
        """Build an accumulator from a state."""
        made = cls()
        (made.nans, *numbers), texts = state
        made.numbers = dict(zip(numbers[::2], numbers[1::2], strict=True))
        made.texts = dict(zip(texts[::2], texts[1::2], strict=True))
        return made


def _change_count(counts: dict[Any, int], key: Any, change: int) -> None:
    count = counts.get(key, 0) + change
    if count > 0:
        counts[key] = count
    elif count < 0:
        raise build_damage_error("inputs")
    else:
        del counts[key]


def identify_input(value: Scalar) -> Hashable:
    """A key that differs if two inputs differ in kind, value or spelling; equal texts are always the same bytes."""
    kind = type(value)
    if kind is str:
        return value
    if kind is bytes:
        try:
            return value.decode()  # type: ignore[union-attr]  # bytes
        except UnicodeDecodeError:
            return value
    if kind is Number:
        return (kind, value.value, value.text, value.typed)  # type: ignore[union-attr]  # a Number
    # Zeros of both signs are equal but spelled differently, and NaN is equal to nothing.
    return (kind, value) if value and value == value else (kind, repr(value))
