"""Rows of SQL: conversion of values of each DuckDB type for text formats and for columnar formats (sowctl-types(7)).

:data:`RESULT_TYPES` defines it, one line per type. A type that Arrow's arrays do not have, or have with other values,
is fetched as DuckDB's text. Python's dates are not used, because they have no infinities, no years outside 1 to 9999,
and no nanoseconds. A value that a format cannot represent raises an error; no value is changed.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Raw

from sowctl.arrow.jsoncolumns import format_non_finite
from sowctl.arrow.message_encoder import format_interval
from sowctl.errors import InputError
from sowctl.structs import DescribedStruct
from sowctl.values.times import format_time

if TYPE_CHECKING:
    import pyarrow

Values: TypeAlias = "list[Any]"
Cells: TypeAlias = "Callable[[pyarrow.Array], Values]"
"""Converts an array to JSON values."""
Convert: TypeAlias = "Callable[[pyarrow.Array], pyarrow.Array]"
"""Converts an array for a columnar format. Raises :class:`_Unfit`."""
OddFormatter: TypeAlias = "Callable[[float], Any]"
"""Formats NaN and infinities."""

_DAY_SECONDS = 86_400
_ERA_DAYS = 146_097
"""Days of 400 years, after which the calendar repeats itself."""
_EPOCH_DAYS = 719_468
"""Days from 0000-03-01 to 1970-01-01."""
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The days of the years 1 to 9999, which ISO 8601 writes with four digits."""
_INTERVAL_PATTERN = re.compile(
    r"(?:(-?\d+) years? ?)?(?:(-?\d+) months? ?)?(?:(-?\d+) days? ?)?(?:(-)?(\d+):(\d\d):([\d.]+))?"
)
_DECIMAL_DIGITS = 38
"""Digits of the widest decimal that all readers of Parquet and Arrow support."""
_DECIMAL_HIGH_WORD = 10**_DECIMAL_DIGITS >> 64
_MAX_NANOSECONDS = (1 << 63) - 1
_encode = msgspec.json.Encoder().encode
PARQUET_FORMAT = "parquet"


class _Unfit(Exception):
    """Describes a value of an array that a columnar format cannot represent."""


class ResultType(DescribedStruct, frozen=True):
    """Conversions of the values of one DuckDB type.

    ``cells``: conversion to JSON. ``fetched``: the type to fetch them as, None for their own. ``convert``: conversion
    for Arrow and Parquet, None for the unchanged array. ``convert_parquet``: a different conversion for Parquet.
    """

    cells: Callable[[Any, OddFormatter], Cells]
    fetched: str | None = None
    convert: Convert | None = None
    convert_parquet: Convert | None = None


