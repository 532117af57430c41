"""Inputs that are counted, so that they can be taken back: MIN, MAX, UNIQUE, GROUP_CONCAT, COUNT_DISTINCT and ANY.

Each distinct input is an *entry*: bytes whose order is the order of values, in a table with its count and the stamp of
its first appearance, which travels in the state (:class:`StateEntries`). The first byte of an entry:

====  ============================================================  ===================================
byte  what follows                                                  which inputs
====  ============================================================  ===================================
1     nothing                                                       NaN
2     :func:`encode_ordered_number` number (10 bytes), the input as msgpack       numbers, Booleans, numeric texts
3     the text                                                      texts without a numeric reading
4     the text                                                      numeric texts once more, as texts
====  ============================================================  ===================================

Numeric texts have two entries because the common reading of the set decides whether they count as numbers. Where equal
inputs are spelled differently (1, 1.0, '1'), the first by stamp is the answer; a removal of that one leaves unknown
which is the first now. Only then the group's rows are asked, through the function that :meth:`compute_result` gets.

States are lists for msgpack: ``[numbers and Booleans, NaNs, inputs, table]`` for MIN, MAX, UNIQUE, GROUP_CONCAT, where
a table is a map from entry to ``[count, stamp or nil]`` (nil where it is unknown);
COUNT_DISTINCT has its number of entries per first byte between inputs and table, no stamps, and no input in entries of
byte 2; ANY is ``[inputs, stamp, whether it is known, value]``.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from struct import Struct as Layout
from typing import Any, TypeAlias

from sowctl.expressions.rows.slotcodec import decode_slots, encode_slots
from sowctl.expressions.rows.sums import build_damage_error
from sowctl.values.fields import Scalar
from sowctl.values.scalars import MAX_EXACT_INTEGER, NAN, parse_number, to_plain_scalar, to_text

Stamp: TypeAlias = tuple[Any, ...]
"""The place of a row in the order of updates; no two rows of a group share one."""
EntryCount: TypeAlias = tuple[int, Stamp | None]
"""How often, and the stamp of the first appearance; None where a removal made that unknown."""
InputReader: TypeAlias = Callable[[bool], Iterable[tuple[Stamp, Scalar]]]
"""The inputs that a group still has, with NULLs, in ascending order of stamps, or descending for True."""

_NAN, _NUMBER, _TEXT, _NUMERIC_TEXT = b"\x01", b"\x02", b"\x03", b"\x04"
_EQUALITY_PREFIX_BYTES = 11
"""Bytes of an entry of a number that equal numbers share."""
_ORDERED_NUMBER_LAYOUT = Layout(">QH")
_DOUBLE_LAYOUT, _BITS_LAYOUT = Layout(">d"), Layout(">Q")


def encode_ordered_number(value: int | float) -> bytes:
    """Ten bytes that sort as numbers do, Integers among Doubles: the Double not above it, then what that leaves.

    The number is not NaN and within the range of the language. -0.0 is 0.
    """
    double, rest = float(value), 0
    # Beyond 2**53 the nearest Double may be another number: one not above it, and the distance, say which is meant.
    if type(value) is int and not -MAX_EXACT_INTEGER <= value <= MAX_EXACT_INTEGER:
        if int(double) > value:
            double = math.nextafter(double, -math.inf)
        rest = value - int(double)
    bits: int = _BITS_LAYOUT.unpack(_DOUBLE_LAYOUT.pack(double or 0.0))[0]
    # Negative Doubles sort the other way round by their bits.
    return _ORDERED_NUMBER_LAYOUT.pack(bits ^ 0xFFFFFFFFFFFFFFFF if bits >> 63 else bits | 1 << 63, rest)


class StateEntries:
    """A table that travels in the state.

    Of the hundred entries that a state may have, a change concerns one or two: what msgpack gave is taken as it is,
    stamps become tuples when they are asked for, and the order is found out once after entries have come or gone.
    """

    __slots__ = ("_found", "_order")

    def __init__(self, found: dict[bytes, Any] | None = None) -> None:
        self._found: dict[bytes, Sequence[Any]] = found or {}
        self._order: list[bytes] | None = None

    def get(self, entry: bytes, /) -> EntryCount | None:
        """Return the count and stamp of an entry, None where there is no such entry."""
        known = self._found.get(entry)
        return None if known is None else _parse_entry(known)

    def put(self, entry: bytes, value: EntryCount | None, /) -> None:
        """Set what is known of an entry; None removes it."""
        if value is None:
            del self._found[entry]
            self._order = None
            return
        if entry not in self._found:
            self._order = None
        self._found[entry] = value

    def find_first(self, prefix: bytes, /) -> bytes | None:
        """The first entry that begins with ``prefix``."""
        order, start, stop = self._find_prefix_range(prefix)
        return order[start] if start < stop else None

    def find_last(self, prefix: bytes, /) -> bytes | None:
        """The last entry that begins with ``prefix``."""
        order, start, stop = self._find_prefix_range(prefix)
        return order[stop - 1] if start < stop else None

    def list_entries(self, prefix: bytes, /) -> list[tuple[bytes, EntryCount]]:
        """All entries that begin with ``prefix``, in their order."""
        order, start, stop = self._find_prefix_range(prefix)
        return [(entry, _parse_entry(self._found[entry])) for entry in order[start:stop]]

    def dump(self) -> dict[bytes, Sequence[Any]]:
        """All entries in their order, for msgpack."""
        order, _, _ = self._find_prefix_range(b"")
        return {entry: self._found[entry] for entry in order}

    def _find_prefix_range(self, prefix: bytes) -> tuple[list[bytes], int, int]:
        """The entries in their order, and from where to where they begin with ``prefix``."""
        if self._order is None:
            # Those of a state come in order, so there is little to sort.
            self._order = sorted(self._found)
        order, size = self._order, len(prefix)
        start = bisect_left(order, prefix)
        return order, start, bisect_right(order, prefix, start, key=lambda entry: entry[:size])


def _parse_entry(value: Sequence[Any]) -> EntryCount:
    count, stamp = value
    return count, None if stamp is None else tuple(stamp)


class CountedInputs:
    """State of MIN, MAX, UNIQUE and GROUP_CONCAT: distinct inputs with counts and first stamps."""

    __slots__ = ("nans", "numbers", "size", "table")

    def __init__(self, state: Sequence[Any] = ()) -> None:
        state = state or (0, 0, 0, None)
        self.numbers: int = state[0]
        self.nans: int = state[1]
        self.size: int = state[2]
        self.table = StateEntries(state[-1])

    def update(self, values: Sequence[Scalar], stamps: Sequence[Stamp], sign: int) -> None:
        """Add inputs (``sign`` 1) or take them back (-1); none is NULL. Raises DamageError ``SOW-EXP-050``."""
        for value, stamp in zip(values, stamps, strict=True):
            for entry in self._encode_inputs(value, sign):
                self._count_entry(entry, stamp, sign)
        self.size += sign * len(values)
        if sign < 0 and min(self.size, self.numbers, self.nans) < 0:
            raise build_damage_error("inputs")

    def _encode_inputs(self, value: Scalar, sign: int) -> tuple[bytes, ...]:
        scalar = to_plain_scalar(value)
        if isinstance(scalar, str | bytes):
            text = to_text(scalar) or b""
            reading = parse_number(text)
            if reading is None:
                return (_TEXT + text,)
            return _NUMBER + encode_ordered_number(reading) + self._encode_spelling(value), _NUMERIC_TEXT + text
        assert scalar is not None
        self.numbers += sign
        if scalar != scalar:
            self.nans += sign
            return (_NAN,)
        return (_NUMBER + encode_ordered_number(scalar) + self._encode_spelling(value),)

    def _encode_spelling(self, value: Scalar) -> bytes:
        return encode_slots(value)

    def _count_entry(self, entry: bytes, stamp: Stamp, sign: int) -> None:
        known = self.table.get(entry)
        if sign > 0:
            if known is None:
                self.table.put(entry, (1, stamp))
                return
            count, earliest = known
            # An unknown first stays unknown: it may lie before this one.
            self.table.put(entry, (count + 1, earliest if earliest is None or earliest < stamp else stamp))
            return
        if known is None:
            raise build_damage_error("inputs")
        count, earliest = known
        if count == 1:
            self.table.put(entry, None)
        elif earliest is not None and stamp < earliest:
            raise build_damage_error("inputs")
        else:
            self.table.put(entry, (count - 1, None if stamp == earliest else earliest))

    def merge(self, other: CountedInputs) -> None:
        """Add what another state of the same aggregate holds."""
        for entry, (count, stamp) in other.table.list_entries(b""):
            known = self.table.get(entry)
            if known is not None:
                count += known[0]
                stamp = None if stamp is None or known[1] is None else min(stamp, known[1])
            self.table.put(entry, (count, stamp))
        self.size += other.size
        self.numbers += other.numbers
        self.nans += other.nans

    # answers ---------------------------------------------------------------------------------------------------------

    def find_extreme(self, greatest: bool, inputs: InputReader) -> Scalar:
        """The least or greatest input, the first of equals; NaN if one is; NULL of nothing."""
        if self.nans:
            return NAN
        found = self._find_edge_entry(greatest)
        return (
            None if found is None else self._decode_entry_value(self._first_of(self._find_equal_entries(found), inputs))
        )

    def find_unique(self, inputs: InputReader) -> Scalar:
        """The first input if all are equal, else NULL."""
        least, most = self._find_edge_entry(False), self._find_edge_entry(True)
        if self.nans:
            return NAN if least is None else None
        if least is None or most is None or self._equality_prefix(least) != self._equality_prefix(most):
            return None
        return self._decode_entry_value(self._first_of(self._find_equal_entries(least), inputs))

    def list_distinct(self, inputs: InputReader) -> list[Scalar]:
        """The first of each set of equal inputs, in the order of updates."""
        classes: dict[bytes, list[tuple[bytes, EntryCount]]] = {}
        for prefix in (_NAN, _NUMBER, _TEXT) if self.numbers else (_TEXT, _NUMERIC_TEXT):
            for item in self.table.list_entries(prefix):
                classes.setdefault(self._equality_prefix(item[0]), []).append(item)
        # The order between classes counts as soon as there are two, that within one as soon as it has two spellings.
        if sum(map(len, classes.values())) > 1:
            self._find_stamps([item for some in classes.values() for item in some], inputs)
        firsts = []
        for some in classes.values():
            stamped = [(self._entry_stamp(entry), entry) for entry, _ in some]
            firsts.append(min(stamped) if len(stamped) > 1 else stamped[0])
        return [self._decode_entry_value(entry) for _, entry in (sorted(firsts) if len(firsts) > 1 else firsts)]

    def _entry_stamp(self, entry: bytes) -> Stamp:
        found = self.table.get(entry)
        return () if found is None or found[1] is None else found[1]

    def _find_edge_entry(self, greatest: bool) -> bytes | None:
        """An entry of the least or greatest input by the common reading, NaN aside."""
        edge = self.table.find_last if greatest else self.table.find_first
        texts, numbers = edge(_TEXT), edge(_NUMBER if self.numbers else _NUMERIC_TEXT)
        if texts is None or numbers is None:
            return numbers if texts is None else texts
        if self.numbers:
            # Texts without a number stand above all numbers.
            return texts if greatest else numbers
        return (max if greatest else min)(texts, numbers, key=lambda entry: entry[1:])

    def _equality_prefix(self, entry: bytes) -> bytes:
        return entry[:_EQUALITY_PREFIX_BYTES] if entry[:1] == _NUMBER else entry

    def _find_equal_entries(self, entry: bytes) -> list[tuple[bytes, EntryCount]]:
        """All entries that are equal to one: more than one only where numbers are spelled differently."""
        return (
            [(entry, (1, ()))]
            if entry[:1] != _NUMBER
            else list(self.table.list_entries(entry[:_EQUALITY_PREFIX_BYTES]))
        )

    def _first_of(self, some: list[tuple[bytes, EntryCount]], inputs: InputReader) -> bytes:
        if len(some) == 1:
            return some[0][0]
        self._find_stamps(some, inputs)
        return min((self._entry_stamp(entry), entry) for entry, _ in some)[1]

    def _find_stamps(self, some: list[tuple[bytes, EntryCount]], inputs: InputReader) -> None:
        """Set the stamps of entries that are unknown: the rows of the group know them."""
        unknown = {entry for entry, (_, stamp) in some if stamp is None}
        if not unknown:
            return
        for stamp, value in inputs(False):
            for entry in unknown.intersection(self._encode_wanted(value)):
                known = self.table.get(entry)
                assert known is not None, "an entry that is unknown has a count"
                self.table.put(entry, (known[0], stamp))
                unknown.discard(entry)
            if not unknown:
                return
        raise build_damage_error("inputs")

    def _encode_wanted(self, value: Scalar) -> tuple[bytes, ...]:
        # Counters change where entries are made, and must not here.
        return () if value is None else CountedInputs()._encode_inputs(value, 1)

    def _decode_entry_value(self, entry: bytes) -> Scalar:
        if entry[:1] == _NAN:
            return NAN
        if entry[:1] == _NUMBER:
            found: Scalar = decode_slots(entry[_EQUALITY_PREFIX_BYTES:])
            return found
        text = entry[1:]
        try:
            return text.decode()
        except UnicodeDecodeError:
            return text

    def dump(self) -> list[Any]:
        """The state, as the module says."""
        return [self.numbers, self.nans, self.size, self.table.dump()]


class CountedDistinct(CountedInputs):
    """COUNT_DISTINCT: entries without spelling and stamps, and how many there are per first byte."""

    __slots__ = ("entries",)

    def __init__(self, state: Sequence[Any] = ()) -> None:
        super().__init__(state)
        self.entries: list[int] = list(state[3]) if state else [0, 0, 0, 0]

    def _encode_spelling(self, value: Scalar) -> bytes:
        return b""

    def _count_entry(self, entry: bytes, stamp: Stamp, sign: int) -> None:
        known = self.table.get(entry)
        count = (0 if known is None else known[0]) + sign
        if count < 0:
            raise build_damage_error("inputs")
        self.table.put(entry, (count, None) if count else None)
        # Only the steps between 0 and 1 change how many different inputs there are.
        if count == (sign > 0):
            self.entries[entry[0] - 1] += sign

    def merge(self, other: CountedInputs) -> None:
        """Add what another state of the same aggregate holds."""
        for entry, (count, _) in other.table.list_entries(b""):
            known = self.table.get(entry)
            self.table.put(entry, (count + (known[0] if known is not None else 0), None))
            self.entries[entry[0] - 1] += known is None
        self.size += other.size
        self.numbers += other.numbers
        self.nans += other.nans

    def compute_result(self) -> int:
        """Return the number of different inputs."""
        nans, numbers, texts, numeric_texts = self.entries
        return nans + numbers + texts if self.numbers else texts + numeric_texts

    def dump(self) -> list[Any]:
        """The state, as the module says."""
        return [self.numbers, self.nans, self.size, self.entries, self.table.dump()]


class LatestInput:
    """The value with the highest stamp: ANY, and the last row of a group."""

    __slots__ = ("known", "size", "stamp", "value")

    def __init__(self, state: Sequence[Any] = ()) -> None:
        state = state or (0, (), True, None)
        self.size: int = state[0]
        self.stamp: Stamp = tuple(state[1])
        self.known: bool = state[2]
        self.value: Any = state[3]

    def update(self, values: Sequence[Any], stamps: Sequence[Stamp], sign: int) -> None:
        """Add values (``sign`` 1) or take them back (-1). Raises DamageError ``SOW-EXP-050``."""
        if not values:
            return
        self.size += sign * len(values)
        place = max(range(len(stamps)), key=stamps.__getitem__)
        if sign > 0:
            # Above the highest stamp that there ever was, also where the value of that one is gone.
            if self.size == len(values) or stamps[place] > self.stamp:
                self.stamp, self.known, self.value = stamps[place], True, values[place]
            return
        if self.size < 0 or stamps[place] > self.stamp:
            raise build_damage_error("rows")
        if self.size == 0:
            self.stamp, self.known, self.value = (), True, None
        elif stamps[place] == self.stamp:
            self.known, self.value = False, None

    def merge(self, other: LatestInput) -> None:
        """Add what another state holds."""
        if not self.size or (other.size and other.stamp > self.stamp):
            self.stamp, self.known, self.value = other.stamp, other.known, other.value
        self.size += other.size

    def restore_latest(self, values: Iterable[tuple[Stamp, Any]]) -> None:
        """Set the latest from the values that are left, given in descending order of stamps."""
        for stamp, value in values:
            self.stamp, self.known, self.value = stamp, True, value
            return
        raise build_damage_error("rows")

    def compute_result(self, inputs: InputReader) -> Scalar:
        """The latest input that is not NULL; NULL of nothing."""
        if not self.known:
            self.restore_latest((stamp, value) for stamp, value in inputs(True) if value is not None)
        found: Scalar = self.value
        return found

    def dump(self) -> list[Any]:
        """The state, as the module says."""
        return [self.size, self.stamp, self.known, self.value]


def iterate_no_rows(_: bool) -> Iterable[Any]:
    """For groups from which nothing is taken back: their rows are never asked for."""
    raise build_damage_error("rows")
