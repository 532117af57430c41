"""The schema of messages as text, inferred from them (sowctl-spark(7), MESSAGES).

Called by the data sources and by the jobs that write columns, in which every task examines its part of the records and
the driver merges the results; and by the formats with columns of their own. A type is chosen after all values were
examined, and holds all of them: numbers become BIGINT, else DOUBLE or DECIMAL, else STRING, which holds everything, if
these do not preserve all digits. A later value that does not fit ends the reading (:func:`build_misfit_error`): it
never silently becomes NULL.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from decimal import Decimal, InvalidOperation
from itertools import chain, islice
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec import Raw

from sowctl.arrow.jsoncolumns import Misfit
from sowctl.arrow.jsontrees import TreeReader
from sowctl.errors import InputError, LimitError
from sowctl.values.scalars import MAX_EXACT_INTEGER

if TYPE_CHECKING:
    import pyarrow

Shape: TypeAlias = "str | tuple[int, int] | list[Shape] | dict[str, Shape]"
"""A type: its name, the precision and scale of a DECIMAL, an array of one type, a struct of members."""
MAX_FIELDS = 10_000
"""Maximum number of fields, including nested ones, of an inferred schema. With more, names are data."""
MAX_COLUMN_DEPTH = 50
"""Maximum depth of objects and arrays with columns of their own; deeper ones become texts of JSON. Files of Arrow have
a limit of 64 levels, and some readers less."""
_LONG_LIMIT = 1 << 63
_MAX_DECIMAL_DIGITS = 38
"""Maximum precision of a DECIMAL."""
_MAX_SAFE_DIGITS = 16
"""Characters up to which a double always preserves a number without an exponent: 15 digits and a point."""
_PIECE_MESSAGES = 500
"""Number of messages whose values are held together."""
_EXCESSIVE_DIGITS = 1000
"""Represents more digits than any type has."""


class SampledView(NamedTuple):
    """The JSON view of a message, and whether its type is ``repeatable``."""

    view: bytes
    repeatable: bool


class Inference:
    """The fields and types seen in some messages. Those that are unreadable or no objects are ignored.

    ``names``: only members with these names, in lower case, are examined. ``exact``: the messages are exact views.
    ``repeatable``: a field with one value may be a list of one, so that values beside arrays are items of these.
    """

    def __init__(self, names: Collection[str] | None = None, *, exact: bool = False, repeatable: bool = False) -> None:
        self.repeatable = repeatable
        self._seen = _SeenValues()
        self._exact = exact
        self._names = names

    def add(self, views: Iterable[bytes]) -> None:
        """Examine some JSON views. Raises LimitError ``SOW-SPK-083`` for more fields than :data:`MAX_FIELDS`."""
        trees, seen = TreeReader(exact=self._exact), self._seen
        budget = _FieldBudget(seen.count_fields())
        for value in chain.from_iterable(map(trees.read_trees, _cut_pieces(views))):
            if type(value) is dict:
                if self._names is not None:
                    value = {name: inner for name, inner in value.items() if name.lower() in self._names}
                seen.note_value(value, budget)

    def merge(self, other: Inference) -> None:
        """Add the result of another inference; its new members are appended. Raises as :meth:`add`."""
        self.repeatable |= other.repeatable
        self._seen.merge(other._seen, _FieldBudget(self._seen.count_fields()))

    def __bool__(self) -> bool:
        """True if any message had fields."""
        return bool(self._seen.members)

    def has_values(self) -> bool:
        """True if every field had a value other than null, so that its type can only become wider."""
        return all(one.has_values() for one in self._seen.members.values())

    def build_members(self) -> dict[str, Shape]:
        """The fields that were seen, with their types."""
        shape = self._build_shape()
        return shape if isinstance(shape, dict) else {}

    def find_scalar_fields(self) -> frozenset[str]:
        """The fields whose values, except null, are all texts, all truth values or all numbers."""
        return frozenset(name for name, seen in self._seen.members.items() if seen.is_single())

    def build_ddl(self) -> str:
        """The DDL of the struct that holds all values; members in order of first appearance."""
        return format_ddl(self._build_shape())

    def build_struct(self) -> pyarrow.StructType:
        """The Arrow type of :meth:`build_ddl`."""
        return _arrow_type(self._build_shape())

    def _build_shape(self) -> Shape:
        # A message is an object, even if none was seen.
        self._seen.objects = True
        return self._seen.build_shape(self.repeatable)


def infer_fields(messages: Iterable[SampledView]) -> Inference:
    """The fields and types of messages of any types."""
    found = Inference()

    def iterate_views() -> Iterator[bytes]:
        for view, repeatable in messages:
            found.repeatable |= repeatable
            yield view

    found.add(iterate_views())
    return found


def infer_ddl(views: Iterable[bytes]) -> str:
    """The DDL of the struct that holds all of these JSON views."""
    found = Inference()
    found.add(views)
    return found.build_ddl()


def build_misfit_error(problem: Misfit, place: str, hint: str) -> InputError:
    """The error of a message that does not fit the inferred fields; ``place`` names the message."""
    if problem.names:
        words = f"field {'/'.join(problem.names)} does not match the inferred fields: {problem.what}"
    else:
        words = f"the message does not match the inferred fields: {problem.what}"
    return InputError("SOW-SPK-082", f"{place}: {words}", hint=hint)


def _cut_pieces(views: Iterable[bytes]) -> Iterator[list[bytes]]:
    rest = iter(views)
    while piece := list(islice(rest, _PIECE_MESSAGES)):
        yield piece


class _FieldBudget:
    """The number of fields so far, and the limit on it."""

    def __init__(self, spent: int) -> None:
        self._spent = spent

    def add_field(self, depth: int) -> _SeenValues:
        """Create a field at this depth."""
        self._spent += 1
        if self._spent > MAX_FIELDS:
            raise LimitError(
                "SOW-SPK-083",
                f"the messages have more than {MAX_FIELDS:,} fields, the maximum for inference",
                hint="declare the fields; declare an object whose names are data as MAP<STRING, ...>",
            )
        return _SeenValues(depth)


class _SeenValues:
    """The values in one place of the messages. All flags and bounds only grow, so the order does not matter."""

    def __init__(self, depth: int = 0) -> None:
        self.depth = depth
        self.text = self.truth = self.whole = self.real = self.objects = False
        self.low = self.high = 0
        # for numbers with a point or an exponent: whether a double preserves all of them, and the digits on both sides
        self.exact = True
        self.odd = False
        self.before = self.behind = 0
        self.forms: set[tuple[int, int]] = set()
        self.item: _SeenValues | None = None
        self.members: dict[str, _SeenValues] = {}

    def note_value(self, value: Any, budget: _FieldBudget) -> None:
        """Count one more value."""
        kind = type(value)
        if kind is str:
            self.text = True
        elif kind is int:
            self.whole = True
            # Most values are within the known bounds; this saves two calls for them.
            if not self.low <= value <= self.high:
                self.low, self.high = min(self.low, value), max(self.high, value)
        elif kind is Raw:
            self._note_number(bytes(value))
        elif kind is float:
            # NaN or an infinity: among numbers, only doubles have these.
            self.real = self.odd = True
        elif kind is bool:
            self.truth = True
        elif kind in (dict, list) and self.depth >= MAX_COLUMN_DEPTH:
            self.text = True
        elif kind is dict:
            self.objects = True
            members = self.members
            for name, inner in value.items():
                member = members.get(name)
                if member is None:
                    member = members[name] = budget.add_field(self.depth + 1)
                if type(inner) is str:  # most are, and the call would cost more than this
                    member.text = True
                else:
                    member.note_value(inner, budget)
        elif kind is list:
            if self.item is None:
                self.item = budget.add_field(self.depth + 1)
            for inner in value:
                self.item.note_value(inner, budget)

    def _note_number(self, text: bytes) -> None:
        """Count a number that is not a plain whole one."""
        short = len(text) <= _MAX_SAFE_DIGITS and b"e" not in text and b"E" not in text
        if short:
            # numbers of this length with the point at this place need the same precision
            form = len(text), text.find(b".")
            if form in self.forms:
                return
            self.forms.add(form)
        if text == b"-0":
            self.whole = True
            return
        self.real = True
        before, behind = _count_digits(text)
        self.before, self.behind = max(self.before, before), max(self.behind, behind)
        self.exact = self.exact and (short or _is_double(text))

    def merge(self, other: _SeenValues, budget: _FieldBudget, *, with_items: bool = True) -> None:
        """Merge the values of another one; ``with_items``: including arrays in its place."""
        self.text |= other.text
        self.truth |= other.truth
        self.whole |= other.whole
        self.real |= other.real
        self.objects |= other.objects
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.exact &= other.exact
        self.odd |= other.odd
        self.before, self.behind = max(self.before, other.before), max(self.behind, other.behind)
        self.forms |= other.forms
        if other.item is not None and with_items:
            if self.item is None:
                self.item = budget.add_field(self.depth + 1)
            self.item.merge(other.item, budget)
        for name, seen in other.members.items():
            if name not in self.members:
                self.members[name] = budget.add_field(self.depth + 1)
            self.members[name].merge(seen, budget)

    def count_fields(self) -> int:
        """Count the fields in this place."""
        inner = [*self.members.values(), *([self.item] if self.item is not None else [])]
        return len(inner) + sum(one.count_fields() for one in inner)

    def has_values(self) -> bool:
        """True if there was a value here, and one in every place below."""
        inner = [*self.members.values(), *([self.item] if self.item is not None else [])]
        kinds = self.text or self.truth or self.whole or self.real or self.objects or self.item is not None
        return kinds and all(one.has_values() for one in inner)

    def is_single(self) -> bool:
        """True if all values are scalars of one kind."""
        return self.item is None and not self.objects and self.text + self.truth + (self.whole or self.real) == 1

    def build_shape(self, repeatable: bool, depth: int = 0) -> Shape:
        """The type that holds all values; STRING for values of different kinds, and if there are none."""
        if self.item is not None and repeatable:
            return [self._build_items(self.item).build_shape(True, depth + 1)] if depth < MAX_COLUMN_DEPTH else "STRING"
        kinds = [self.text, self.truth, self.whole or self.real, self.objects, self.item is not None]
        # Values of several kinds have only their text in common.
        if sum(kinds) != 1 or self.text:
            return "STRING"
        if self.truth:
            return "BOOLEAN"
        if self.objects:
            if depth >= MAX_COLUMN_DEPTH:
                return "STRING"
            return {name: inner.build_shape(repeatable, depth + 1) for name, inner in self.members.items()}
        return self._numeric_shape() if self.item is None else [self.item.build_shape(repeatable, depth + 1)]

    def _build_items(self, item: _SeenValues) -> _SeenValues:
        """The values in arrays here, and beside them."""
        budget, every = _FieldBudget(0), _SeenValues(item.depth)
        every.merge(item, budget)
        every.merge(self, budget, with_items=False)
        return every

    def _numeric_shape(self) -> Shape:
        # Without fractions and within 64 bits a whole number preserves every digit.
        if not self.real and self.low >= -_LONG_LIMIT and self.high < _LONG_LIMIT:
            return "BIGINT"
        # A DOUBLE only if it preserves all numbers that were seen, including whole ones.
        if self.real and self.exact and self.low >= -MAX_EXACT_INTEGER and self.high <= MAX_EXACT_INTEGER:
            return "DOUBLE"
        whole = (
            len(str(max(-self.low, self.high)))
            if max(-self.low, self.high) < 10**_MAX_DECIMAL_DIGITS
            else _EXCESSIVE_DIGITS
        )
        digits = max(self.before, whole) + self.behind
        # More digits than a DECIMAL has, or numbers that it cannot represent: only the text preserves them.
        return (digits, self.behind) if digits <= _MAX_DECIMAL_DIGITS and not self.odd else "STRING"


def format_ddl(shape: Shape) -> str:
    """A type as DDL."""
    if isinstance(shape, dict):
        members = [f"`{name.replace('`', '``')}`: {format_ddl(inner)}" for name, inner in shape.items()]
        return f"STRUCT<{', '.join(members)}>"
    if isinstance(shape, list):
        return f"ARRAY<{format_ddl(shape[0])}>"
    return shape if isinstance(shape, str) else f"DECIMAL({shape[0]},{shape[1]})"


def _arrow_type(shape: Shape) -> pyarrow.DataType:
    import pyarrow as pa

    if isinstance(shape, dict):
        return pa.struct([(name, _arrow_type(inner)) for name, inner in shape.items()])
    if isinstance(shape, list):
        # the name that pyspark gives it in Arrow types
        return pa.list_(pa.field("element", _arrow_type(shape[0])))
    if isinstance(shape, str):
        return {"STRING": pa.string, "BOOLEAN": pa.bool_, "BIGINT": pa.int64, "DOUBLE": pa.float64}[shape]()
    return pa.decimal128(*shape)


def _count_digits(text: bytes) -> tuple[int, int]:
    """Count the digits before and after the point of a number, written without an exponent."""
    try:
        _, digits, exponent = Decimal(text.decode()).as_tuple()
    except InvalidOperation:
        return _EXCESSIVE_DIGITS, 0
    assert isinstance(exponent, int)
    before = 1 if not any(digits) else max(len(digits) + exponent, 1)
    return min(before, _EXCESSIVE_DIGITS), min(max(-exponent, 0), _EXCESSIVE_DIGITS)


def _is_double(text: bytes) -> bool:
    """True if the shortest text of the nearest double is the same number."""
    nearest = float(text)
    try:
        return isfinite(nearest) and Decimal(repr(nearest)) == Decimal(text.decode())
    except InvalidOperation:
        return False
