"""Arrow arrays of every type, with what messages of JSON are to have for each value: written by hand, or computed by
plain Python that knows nothing of the code under test."""

from __future__ import annotations

import base64
import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from typing import Any
from uuid import UUID

import pyarrow as pa

NULL = None
JSON_NULL = object()
"""Of a member that is there, and null."""


@dataclass(frozen=True)
class Refused:
    """Of a row that is refused; ``words`` are in the reason."""

    words: str = ""


@dataclass(frozen=True)
class Number:
    """A number with these very digits."""

    text: str


@dataclass
class Sample:
    """An array and what its values are to be; ``binary``: in msgpack and bson, where that differs."""

    name: str
    array: pa.Array
    expected: list[Any]
    binary: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        assert len(self.array) == len(self.expected)
        self.binary = self.binary or self.expected


def raw(numbers: list[int | None], kind: pa.DataType) -> pa.Array:
    """An array of a type that is stored as whole numbers, of any numbers."""
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array(numbers, width).view(kind)


YEARS = Refused("outside the years 1 to 9999")
DAY = 86_400
FIRST, LAST = -62_135_596_800, 253_402_300_799
"""Seconds since 1970 of the first and the last second of the years 1 to 9999."""
LEAST, MOST = -(2**63), 2**63 - 1


def integers() -> Iterator[Sample]:
    for bits in (8, 16, 32, 64):
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        values = [low, 0, NULL, high]
        yield Sample(f"int{bits}", pa.array(values, f"int{bits}"), values)
        values = [0, NULL, 2**bits - 1]
        yield Sample(f"uint{bits}", pa.array(values, f"uint{bits}"), values)


def floats() -> Iterator[Sample]:
    odd = [float("nan"), float("inf"), float("-inf"), NULL]
    named = ["NaN", "Infinity", "-Infinity", NULL]
    doubles = [0.1, -0.0, 5e-324, 1.7976931348623157e308, 1e16, 123456789.125]
    yield Sample("float64", pa.array(doubles + odd, pa.float64()), doubles + named)
    shorts = [0.1, 16777216.0, 3.4028235e38, 1e-45, -0.0, 0.3333333432674408, 123456792.0]
    texts = [0.1, 16777216.0, 3.4028235e38, 1e-45, -0.0, 0.33333334, 123456790.0]
    yield Sample("float32", pa.array(shorts + odd, pa.float32()), texts + named)
    halves = [65504.0, 0.0999755859375, 5.960464477539063e-08, -2.0]
    yield Sample("float16", pa.array(halves + odd, pa.float16()), halves + named)


def unscaled(numbers: list[int], kind: pa.DataType) -> pa.Array:
    """Decimals by what they are stored as, and a NULL at the end."""
    data = b"".join(one.to_bytes(kind.byte_width, "little", signed=True) for one in [*numbers, 0])
    valid = pa.array([True] * len(numbers) + [False]).buffers()[1]
    return pa.Array.from_buffers(kind, len(numbers) + 1, [valid, pa.py_buffer(data)])


def decimals() -> Iterator[Sample]:
    for bits, precision in ((32, 9), (64, 18), (128, 38), (256, 76)):
        make = getattr(pa, f"decimal{bits}")
        most = 10**precision - 1
        nines = "9" * precision
        for scale, numbers in (
            (0, {most: nines, -most: "-" + nines, 0: "0"}),
            (2, {most: f"{nines[:-2]}.99", -most: f"-{nines[:-2]}.99", 1: "0.01", 0: "0.00", 150: "1.50"}),
            (precision, {most: "0." + nines, -most: "-0." + nines, 0: "0." + "0" * precision}),
            (-5, {most: nines + "00000", -1: "-100000", 0: "0"}),
        ):
            array = unscaled(list(numbers), make(precision, scale))
            binary = [held(text) for text in numbers.values()]
            yield Sample(f"decimal{bits}({scale})", array, [*map(Number, numbers.values()), NULL], [*binary, NULL])
    far = unscaled([10**9, 0, 1], pa.decimal128(38, -400))
    wide = [Refused("number"), Number("0"), Number("1" + "0" * 400), NULL]
    yield Sample("decimal far", far, wide, [wide[0], 0, "1" + "0" * 400, NULL])
    # Beyond the precision of its type, as DuckDB writes the largest hugeint.
    over = unscaled([10**38, 10**38 - 1, -(10**38)], pa.decimal128(38, 0))
    more = Refused("more digits")
    yield Sample("decimal wide", over, [more, Number("9" * 38), more, NULL], [more, "9" * 38, more, NULL])