class Result:
    """The rows of one statement, to be read once. ``names`` are those of its columns; duplicate names get a number."""

    def __init__(self, names: Sequence[str], types: Sequence[Any], batches: Iterable[pyarrow.RecordBatch]) -> None:
        self.names = _make_unique(names)
        self._types = types
        self._batches = batches

    def iterate_rows(self, odd: OddFormatter) -> Iterator[list[bytes]]:
        """Yield the rows as JSON objects, in batches; ``odd`` formats NaN and infinities."""
        cells = [_cells(kind, odd) for kind in self._types]
        names = self.names
        for batch in self._batches:
            columns = [make(_compact(column)) for make, column in zip(cells, batch.columns, strict=True)]
            yield [_encode(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]

    def open_reader(self, name: str = "arrow") -> pyarrow.RecordBatchReader:
        """Return the rows as typed columns, for the format ``arrow`` or ``parquet``.

        Reading raises InputError ``SOW-EXC-022`` for a value that the format cannot represent.
        """
        import pyarrow as pa

        converts = [_converter(kind, name == PARQUET_FORMAT) for kind in self._types]
        batches = iter(self._batches)
        first = next(batches, None)
        assert first is not None  # without rows there is an empty one
        made = self._convert_batch(first, converts, name, 0)

        def rest() -> Iterator[pyarrow.RecordBatch]:
            yield made
            count = len(made)
            for batch in batches:
                yield self._convert_batch(batch, converts, name, count)
                count += len(batch)

        return pa.RecordBatchReader.from_batches(made.schema, rest())

    def _convert_batch(
        self, batch: pyarrow.RecordBatch, converts: Sequence[Convert | None], name: str, before: int
    ) -> pyarrow.RecordBatch:
        import pyarrow as pa

        columns = []
        for place, (convert, column) in enumerate(zip(converts, batch.columns, strict=True)):
            try:
                columns.append(column if convert is None else convert(_compact(column)))
            except _Unfit:
                raise self._refusal(place, convert, column, name, before) from None
        return pa.RecordBatch.from_arrays(columns, names=self.names)

    def _refusal(
        self, place: int, convert: Convert | None, column: pyarrow.Array, name: str, before: int
    ) -> InputError:
        """Return the error for the first value of a column that the format cannot represent."""
        import pyarrow as pa

        assert convert is not None
        for row in range(len(column)):
            try:
                convert(column.take(pa.array([row])))
            except _Unfit as problem:
                shown = "Parquet" if name == PARQUET_FORMAT else "Arrow"
                kind = str(self._types[place])
                words = (
                    f"row {before + row + 1}, column {self.names[place]} ({kind}): {shown} does not support {problem}"
                )
                hint = f"use CAST({_quote_name(self.names[place])} AS VARCHAR), or a text format such as ndjson"
                return InputError("SOW-EXC-022", words, hint=hint)
        raise AssertionError("a column is refused for one of its values")


def choose_fetch_type(kind: Any) -> str | None:
    """Return the SQL type as which to fetch a column of a type; None for its own.

    Raises InputError ``SOW-EXC-022`` for a type that is not in :data:`RESULT_TYPES`.
    """
    found = _format_fetch_type(kind)
    return None if found == str(kind) else found


def format_odd_number(value: float) -> Raw:
    """Format NaN and infinities as words that are not JSON, for formats with such numbers."""
    return Raw(format_non_finite(value).encode())


def _make_unique(names: Iterable[str]) -> list[str]:
    """Return unique column names: a duplicate gets a number that makes it unique."""
    given = list(names)
    found: dict[str, None] = {}
    for name in given:
        made, number = name, 1
        while made in found or (made != name and made in given):
            made, number = f"{name}_{number}", number + 1
        found[made] = None
    return list(found)


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _inner(kind: Any) -> list[tuple[str, Any]]:
    """Return names and types of the components of a nested type."""
    children = kind.children
    if kind.id == "array":
        return [children[0]]
    # The first child of a union is the number of the member that a value has.
    return list(children[1:]) if kind.id == "union" else list(children)


def _format_fetch_type(kind: Any, *, key: bool = False) -> str:
    name = kind.id
    if name in NESTED_CELLS:
        inner = _inner(kind)
        parts = [_format_fetch_type(child, key=name == "map" and not place) for place, (_, child) in enumerate(inner)]
        if all(part == str(child) for part, (_, child) in zip(parts, inner, strict=True)):
            return str(kind)
        if name == "list":
            return f"{parts[0]}[]"
        if name == "array":
            return f"{parts[0]}[{kind.children[1][1]}]"
        if name in ("map", "tuple"):
            return f"{name}({', '.join(parts)})"
        named = ", ".join(f"{_quote_name(each)} {part}" for (each, _), part in zip(inner, parts, strict=True))
        return f"{name}({named})"
    # Keys of Arrow's maps are never null, unlike the key type of an empty map.
    if key and name == "null":
        return "VARCHAR"
    return _type_of(kind).fetched or str(kind)


def _type_of(kind: Any) -> ResultType:
    found = RESULT_TYPES.get(kind.id)
    if found is None:
        words = f"a column of the result has the unsupported type {kind}"
        raise InputError("SOW-EXC-022", words, hint="use CAST(... AS VARCHAR) for the column")
    return found


def _compact(array: pyarrow.Array) -> pyarrow.Array:
    """Return an array whose buffers start at its first value."""
    import pyarrow as pa

    return pa.concat_arrays([array]) if array.offset else array


# Values in JSON


def _cells(kind: Any, odd: OddFormatter) -> Cells:
    return NESTED_CELLS[kind.id](kind, odd) if kind.id in NESTED_CELLS else _type_of(kind).cells(kind, odd)


def _as_is(kind: Any, odd: OddFormatter) -> Cells:
    return lambda array: array.to_pylist()


def _make_cells(make: Callable[[Any], Any]) -> Callable[[Any, OddFormatter], Cells]:
    """Return a function that converts values other than NULL one by one."""

    def cells(kind: Any, odd: OddFormatter) -> Cells:
        return lambda array: [None if value is None else make(value) for value in array.to_pylist()]

    return cells


def _make_time_cells(make: Callable[[int], str], bits: int) -> Callable[[Any, OddFormatter], Cells]:
    """Return a function that converts times, which Arrow's arrays store as numbers of ``bits`` bits."""

    def cells(kind: Any, odd: OddFormatter) -> Cells:
        import pyarrow as pa

        numbers = pa.int32() if bits == 32 else pa.int64()
        return lambda array: [None if value is None else make(value) for value in array.view(numbers).to_pylist()]

    return cells


def _doubles(kind: Any, odd: OddFormatter) -> Cells:
    import pyarrow as pa
    import pyarrow.compute as pc

    single = kind.id == "float"

    def cells(array: pyarrow.Array) -> Values:
        if single:
            # The shortest digits of this 32-bit number: 0.1 and not 0.10000000149011612.
            texts = array.to_numpy(zero_copy_only=False).astype("f4").astype(str).tolist()
            array = pa.array([float(text) for text in texts], mask=array.is_null().to_numpy(zero_copy_only=False))
        values: Values = array.to_pylist()
        if pc.all(pc.is_finite(array)).as_py() is False:
            return [value if value is None or isfinite(value) else odd(value) for value in values]
        return values

    return cells


def _digits(value: Any) -> Raw:
    return Raw(f"{value:f}".encode())


def _number_text(value: str) -> Raw:
    return Raw(value.encode())


def _base64(value: bytes) -> str:
    return b64encode(value).decode()


def _civil(day: int) -> tuple[int, int, int]:
    """Return year (0 is 1 BC), month and day of the Gregorian calendar for days since 1970."""
    era, day_of_era = divmod(day + _EPOCH_DAYS, _ERA_DAYS)
    year = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    # Years start in March, so that the leap day is their last day.
    month = (5 * day_of_year + 2) // 153
    days = day_of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return era * 400 + year + (month <= 2), month, days


def _date_text(day: int) -> str:
    """Return ``2026-01-05``, and as in DuckDB ``infinity``, ``10000-01-01`` and ``0044-03-15 (BC)``."""
    if abs(day) == (1 << 31) - 1:
        return "infinity" if day > 0 else "-infinity"
    year, month, days = _civil(day)
    return f"{year:04}-{month:02}-{days:02}" if year > 0 else f"{1 - year:04}-{month:02}-{days:02} (BC)"


def _fraction(rest: int, digits: int) -> str:
    return f".{rest:0{digits}}"


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _time_text(digits: int) -> Callable[[int], str]:
    """Return a formatter of times with ``digits`` digits: ``12:34:56``, ``12:34:56.500000``, ``12:34:56.123456789``,
    ``24:00:00``."""

    def text(value: int) -> str:
        seconds, rest = divmod(value, 10**digits)
        if digits == 9 and rest % 1000 == 0:
            return _clock(seconds) + (_fraction(rest // 1000, 6) if rest else "")
        return _clock(seconds) + (_fraction(rest, digits) if rest else "")

    return text


def _instant_text(digits: int, zone: str) -> Callable[[int], str]:
    """Return a formatter of instants: ``2026-01-05T10:00:00.000000Z``, with nine digits if six do not suffice;
    infinities and years outside of 1 to 9999 as in DuckDB. ``zone``: DuckDB's suffix of these."""

    def text(value: int) -> str:
        if abs(value) == (1 << 63) - 1:
            return "infinity" if value > 0 else "-infinity"
        seconds, rest = divmod(value, 10**digits)
        day, within = divmod(seconds, _DAY_SECONDS)
        if _FIRST_DAY <= day <= _LAST_DAY:
            micros = rest // 1000 if digits == 9 else rest * 10 ** (6 - digits)
            made = format_time(seconds * 1_000_000 + micros)
            return f"{made[:-1]}{rest % 1000:03}Z" if digits == 9 and rest % 1000 else made
        date, era, tail = _date_text(day).partition(" (BC)")
        return f"{date}{era}{tail} {_clock(within)}{_fraction(rest, digits).rstrip('0') if rest else ''}{zone}"

    return text


def _interval_parts(text: str) -> tuple[int, int, int]:
    """Return months, days and microseconds of an interval in DuckDB's notation."""
    match = _INTERVAL_PATTERN.fullmatch(text)
    assert match is not None
    years, months, days, sign, hours, minutes, seconds = match.groups()
    micros = 0
    if hours is not None:
        whole, _, rest = seconds.partition(".")
        micros = ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 1_000_000 + int(rest.ljust(6, "0") or 0)
    return int(years or 0) * 12 + int(months or 0), int(days or 0), -micros if sign else micros


def _interval_text(text: str) -> str:
    months, days, micros = _interval_parts(text)
    return format_interval((months, days, micros * 1000))


def _list_cells(kind: Any, odd: OddFormatter) -> Cells:
    inner = _cells(_inner(kind)[0][1], odd)

    def cells(array: pyarrow.Array) -> Values:
        values, offsets = inner(_compact(array.values)), array.offsets.to_pylist()
        present = array.is_valid().to_pylist()
        return [values[offsets[at] : offsets[at + 1]] if there else None for at, there in enumerate(present)]

    return cells


def _array_cells(kind: Any, odd: OddFormatter) -> Cells:
    inner, size = _cells(_inner(kind)[0][1], odd), kind.children[1][1]

    def cells(array: pyarrow.Array) -> Values:
        values = inner(_compact(array.values))
        present = array.is_valid().to_pylist()
        return [values[at * size : (at + 1) * size] if there else None for at, there in enumerate(present)]

    return cells


def _struct_cells(kind: Any, odd: OddFormatter) -> Cells:
    inner = [_cells(child, odd) for _, child in _inner(kind)]

    def cells(array: pyarrow.Array) -> Values:
        names = [field.name for field in array.type]
        present = array.is_valid().to_pylist()
        columns = [make(_compact(array.field(place))) for place, make in enumerate(inner)]
        rows: Iterable[tuple[Any, ...]] = zip(*columns, strict=True) if columns else [()] * len(array)
        return [dict(zip(names, row, strict=True)) if there else None for row, there in zip(rows, present, strict=True)]

    return cells


def _map_cells(kind: Any, odd: OddFormatter) -> Cells:
    """Return objects; if keys are not scalars, or are unions, of which two may have the same text, lists of keys and
    values."""
    (_, key), (_, value) = _inner(kind)
    keys, values, paired = _cells(key, format_non_finite), _cells(value, odd), key.id in NESTED_CELLS

    def cells(array: pyarrow.Array) -> Values:
        names, found = keys(_compact(array.keys)), values(_compact(array.items))
        offsets, present = array.offsets.to_pylist(), array.is_valid().to_pylist()
        pairs = list(zip(names if paired else map(_name, names), found, strict=True))
        made = [pairs[offsets[at] : offsets[at + 1]] if there else None for at, there in enumerate(present)]
        if paired:
            return [None if one is None else [{"key": name, "value": item} for name, item in one] for one in made]
        return [None if one is None else dict(one) for one in made]

    return cells


def _name(key: Any) -> str:
    """Return the member name for a key of a map."""
    return key if isinstance(key, str) else _encode(key).decode()


def _union_cells(kind: Any, odd: OddFormatter) -> Cells:
    """Return the value of a union, whichever member it is."""
    inner = [_cells(child, odd) for _, child in _inner(kind)]

    def cells(array: pyarrow.Array) -> Values:
        columns = [make(_compact(array.field(place))) for place, make in enumerate(inner)]
        return [columns[code][at] for at, code in enumerate(array.type_codes.to_pylist())]

    return cells


NESTED_CELLS: dict[str, Callable[[Any, OddFormatter], Cells]] = {
    "list": _list_cells,
    "array": _array_cells,
    "struct": _struct_cells,
    "tuple": _struct_cells,
    "map": _map_cells,
    "union": _union_cells,
}
"""Nested types, and their conversions to JSON."""


# Columns in Arrow and Parquet


def _converter(kind: Any, parquet: bool) -> Convert | None:
    """Return the converter of columns of a type; None if the fetched column is used unchanged."""
    if kind.id not in NESTED_CELLS:
        found = _type_of(kind)
        return found.convert_parquet if parquet and found.convert_parquet is not None else found.convert
    # Parquet has neither unions nor structs without fields.
    if parquet and (kind.id == "union" or not _inner(kind)):
        return _json_texts(_cells(kind, format_non_finite))
    inner = [_converter(child, parquet) for _, child in _inner(kind)]
    if not any(inner):
        return None
    return _convert_nested(kind.id, [one if one is not None else (lambda array: array) for one in inner])


def _json_texts(cells: Cells) -> Convert:
    def convert(array: pyarrow.Array) -> pyarrow.Array:
        import pyarrow as pa

        # A union has no NULL of its own: a member of it is NULL.
        made = [None if value is None else _encode(value).decode() for value in cells(array)]
        return pa.array(made, pa.string())

    return convert


def _convert_nested(name: str, inner: Sequence[Convert]) -> Convert:
    """Return a converter that converts the components of a nested array and reassembles it."""

    def convert(array: pyarrow.Array) -> pyarrow.Array:
        import pyarrow as pa

        mask = array.is_null() if array.null_count else None
        if name == "list":
            values = inner[0](_compact(array.values))
            kind = pa.list_(array.type.value_field.with_type(values.type))
            return pa.ListArray.from_arrays(array.offsets, values, type=kind, mask=mask)
        if name == "array":
            values = inner[0](_compact(array.values))
            kind = pa.list_(array.type.value_field.with_type(values.type), array.type.list_size)
            return pa.FixedSizeListArray.from_arrays(values, type=kind, mask=mask)
        if name == "map":
            keys, items = inner[0](_compact(array.keys)), inner[1](_compact(array.items))
            kind = pa.map_(keys.type, items.type)
            return pa.MapArray.from_arrays(array.offsets, keys, items, type=kind, mask=mask)
        children = [make(_compact(array.field(place))) for place, make in enumerate(inner)]
        names = [array.type.field(place).name for place in range(array.type.num_fields)]
        if name == "union":
            return pa.UnionArray.from_sparse(array.type_codes, children, names, list(range(len(names))))
        return pa.StructArray.from_arrays(children, names=names, mask=mask)

    return convert


def _refuse_values(bits: int, *values: int) -> Convert:
    """Return a converter that rejects values that are not numbers of a type, such as infinities of times."""

    def convert(array: pyarrow.Array) -> pyarrow.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        numbers = array.view(pa.int32() if bits == 32 else pa.int64())
        for value in values:
            if pc.any(pc.equal(numbers, value)).as_py():
                raise _Unfit("the time 24:00:00" if value > 0 and value % _DAY_SECONDS == 0 else "infinity")
        return array

    return convert


_finite_dates = _refuse_values(32, (1 << 31) - 1, -(1 << 31) + 1)
_finite_instants = _refuse_values(64, (1 << 63) - 1, -(1 << 63) + 1)


def _milliseconds(array: pyarrow.Array) -> pyarrow.Array:
    """Convert seconds to milliseconds, the widest unit of Parquet."""
    import pyarrow as pa

    try:
        return _finite_instants(array).cast(pa.timestamp("ms"))
    except pa.ArrowInvalid:
        raise _Unfit("a time outside its range of milliseconds") from None


def _hugeints(array: pyarrow.Array) -> pyarrow.Array:
    """Check 128-bit numbers, which DuckDB returns as decimals of 38 digits, even if they have more."""
    import numpy as np
    import pyarrow as pa

    words: Any = np.frombuffer(array.buffers()[1], "<i8", 2 * len(array)) if len(array) else np.zeros(0, "i8")
    high = words[1::2]
    if ((high >= _DECIMAL_HIGH_WORD) | (high <= -_DECIMAL_HIGH_WORD)).any():
        for value in array.to_pylist():
            if value is not None and value.copy_abs() >= 10**_DECIMAL_DIGITS:
                raise _Unfit(f"a number of more than {_DECIMAL_DIGITS} digits, {value:f}")
    assert pa.types.is_decimal(array.type)
    return array


def _decimals(array: pyarrow.Array) -> pyarrow.Array:
    """Convert texts of digits to decimals."""
    import pyarrow as pa
    import pyarrow.compute as pc

    longest = pc.max(pc.utf8_length(array)).as_py()
    if longest is not None and longest > _DECIMAL_DIGITS:
        text = next(text for text in array.to_pylist() if text is not None and len(text) > _DECIMAL_DIGITS)
        raise _Unfit(f"a number of more than {_DECIMAL_DIGITS} digits, {text}")
    return array.cast(pa.decimal128(_DECIMAL_DIGITS, 0))


def _intervals(array: pyarrow.Array) -> pyarrow.Array:
    import pyarrow as pa

    found = [None if text is None else _interval_parts(text) for text in array.to_pylist()]
    for one in found:
        if one is not None and abs(one[2]) * 1000 > _MAX_NANOSECONDS:
            raise _Unfit(f"an interval of more than {_MAX_NANOSECONDS} nanoseconds")
    made = [None if one is None else pa.MonthDayNano([one[0], one[1], one[2] * 1000]) for one in found]
    return pa.array(made, pa.month_day_nano_interval())


def _interval_texts(array: pyarrow.Array) -> pyarrow.Array:
    import pyarrow as pa

    return pa.array([None if text is None else _interval_text(text) for text in array.to_pylist()], pa.string())


_PLAIN = ResultType(_as_is)
RESULT_TYPES: dict[str, ResultType] = {
    "boolean": _PLAIN,
    "tinyint": _PLAIN,
    "smallint": _PLAIN,
    "integer": _PLAIN,
    "bigint": _PLAIN,
    "utinyint": _PLAIN,
    "usmallint": _PLAIN,
    "uinteger": _PLAIN,
    "ubigint": _PLAIN,
    "hugeint": ResultType(_make_cells(_digits), convert=_hugeints),
    # Arrow's decimals of 128 bits are signed, so the largest of these numbers do not fit.
    "uhugeint": ResultType(_make_cells(_number_text), "VARCHAR", _decimals),
    "bignum": ResultType(_make_cells(_number_text), "VARCHAR"),
    "float": ResultType(_doubles),
    "double": ResultType(_doubles),
    "decimal": ResultType(_make_cells(_digits)),
    "date": ResultType(_make_time_cells(_date_text, 32), convert=_finite_dates),
    "time": ResultType(_make_time_cells(_time_text(6), 64), convert=_refuse_values(64, _DAY_SECONDS * 10**6)),
    "time_ns": ResultType(_make_time_cells(_time_text(9), 64), convert=_refuse_values(64, _DAY_SECONDS * 10**9)),
    # Arrow's times have no offset.
    "time with time zone": ResultType(_as_is, "VARCHAR"),
    "timestamp": ResultType(_make_time_cells(_instant_text(6, ""), 64), convert=_finite_instants),
    "timestamp_s": ResultType(
        _make_time_cells(_instant_text(0, ""), 64), convert=_finite_instants, convert_parquet=_milliseconds
    ),
    "timestamp_ms": ResultType(_make_time_cells(_instant_text(3, ""), 64), convert=_finite_instants),
    "timestamp_ns": ResultType(_make_time_cells(_instant_text(9, ""), 64), convert=_finite_instants),
    "timestamp with time zone": ResultType(_make_time_cells(_instant_text(6, "+00"), 64), convert=_finite_instants),
    "timestamptz_ns": ResultType(_make_time_cells(_instant_text(9, "+00"), 64), convert=_finite_instants),
    # Arrow's intervals count nanoseconds, in which large intervals of DuckDB silently overflow.
    "interval": ResultType(_make_cells(_interval_text), "VARCHAR", _intervals, _interval_texts),
    "varchar": _PLAIN,
    "uuid": _PLAIN,
    "enum": _PLAIN,
    "blob": ResultType(_make_cells(_base64)),
    "bit": ResultType(_as_is, "VARCHAR"),
    "geometry": ResultType(_as_is, "VARCHAR"),
    "variant": ResultType(_as_is, "JSON"),
    "null": _PLAIN,
}
"""The conversion of each DuckDB type, by its id. Nested types are in :data:`NESTED_CELLS`."""