def held(text: str, integer_limit: int = 2**64) -> Any:
    """A number as the binary formats have it: 64 bits or a double where these hold it, else its digits."""
    value = Fraction(text)
    if value.denominator == 1 and -(2**63) <= value < integer_limit:
        return int(value)
    return float(text) if Fraction(repr(float(text))) == value else text


def texts() -> Iterator[Sample]:
    values = ["", "a", "Zoë \u20ac \U0001f600", 'x"\\\n\0', NULL]
    for name in ("string", "large_string", "string_view"):
        yield Sample(name, pa.array(values, getattr(pa, name)()), values)
    data = [b"", b"a", b"\x00\xff\x80", NULL]
    coded = [base64.b64encode(one).decode() for one in data[:3]]
    for name in ("binary", "large_binary", "binary_view"):
        yield Sample(name, pa.array(data, getattr(pa, name)()), [*coded, NULL], data)
    fixed = [b"\x00\xff", b"ab", NULL]
    yield Sample("fixed_size_binary", pa.array(fixed, pa.binary(2)), ["AP8=", "YWI=", NULL], fixed)


def dates() -> Iterator[Sample]:
    days = [0, FIRST // DAY, LAST // DAY, 19_723, NULL, FIRST // DAY - 1, LAST // DAY + 1, 2**31 - 1, -(2**31)]
    expected = ["1970-01-01", "0001-01-01", "9999-12-31", "2024-01-01", NULL, YEARS, YEARS, YEARS, YEARS]
    yield Sample("date32", raw(days, pa.date32()), expected)
    whole = [NULL if one is NULL else one * DAY * 1000 for one in days[:7]]
    yield Sample("date64", raw([*whole, 1, MOST], pa.date64()), [*expected[:7], Refused("time of day"), YEARS])


def instants() -> Iterator[Sample]:
    units = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    for unit, per_second in units.items():
        for zone in (None, "UTC", "Europe/Berlin", "+05:30", "Mars/Phobos"):
            numbers: list[Any] = [0, -1, 1_700_000_000 * per_second + 1, NULL]
            ends = {"s": ".000000Z", "ms": ".999000Z", "us": ".999999Z", "ns": ".999999999Z"}
            last = "1969-12-31T23:59:59" + ends[unit]
            one = {"s": "21.000000", "ms": "20.001000", "us": "20.000001", "ns": "20.000000001"}[unit]
            expected: list[Any] = ["1970-01-01T00:00:00.000000Z", last, f"2023-11-14T22:13:{one}Z", NULL]
            if unit == "ns":
                numbers += [LEAST, MOST, 1_640_642_400_123_456_789, 1_640_642_400_123_456_000]
                expected += ["1677-09-21T00:12:43.145224192Z", "2262-04-11T23:47:16.854775807Z"]
                expected += ["2021-12-27T22:00:00.123456789Z", "2021-12-27T22:00:00.123456Z"]
            else:
                edge = (LAST + 1) * per_second
                numbers += [FIRST * per_second, edge - 1, FIRST * per_second - 1, edge, LEAST, MOST]
                fraction = {"s": ".000000", "ms": ".999000", "us": ".999999"}[unit]
                expected += ["0001-01-01T00:00:00.000000Z", f"9999-12-31T23:59:59{fraction}Z", *[YEARS] * 4]
            yield Sample(f"timestamp[{unit}, {zone}]", raw(numbers, pa.timestamp(unit, zone)), expected)


def times() -> Iterator[Sample]:
    no_time = Refused("no time of a day")
    seconds = [0, 86_399, 86_400, NULL, 45_296, 86_401, -1]
    expected: list[Any] = ["00:00:00", "23:59:59", "24:00:00", NULL, "12:34:56", no_time, no_time]
    yield Sample("time32[s]", raw(seconds, pa.time32("s")), expected)
    for unit, width in (("ms", pa.time32), ("us", pa.time64), ("ns", pa.time64)):
        per_second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
        numbers: list[Any] = [NULL if one is NULL else one * per_second for one in seconds]
        one = {"ms": ".001000", "us": ".000001", "ns": ".000000001"}[unit]
        last = {"ms": ".999000", "us": ".999999", "ns": ".999999999"}[unit]
        numbers += [45_296 * per_second + 1, 86_400 * per_second - 1, 86_400 * per_second + 1]
        more = [f"12:34:56{one}", f"23:59:59{last}", no_time]
        yield Sample(f"time[{unit}]", raw(numbers, width(unit)), expected + more)
    yield Sample("time64[ns] us", raw([123_456_000], pa.time64("ns")), ["00:00:00.123456"])


def durations() -> Iterator[Sample]:
    for unit, digits in (("s", 0), ("ms", 3), ("us", 6), ("ns", 9)):
        per_second = 10**digits
        numbers = [0, 1, -1, NULL, 90_000 * per_second, MOST, LEAST]
        expected: list[Any] = [NULL if one is NULL else Number(in_units(one, digits)) for one in numbers]
        yield Sample(f"duration[{unit}]", raw(numbers, pa.duration(unit)), expected)


def in_units(number: int, digits: int) -> str:
    """A whole number of a unit with so many digits of a second, as seconds without zeros at the end."""
    text = str(abs(number)).rjust(digits + 1, "0")
    cut = len(text) - digits
    fraction = text[cut:].rstrip("0")
    return ("-" if number < 0 else "") + text[:cut] + ("." + fraction if fraction else "")


def intervals() -> Iterator[Sample]:
    values = [(14, 3, -500_000_000), (0, 0, 0), (-1, 0, 0), NULL, (2**31 - 1, -(2**31), MOST), (0, 0, 1)]
    expected = ["P14M3DT-0.5S", "PT0S", "P-1M", NULL]
    expected += ["P2147483647M-2147483648DT9223372036.854775807S", "PT0.000000001S"]
    array = pa.array([one if one is None else pa.MonthDayNano(one) for one in values], pa.month_day_nano_interval())
    yield Sample("interval", array, expected)


class _Schema(ctypes.Structure):
    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_char_p),
        ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("private_data", ctypes.c_void_p),
    )


def foreign_type(code: bytes) -> pa.DataType:
    """A type that Arrow has and pyarrow has no function for, by its code in Arrow's C data interface."""

    def release(address: int) -> None:
        ctypes.cast(address, ctypes.POINTER(_Schema)).contents.release = type(schema.release)()

    schema = _Schema(code, b"", None, 2, 0, None, None, _Schema._fields_[7][1](release), None)
    return pa.DataType._import_from_c(ctypes.addressof(schema))


def nested() -> Iterator[Sample]:
    struct = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
    values = [{"a": 1, "b": ["x", None]}, {"a": None, "b": []}, None, {"a": None, "b": None}]
    yield Sample("struct", pa.array(values, struct), [{"a": 1, "b": ["x", None]}, {"b": []}, NULL, {}])
    yield Sample("empty struct", pa.array([{}, None], pa.struct([])), [{}, NULL])
    lists = [[1, None], [], None, [3]]
    for make in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view):
        yield Sample(str(make(pa.int8())), pa.array(lists, make(pa.int8())), lists)
    # Views may overlap and stand in any order, and what a NULL refers to counts for nothing.
    items = raw([1, LEAST, 3, 4], pa.timestamp("s"))
    views = pa.ListViewArray.from_arrays([2, 2, 1, 0], [2, 1, 1, 2], items, mask=pa.array([False, False, True, False]))
    at = ["1970-01-01T00:00:03.000000Z", "1970-01-01T00:00:04.000000Z"]
    yield Sample("overlapping views", views, [at, at[:1], NULL, Refused("[1]: ")])
    fixed = [[1, None], None, [3, 4]]
    yield Sample("fixed_size_list", pa.array(fixed, pa.list_(pa.int8(), 2)), fixed)
    yield Sample("fixed_size_list of none", pa.array([[], None], pa.list_(pa.int8(), 0)), [[], NULL])
    hidden = pa.FixedSizeListArray.from_arrays(raw([LEAST, 5], pa.timestamp("s")), 1, mask=pa.array([True, False]))
    yield Sample("hidden", hidden, [NULL, ["1970-01-01T00:00:05.000000Z"]])
    maps = pa.array([[("a", 1), ("b", None)], [], None, [("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int8()))
    yield Sample("map", maps, [{"a": 1}, {}, NULL, Refused("'k'")])


def keys() -> Iterator[Sample]:
    """Maps with keys of every kind."""
    cases: list[tuple[pa.Array, list[Any]]] = [
        (pa.array([True, False]), ["true", "false"]),
        (pa.array([LEAST, MOST]), [str(LEAST), str(MOST)]),
        (pa.array([0.1, float("nan"), float("inf")], pa.float32()), ["0.1", "NaN", "Infinity"]),
        (pa.array([Decimal("1.50")], pa.decimal128(5, 2)), ["1.50"]),
        (pa.array([b"\xff", b""]), ["/w==", ""]),
        (raw([1, LEAST], pa.timestamp("ns")), ["1970-01-01T00:00:00.000000001Z", "1677-09-21T00:12:43.145224192Z"]),
        (raw([MOST], pa.timestamp("s")), [YEARS]),
        (raw([LAST // DAY + 1], pa.date32()), [YEARS]),
        (raw([1500], pa.duration("ms")), ["1.5"]),
        (pa.array(["x", "y", "x"]).dictionary_encode().slice(0, 2), ["x", "y"]),
        (pa.array([[1]]), [Refused("be a name")]),
        (pa.array([{"a": 1}]), [Refused("be a name")]),
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())), [Refused("be a name")]),
        (pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array([[1]])), [Refused("be a name")]),
    ]
    for names, expected in cases:
        count = len(expected)
        array = pa.MapArray.from_arrays(list(range(count + 1)), names.slice(0, count), pa.array(range(count)))
        found = [one if isinstance(one, Refused) else {one: place} for place, one in enumerate(expected)]
        yield Sample(f"map of {names.type}", array, found)


def encoded() -> Iterator[Sample]:
    words = pa.DictionaryArray.from_arrays(pa.array([1, NULL, 0, 2, 1]), pa.array(["a", "b", NULL]))
    yield Sample("dictionary", words, ["b", NULL, "a", NULL, "b"])
    lists = pa.array([[1, 2], NULL, []])
    yield Sample("dictionary of lists", pa.DictionaryArray.from_arrays(pa.array([2, 0, 1]), lists), [[], [1, 2], NULL])
    structs = pa.array([{"a": 1}])
    yield Sample(
        "dictionary of structs", pa.DictionaryArray.from_arrays(pa.array([0, NULL]), structs), [{"a": 1}, NULL]
    )
    # A dictionary that is larger than what refers to it, with values that no message can hold.
    large = raw([MOST if place % 2 else place for place in range(50)], pa.timestamp("s"))
    places = pa.DictionaryArray.from_arrays(pa.array([48, 2, 2, 3, NULL]), large)
    at = ["1970-01-01T00:00:48.000000Z", *["1970-01-01T00:00:02.000000Z"] * 2]
    yield Sample("dictionary of times", places, [*at, YEARS, NULL])
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 7], pa.int16()), pa.array(["a", NULL, "c"]))
    yield Sample("run_end_encoded", runs, ["a", "a", NULL, "c", "c", "c", "c"])
    yield Sample("run_end_encoded, a part", runs.slice(1, 3), ["a", NULL, "c"])
    bad = pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int64()), raw([1, 2**31 - 1], pa.date32()))
    yield Sample("run_end_encoded of dates", bad, ["1970-01-02", YEARS, YEARS])


def unions() -> Iterator[Sample]:
    codes = pa.array([5, 7, 5, 7, 7], pa.int8())
    numbers, names = pa.array([1, NULL]), pa.array(["x", NULL, "z"])
    dense = pa.UnionArray.from_dense(codes, pa.array([0, 0, 1, 1, 2], pa.int32()), [numbers, names], ["n", "t"], [5, 7])
    yield Sample("dense union", dense, [1, "x", NULL, NULL, "z"])
    yield Sample("dense union, a part", dense.slice(3), [NULL, "z"])
    at = raw([0, MOST, MOST, 0, 0], pa.timestamp("s"))
    names = pa.array(["-", "x", "-", NULL, "z"])
    sparse = pa.UnionArray.from_sparse(codes, [at, names], ["t", "t"], [5, 7])
    yield Sample("sparse union", sparse, ["1970-01-01T00:00:00.000000Z", "x", YEARS, NULL, "z"])
    yield Sample("sparse union, a part", sparse.slice(1, 2), ["x", YEARS])


class Degrees(pa.ExtensionType):
    """A type of somebody else's."""

    def __init__(self) -> None:
        super().__init__(pa.float64(), "test.degrees")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Degrees:
        return cls()


def extensions() -> Iterator[Sample]:
    one = UUID("6f1e7c52-0b0e-4c0a-9d3e-3f7a5c1b2d4e")
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([one.bytes, NULL, bytes(16)], pa.binary(16)))
    yield Sample("uuid", uuids, [str(one), NULL, "00000000-0000-0000-0000-000000000000"])
    texts = ['{"a": [1.50, null]}', "null", "1e400", "{", NULL]
    jsons = pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts))
    known = [{"a": [Number("1.50"), None]}, JSON_NULL, Number("1e400"), Refused("JSON"), NULL]
    yield Sample("json", jsons, known, texts)
    truths = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1, -7, NULL], pa.int8()))
    yield Sample("bool8", truths, [False, True, True, NULL])
    opaque = pa.ExtensionArray.from_storage(pa.opaque(pa.int32(), "point", "somebody"), pa.array([1, NULL], pa.int32()))
    yield Sample("opaque", opaque, [1, NULL])
    cells = pa.array([[0, 1, 2, 3, 4, 5], NULL], pa.list_(pa.int8(), 6))
    tensors = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int8(), [2, 3]), cells)
    yield Sample("tensor", tensors, [[[0, 1, 2], [3, 4, 5]], NULL])
    turned = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int8(), [2, 3], permutation=[1, 0]), cells)
    yield Sample("tensor turned", turned, [[[0, 3], [1, 4], [2, 5]], NULL])
    degrees = pa.ExtensionArray.from_storage(Degrees(), pa.array([1.5, float("nan"), NULL]))
    yield Sample("extension of somebody", degrees, [1.5, "NaN", NULL])


def samples() -> list[Sample]:
    """All of them."""
    first = [
        Sample("null", pa.nulls(2), [NULL, NULL]),
        Sample("bool", pa.array([True, False, NULL]), [True, False, NULL]),
    ]
    kinds = (integers, floats, decimals, texts, dates, instants, times, durations, intervals)
    more = (nested, keys, encoded, unions, extensions)
    return first + list(chain.from_iterable(make() for make in kinds + more))
