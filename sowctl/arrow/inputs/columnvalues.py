"""Values of Arrow columns as members of messages: the table of types of sowctl-types(7), FROM TYPED TABLES TO MESSAGES.

:data:`TYPE_RULES`, :data:`EXTENSION_RULES` and :data:`PARQUET_RULES` define for each type the form of its values; the
page has the same rows. A rule builds a :data:`ColumnReader`, which reads a whole array: the value of each row, None for
NULL, and the rows whose value messages cannot represent. Values are never converted to Python's dates, so neither
digits nor years are lost. A row is refused only for its own values: bytes under a NULL are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from msgspec import Struct

from sowctl.arrow.inputs.rows import MAX_EXPONENT, parse_json
from sowctl.arrow.jsoncolumns import format_non_finite
from sowctl.arrow.message_encoder import format_interval
from sowctl.errors import InputError
from sowctl.messages.native_values import JSON_FORM, Form, convert_untyped, format_name
from sowctl.structs import DescribedStruct
from sowctl.values.depth import MAX_DEPTH

if TYPE_CHECKING:
    import numpy
    import pyarrow

    Numbers: TypeAlias = numpy.ndarray[Any, Any]

SECONDS_PER_DAY = 86_400
_UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_FRACTION_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""Of the years 1 to 9999, in seconds since 1970."""
_FIRST_DAY, _LAST_DAY = _FIRST_SECOND // SECONDS_PER_DAY, _LAST_SECOND // SECONDS_PER_DAY
_YEAR_PROBLEM = "lies outside the years 1 to 9999 (a column cast to text may hold it)"


class RefusedValue(Struct, frozen=True):
    """The reason why messages cannot represent a value; ``path`` leads from the column to it, such as ``/legs[2]``."""

    why: str
    path: str = ""


RefusedRows: TypeAlias = dict[int, RefusedValue]
"""By row of the array, the first value in it that messages cannot represent."""
ColumnReader: TypeAlias = "Callable[[pyarrow.Array], tuple[list[Any], RefusedRows]]"


class ReaderContext(Struct):
    """State of a schema's readers: ``form``, JSON or not, reader of Spark's VARIANT, Parquet's leaf types in order."""

    form: Form
    json: bool
    variant: Callable[[bytes, bytes], Any] | None = None
    leaves: Iterator[str | None] = iter(())
    depth: int = 0


ReaderMaker: TypeAlias = "Callable[[pyarrow.DataType, ReaderContext], ColumnReader]"


class TypeRule(DescribedStruct, frozen=True):
    """The row of sowctl-types(7) for the values of a type, and the function that builds the reader of its columns."""

    page: str
    becomes: str
    reader: ReaderMaker


def build_value_reader(field: pyarrow.Field, context: ReaderContext) -> ColumnReader:
    """The reader of a column, or of a nested one.

    Raises InputError ``SOW-EXC-012`` for columns that are nested too deeply, and for a type without a rule.
    """
    import pyarrow as pa

    kind = field.type
    if context.depth > MAX_DEPTH:
        raise InputError("SOW-EXC-012", f"its columns have more than {MAX_DEPTH} types within each other")
    if context.variant is not None and pa.types.is_struct(kind) and _is_variant(kind):
        return _variant_reader(context)
    rule: TypeRule | None
    if isinstance(kind, pa.BaseExtensionType):
        rule = EXTENSION_RULES.get(kind.extension_name, _DEFAULT_EXTENSION_RULE)
        if rule.reader not in (_storage_reader, _tensor_reader):
            next(context.leaves, None)
    else:
        leaf = None if kind.num_fields or pa.types.is_dictionary(kind) else next(context.leaves, None)
        rule = PARQUET_RULES.get(leaf or "") or _number_rules().get(kind.id)
    if rule is None:
        raise InputError("SOW-EXC-012", f"column {field.name} has the unsupported type {kind}")
    context.depth += 1
    read = rule.reader(kind, context)
    context.depth -= 1
    # Without rows an array may lack the buffers of its type.
    return lambda array: read(array) if len(array) else ([], {})


def build_name_reader(field: pyarrow.Field, context: ReaderContext) -> ColumnReader:
    """The reader of a column whose values are names: members of maps, or keys. Raises as :func:`build_value_reader`."""
    # A name is a text in every format.
    form = Form(JSON_FORM.binary, JSON_FORM.decimal, format_non_finite)
    inner = build_value_reader(field, ReaderContext(form, True, leaves=context.leaves, depth=context.depth))

    def read(array: pyarrow.Array) -> tuple[list[Any], RefusedRows]:
        values, refused = inner(array)
        for row, value in enumerate(values):
            if isinstance(value, list | dict):
                refused = refused | {row: RefusedValue("a list, a struct or a map cannot be a name")}
            elif value is not None and row not in refused:
                values[row] = format_name(value)
        return values, refused

    return read


def find_repeated_name(fields: Iterable[pyarrow.Field], within: str = "") -> str | None:
    """Describe the first column or field of a struct that has the same name as a sibling; None if there is none."""
    import pyarrow as pa

    names: set[str] = set()
    for field in fields:
        if field.name in names:
            place = f"its column {within}" if within else "the file"
            return f"{place} has {'field' if within else 'column'} {field.name!r} twice"
        names.add(field.name)
        kind = find_inner_type(field.type)
        inner = [kind.field(place) for place in range(kind.num_fields)]
        name = f"{within}/{field.name}" if within else field.name
        if pa.types.is_struct(kind):
            found = find_repeated_name(inner, name)
        else:
            # The parts of a list, a map or a union are identified by their positions.
            found = next(filter(None, (find_repeated_name([one], name) for one in inner)), None)
        if found is not None:
            return found
    return None


def find_inner_type(kind: pyarrow.DataType) -> pyarrow.DataType:
    """The type of the values of a column, without encodings and extension types."""
    import pyarrow as pa

    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        else:
            return kind


def is_nested(kind: pyarrow.DataType) -> bool:
    """True if the values of a type contain values."""
    return bool(find_inner_type(kind).num_fields)


def is_text(kind: pyarrow.DataType) -> bool:
    """True if the values of a type are texts or bytes."""
    rule = _number_rules().get(find_inner_type(kind).id)
    return rule is not None and rule.reader in (_text_reader, _bytes_reader)


def group_leaves(schema: pyarrow.Schema, leaves: Sequence[str | None]) -> dict[str, Sequence[str | None]]:
    """The logical types of Parquet's leaf columns, by the column that contains them."""
    rest = iter(leaves)
    return {field.name: list(islice(rest, _leaf_count(field.type))) for field in schema}


def _leaf_count(kind: pyarrow.DataType) -> int:
    kind = find_inner_type(kind)
    return sum(_leaf_count(kind.field(place).type) for place in range(kind.num_fields)) if kind.num_fields else 1


# --- Shared by all readers


def _null_rows(array: pyarrow.Array) -> list[int]:
    import numpy as np

    if not array.null_count:
        return []
    return np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist()


def _blank_rows(values: list[Any], rows: Iterable[int]) -> list[Any]:
    for row in rows:
        values[row] = None
    return values


def _read_integers(array: pyarrow.Array, width: int = 64) -> Numbers:
    """The values of an array of integers, or of a type stored as integers; 0 for NULL."""
    import pyarrow as pa

    numbers = array if pa.types.is_integer(array.type) else array.view(pa.int32() if width == 32 else pa.int64())
    return (numbers.fill_null(0) if numbers.null_count else numbers).to_numpy()  # type: ignore[no-any-return]


def _refuse_rows(rows: Numbers, nulls: Sequence[int], why: Callable[[int], str]) -> RefusedRows:
    """The refused rows among those where ``rows`` is true and no value is NULL."""
    import numpy as np

    found = set(np.flatnonzero(rows).tolist()) - set(nulls)
    return {row: RefusedValue(why(row)) for row in sorted(found)}


def _spread_refused(
    refused: RefusedRows, spans: Sequence[tuple[int, int]], nulls: Sequence[int], path: str
) -> RefusedRows:
    """The refused rows of a list whose items are the rows of ``refused``; ``spans`` are their starts and ends."""
    if not refused:
        return {}
    found: RefusedRows = {}
    skipped = set(nulls)
    for row, (start, end) in enumerate(spans):
        bad = () if row in skipped else (item for item in range(start, end) if item in refused)
        for item in bad:
            place = path or f"[{item - start}]"
            found[row] = RefusedValue(refused[item].why, place + refused[item].path)
            break
    return found


# --- Single values


def _null_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    return lambda array: ([None] * len(array), {})


def _integer_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    return lambda array: (_blank_rows(_read_integers(array).tolist(), _null_rows(array)), {})


def _boolean_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    def read(array: pyarrow.Array) -> tuple[list[Any], RefusedRows]:
        filled = array.fill_null(False) if array.null_count else array
        return _blank_rows(filled.to_numpy(zero_copy_only=False).tolist(), _null_rows(array)), {}

    return read


def _text_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    return lambda array: (array.to_numpy(zero_copy_only=False).tolist(), {})


def _bytes_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    binary = context.form.binary

    def read(array: pyarrow.Array) -> tuple[list[Any], RefusedRows]:
        values = array.to_numpy(zero_copy_only=False).tolist()
        return [None if value is None else binary(value) for value in values], {}

    return read


def _double_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    import pyarrow as pa

    odd = context.form.odd
    is_short = pa.types.is_float32(kind)

    def read(array: pyarrow.Array) -> tuple[list[Any], RefusedRows]:
        import numpy as np

        if is_short:
            # Through its shortest text a 32-bit number becomes 0.1 and not 0.10000000149011612.
            array = array.cast(pa.string()).cast(pa.float64())
        numbers = array.to_numpy(zero_copy_only=False)
        values = numbers.tolist()
        finite = np.isfinite(numbers)
        if not finite.all():
            for row in np.flatnonzero(~finite).tolist():
                values[row] = odd(values[row])
        return _blank_rows(values, _null_rows(array)), {}

    return read


def _decimal_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    import pyarrow as pa

    write = context.form.decimal
    scale = kind.scale
    bound = 10**kind.precision
    is_far = max(scale, kind.precision - scale) > MAX_EXPONENT

    def read(array: pyarrow.Array) -> tuple[list[Any], RefusedRows]:
        values = array.view(pa.binary(kind.byte_width)).to_numpy(zero_copy_only=False).tolist()
        refused: RefusedRows = {}
        for row, data in enumerate(values):
            if data is None:
                continue
            number = int.from_bytes(data, "little", signed=True)
            # Built from a text, a Decimal has all digits, whatever the precision of the context.
            value = Decimal(f"{number}E{-scale}")
            if not -bound < number < bound:
                refused[row] = RefusedValue(f"{value} has more digits than the {kind.precision} of its column")
            elif is_far and number and abs(value.adjusted()) > MAX_EXPONENT:
                refused[row] = RefusedValue(f"{value} is not a number that a message can have")
            else:
                values[row] = write(value)
        return values, refused

    return read


# --- Times


def _date_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    import pyarrow as pa

    is_short = pa.types.is_date32(kind)

    def read(array: pyarrow.Array) -> tuple[list[Any], RefusedRows]:
        import numpy as np

        nulls = _null_rows(array)
        numbers = _read_integers(array, 32 if is_short else 64).astype("i8")
        days, rest = (numbers, np.zeros_like(numbers)) if is_short else np.divmod(numbers, SECONDS_PER_DAY * 1000)
        outside = (days < _FIRST_DAY) | (days > _LAST_DAY)
        refused = _refuse_rows(rest != 0, nulls, lambda row: "a date with a time of day (a timestamp may hold it)")
        refused |= _refuse_rows(outside, nulls, lambda row: f"{_date_text(int(days[row]))} {_YEAR_PROBLEM}")
        texts = np.datetime_as_string(np.where(outside, 0, days).astype("M8[D]")).tolist()
        return _blank_rows(texts, nulls), refused

    return read


def _timestamp_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    def read(array: pyarrow.Array) -> tuple[list[Any], RefusedRows]:
        import numpy as np

        # 96-bit timestamps of Parquet have the unit that fits those of a batch.
        units, digits = _UNITS_PER_SECOND[array.type.unit], _FRACTION_DIGITS[array.type.unit]
        nulls = _null_rows(array)
        # Whatever its zone, known or not, a timestamp is stored as an instant in UTC.
        seconds, fractions = np.divmod(_read_integers(array), units)
        outside = (seconds < _FIRST_SECOND) | (seconds > _LAST_SECOND)
        refused = _refuse_rows(outside, nulls, lambda row: f"{_second_text(int(seconds[row]))} {_YEAR_PROBLEM}")
        texts = np.datetime_as_string(np.where(outside, 0, seconds).astype("M8[s]")).tolist()
        found = [f"{at}.{rest}Z" for at, rest in zip(texts, _format_fractions(fractions, digits), strict=True)]
        return _blank_rows(found, nulls), refused

    return read


def _format_fractions(fractions: Numbers, digits: int) -> list[str]:
    """Fractions of a second with ``digits`` digits, as six digits; as nine unless the last three are all zero."""
    if digits <= 6:
        return [f"{one:06}" for one in (fractions * 10 ** (6 - digits)).tolist()]
    return [f"{one:09}" if one % 1000 else f"{one // 1000:06}" for one in fractions.tolist()]


def _time_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    units = _UNITS_PER_SECOND[kind.unit]
    digits = _FRACTION_DIGITS[kind.unit]

    def read(array: pyarrow.Array) -> tuple[list[Any], RefusedRows]:
        import numpy as np

        nulls = _null_rows(array)
        numbers = _read_integers(array, kind.bit_width)
        # 24:00:00 is the end of a day, as in DuckDB.
        outside = (numbers < 0) | (numbers > SECONDS_PER_DAY * units)
        words = "is no time of a day"
        refused = _refuse_rows(outside, nulls, lambda row: f"{numbers[row]} {kind.unit} since midnight {words}")
        seconds, fractions = np.divmod(np.where(outside, 0, numbers).astype("i8"), units)
        minutes, seconds = np.divmod(seconds, 60)
        parts = zip(
            (minutes // 60).tolist(),
            (minutes % 60).tolist(),
            seconds.tolist(),
            fractions.tolist(),
            _format_fractions(fractions, digits),
            strict=True,
        )
        found = [
            f"{hour:02}:{minute:02}:{second:02}.{digits}" if rest else f"{hour:02}:{minute:02}:{second:02}"
            for hour, minute, second, rest, digits in parts
        ]
        return _blank_rows(found, nulls), refused

    return read


def _duration_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    write = context.form.decimal
    digits = _FRACTION_DIGITS[kind.unit]

    def seconds(number: int) -> Any:
        # Without trailing zeros in the fraction; 64 bits have fewer digits than Decimal preserves.
        found = Decimal(number).scaleb(-digits)
        whole = found.to_integral_value()
        return write(whole if whole == found else found.normalize())

    return lambda array: (
        _blank_rows(list(map(seconds, _read_integers(array).tolist())), _null_rows(array)),
        {},
    )


def _interval_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    return lambda array: ([None if value is None else format_interval(value) for value in array.to_pylist()], {})


def _unsupported_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    raise InputError("SOW-EXC-012", f"a column has the type {kind}, which pyarrow does not support")


def _parquet_interval_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    def text(value: bytes) -> str:
        months, days, milliseconds = (int.from_bytes(value[at : at + 4], "little") for at in (0, 4, 8))
        return format_interval((months, days, milliseconds * 1_000_000))

    return lambda array: ([None if value is None else text(value) for value in array.to_pylist()], {})


def _parquet_text_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    def read(array: pyarrow.Array) -> tuple[list[Any], RefusedRows]:
        values = array.to_pylist()
        refused: RefusedRows = {}
        for row, value in enumerate(values):
            if isinstance(value, bytes):
                try:
                    values[row] = value.decode()
                except UnicodeDecodeError:
                    refused[row] = RefusedValue("it is not UTF-8")
        return values, refused

    return read


def _date_text(days: int) -> str:
    import numpy as np

    return str(np.datetime64(days, "D"))


def _second_text(seconds: int) -> str:
    import numpy as np

    # The smallest 64-bit number is no time for numpy.
    return str(np.datetime64(max(seconds, 1 - (1 << 63)), "s"))


# --- Nested values


def _struct_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    fields = [kind.field(place) for place in range(kind.num_fields)]
    names = [field.name for field in fields]
    readers = [build_value_reader(field, context) for field in fields]

    def read(array: pyarrow.Array) -> tuple[list[Any], RefusedRows]:
        columns = []
        refused: RefusedRows = {}
        nulls = _null_rows(array)
        for place, inner in enumerate(readers):
            values, bad = inner(array.field(place))
            columns.append(values)
            for row, one in bad.items():
                refused.setdefault(row, RefusedValue(one.why, f"/{names[place]}{one.path}"))
        for row in nulls:
            refused.pop(row, None)
        rows = build_rows(names, columns) if columns else [{} for _ in range(len(array))]
        return _blank_rows(rows, nulls), refused

    return read


def build_rows(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> list[Any]:
    """The members of each row of some columns: NULLs are omitted, so that in a delta the fields keep their values
    (behaviour 1.3)."""
    holes = any(None in column for column in columns)
    rows = zip(*columns, strict=True)
    if not holes:
        return [dict(zip(names, row, strict=True)) for row in rows]
    return [
        {name: value for name, value in zip(names, row, strict=True) if value is not None}
        if None in row
        else dict(zip(names, row, strict=True))
        for row in rows
    ]


def _cut_lists(
    inner: ColumnReader, items: pyarrow.Array, spans: Sequence[tuple[int, int]], nulls: Sequence[int]
) -> tuple[list[Any], RefusedRows]:
    """Lists of ``items`` between starts and ends."""
    # Only items to which this slice of a larger array refers are read.
    start = min((first for first, end in spans if first < end), default=0)
    stop = max((end for first, end in spans if first < end), default=0)
    values, refused = inner(items.slice(start, stop - start))
    spans = [(first - start, end - start) if first < end else (0, 0) for first, end in spans]
    return _blank_rows([values[first:end] for first, end in spans], nulls), _spread_refused(refused, spans, nulls, "")


def _list_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    inner = build_value_reader(kind.value_field, context)

    def read(array: pyarrow.Array) -> tuple[list[Any], RefusedRows]:
        return _cut_lists(inner, array.values, list(pairwise(array.offsets.to_numpy().tolist())), _null_rows(array))

    return read


def _list_view_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    inner = build_value_reader(kind.value_field, context)

    def read(array: pyarrow.Array) -> tuple[list[Any], RefusedRows]:
        nulls = _null_rows(array)
        firsts = array.offsets.to_numpy().tolist()
        spans = [(first, first + size) for first, size in zip(firsts, array.sizes.to_numpy().tolist(), strict=True)]
        for row in nulls:
            spans[row] = (0, 0)
        return _cut_lists(inner, array.values, spans, nulls)

    return read


def _fixed_list_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    inner = build_value_reader(kind.value_field, context)
    size = kind.list_size

    def read(array: pyarrow.Array) -> tuple[list[Any], RefusedRows]:
        first = array.offset
        spans = [(row * size, (row + 1) * size) for row in range(first, first + len(array))]
        return _cut_lists(inner, array.values, spans, _null_rows(array))

    return read


def _map_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    keys, items = build_name_reader(kind.key_field, context), build_value_reader(kind.item_field, context)

    def read(array: pyarrow.Array) -> tuple[list[Any], RefusedRows]:
        nulls = _null_rows(array)
        offsets = array.offsets.to_numpy().tolist()
        entries = array.values.slice(offsets[0], offsets[-1] - offsets[0])
        spans = [(first - offsets[0], end - offsets[0]) for first, end in pairwise(offsets)]
        names, bad_names = keys(entries.field(0))
        values, bad_values = items(entries.field(1))
        bad_values = {item: RefusedValue(one.why, f"/{names[item]}{one.path}") for item, one in bad_values.items()}
        refused = _spread_refused(bad_names | bad_values, spans, nulls, "")
        refused = {row: RefusedValue(one.why, one.path.partition("]")[2]) for row, one in refused.items()}
        found: list[Any] = [None] * len(spans)
        for row in sorted(set(range(len(spans))) - set(nulls) - refused.keys()):
            first, end = spans[row]
            some = names[first:end]
            if None in some or len(set(some)) < len(some):
                twice = next((name for name in some if some.count(name) > 1), None)
                refused[row] = RefusedValue(
                    "one of its keys is NULL" if None in some else f"its key {twice!r} is duplicate"
                )
            else:
                pairs = zip(some, values[first:end], strict=True)
                found[row] = {name: value for name, value in pairs if value is not None}
        return found, refused

    return read


def _choose_values(values: list[Any], bad: RefusedRows, places: Sequence[int | None]) -> tuple[list[Any], RefusedRows]:
    """The values at ``places``, None for None, and which of these are refused."""
    found = [None if place is None else values[place] for place in places]
    if not bad:
        return found, {}
    return found, {row: bad[place] for row, place in enumerate(places) if place in bad}


def _dictionary_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    import pyarrow as pa

    inner = build_value_reader(pa.field("values", kind.value_type), context)

    def read(array: pyarrow.Array) -> tuple[list[Any], RefusedRows]:
        import numpy as np

        dictionary, places = (
            array.dictionary,
            _blank_rows(_read_integers(array.indices).tolist(), _null_rows(array.indices)),
        )
        if len(dictionary) > len(places):
            # A slice of a large table refers to few of its values, and some others may be refused.
            used = sorted({place for place in places if place is not None})
            kept = [dictionary.slice(start, stop - start) for start, stop in _find_runs(np.array(used, "i8"))]
            values: list[Any] = []
            bad: RefusedRows = {}
            for part in kept:
                some, worse = inner(part)
                bad |= {len(values) + row: one for row, one in worse.items()}
                values += some
            numbers = {place: number for number, place in enumerate(used)}
            return _choose_values(values, bad, [None if place is None else numbers[place] for place in places])
        return _choose_values(*inner(dictionary), places)

    return read


def _find_runs(numbers: Numbers) -> Iterator[tuple[int, int]]:
    """Yield start and end of each run of consecutive ascending numbers."""
    import numpy as np

    cuts = np.flatnonzero(np.diff(numbers) != 1) + 1
    for run in np.split(numbers, cuts):
        if len(run):
            yield int(run[0]), int(run[-1]) + 1


def _run_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    import pyarrow as pa

    inner = build_value_reader(pa.field("values", kind.value_type), context)

    def read(array: pyarrow.Array) -> tuple[list[Any], RefusedRows]:
        import numpy as np

        first, count = array.find_physical_offset(), array.find_physical_length()
        ends = array.run_ends.to_numpy()[first : first + count]
        places = np.searchsorted(ends, np.arange(array.offset, array.offset + len(array)), "right")
        return _choose_values(*inner(array.values.slice(first, count)), places.tolist())

    return read


def _union_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    readers = [build_value_reader(kind.field(place), context) for place in range(kind.num_fields)]
    codes = {code: place for place, code in enumerate(kind.type_codes)}
    is_dense = kind.mode == "dense"

    def read(array: pyarrow.Array) -> tuple[list[Any], RefusedRows]:
        import numpy as np

        # pyarrow's properties for these ignore the offset of a slice.
        rows_of_all = slice(array.offset, array.offset + len(array))
        chosen = np.frombuffer(array.buffers()[1], "i1")[rows_of_all]
        found: list[Any] = [None] * len(array)
        refused: RefusedRows = {}
        places = np.frombuffer(array.buffers()[2], "i4")[rows_of_all] if is_dense else np.arange(len(array))
        for code, child in codes.items():
            rows = np.flatnonzero(chosen == code)
            if not len(rows):
                continue
            start, stop = int(places[rows].min()), int(places[rows].max()) + 1
            values, bad = readers[child](array.field(child).slice(start, stop - start))
            for row, place in zip(rows.tolist(), (places[rows] - start).tolist(), strict=True):
                found[row] = values[place]
                if place in bad:
                    refused[row] = bad[place]
        return found, refused

    return read


# --- Extensions


def _storage_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    import pyarrow as pa

    inner = build_value_reader(pa.field("storage", kind.storage_type), context)
    return lambda array: inner(array.storage)


def _storage_of(array: pyarrow.Array) -> pyarrow.Array:
    import pyarrow as pa

    return array.storage if isinstance(array.type, pa.BaseExtensionType) else array


def _uuid_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    return lambda array: (
        [None if value is None else str(UUID(bytes=value)) for value in _storage_of(array).to_pylist()],
        {},
    )


def _truth_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:

    def read(array: pyarrow.Array) -> tuple[list[Any], RefusedRows]:
        storage = _storage_of(array)
        return _blank_rows((_read_integers(storage) != 0).tolist(), _null_rows(storage)), {}

    return read


def _json_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:

    def read(array: pyarrow.Array) -> tuple[list[Any], RefusedRows]:
        values = _storage_of(array).to_pylist()
        refused: RefusedRows = {}
        for row, text in enumerate(values if context.json else ()):
            if text is not None:
                try:
                    values[row] = parse_json(text)
                except ValueError as problem:
                    shown = text if len(text) <= 40 else text[:40] + "..."
                    refused[row] = RefusedValue(f"{shown!r} {problem}")
        return values, refused

    return read


def _tensor_reader(kind: pyarrow.DataType, context: ReaderContext) -> ColumnReader:
    inner = _storage_reader(kind, context)
    shape, order = list(kind.shape), kind.permutation

    def read(array: pyarrow.Array) -> tuple[list[Any], RefusedRows]:
        import numpy as np

        size = int(np.prod(shape, dtype="i8"))
        places = np.arange(size).reshape(shape)
        nested = (places if order is None else places.transpose(order)).tolist()
        values, refused = inner(array)
        return [None if value is None else _nest_values(nested, value) for value in values], refused

    return read


def _nest_values(places: Any, values: list[Any]) -> Any:
    return [_nest_values(one, values) for one in places] if isinstance(places, list) else values[places]


def _is_variant(kind: pyarrow.StructType) -> bool:
    """True if a struct is the one that Spark passes for a VARIANT."""
    return any(field.name == "metadata" and b"variant" in (field.metadata or {}) for field in kind)


def _variant_reader(context: ReaderContext) -> ColumnReader:
    variant = context.variant
    assert variant is not None

    def read(array: pyarrow.Array) -> tuple[list[Any], RefusedRows]:
        values = array.to_pylist()
        refused: RefusedRows = {}
        for row, value in enumerate(values):
            if value is not None:
                try:
                    values[row] = convert_untyped(variant(value["value"], value["metadata"]), context.form)
                except Exception as problem:  # any error of Spark's reader for a damaged value
                    refused[row] = RefusedValue(f"its VARIANT cannot be read: {problem}")
        return values, refused

    return read


# --- The table

_BINARY_RULE = "Base64; the bytes in bson and msgpack"
_LIST_RULE = "an array; repeated fields in fix, nvfix, xml and bflat"
_DIGITS_RULE = "the number with all its digits"
_INNER_RULE = "the value, converted by its own type"
_STORAGE_RULE = "the value, converted by its storage type"
_NON_FINITE_RULE = "NaN and infinities as above"


def _make_rules(names: str, page: str, becomes: str, reader: ReaderMaker) -> dict[str, TypeRule]:
    return dict.fromkeys(names.split(), TypeRule(page, becomes, reader))


TYPE_RULES: dict[str, TypeRule] = {
    **_make_rules("NA", "null", "nothing: the member is left out", _null_reader),
    **_make_rules("BOOL", "bool", "true or false", _boolean_reader),
    **_make_rules("INT8 INT16 INT32 INT64", "int8 to int64", "the number", _integer_reader),
    **_make_rules("UINT8 UINT16 UINT32 UINT64", "uint8 to uint64", "the number", _integer_reader),
    **_make_rules(
        "HALF_FLOAT", "float16", "the number; NaN, Infinity and -Infinity become these texts", _double_reader
    ),
    **_make_rules(
        "FLOAT", "float32", f"the shortest number that is equal in 32 bits; {_NON_FINITE_RULE}", _double_reader
    ),
    **_make_rules("DOUBLE", "float64", f"the number; {_NON_FINITE_RULE}", _double_reader),
    **_make_rules(
        "DECIMAL32 DECIMAL64 DECIMAL128 DECIMAL256", "decimal32 to decimal256", _DIGITS_RULE, _decimal_reader
    ),
    **_make_rules("STRING LARGE_STRING STRING_VIEW", "string, string_view", "the text", _text_reader),
    **_make_rules("BINARY LARGE_BINARY BINARY_VIEW", "binary, binary_view", _BINARY_RULE, _bytes_reader),
    **_make_rules("FIXED_SIZE_BINARY", "fixed_size_binary", _BINARY_RULE, _bytes_reader),
    **_make_rules("DATE32 DATE64", "date32, date64", "YYYY-MM-DD; refused outside the years 1 to 9999", _date_reader),
    **_make_rules(
        "TIMESTAMP",
        "timestamp",
        "YYYY-MM-DDTHH:MM:SS.ffffffZ in UTC, or with 9 digits; refused outside the years 1 to 9999",
        _timestamp_reader,
    ),
    **_make_rules(
        "TIME32 TIME64",
        "time32, time64",
        "HH:MM:SS, with 6 or 9 digits of a second if needed; refused beyond 24:00:00",
        _time_reader,
    ),
    **_make_rules("DURATION", "duration", "the number of seconds with all its digits", _duration_reader),
    **_make_rules(
        "INTERVAL_MONTH_DAY_NANO",
        "interval (month, day, ns)",
        "ISO 8601 text such as P14M3DT-0.5S",
        _interval_reader,
    ),
    **_make_rules(
        "INTERVAL_MONTHS INTERVAL_DAY_TIME",
        "interval (other)",
        "the whole file is refused: pyarrow does not read it",
        _unsupported_reader,
    ),
    **_make_rules("LIST LARGE_LIST", "list", _LIST_RULE, _list_reader),
    **_make_rules("LIST_VIEW LARGE_LIST_VIEW", "list_view", _LIST_RULE, _list_view_reader),
    **_make_rules("FIXED_SIZE_LIST", "fixed_size_list", _LIST_RULE, _fixed_list_reader),
    **_make_rules("STRUCT", "struct", "an object of the fields that are not NULL", _struct_reader),
    **_make_rules("MAP", "map", "an object of the values that are not NULL, by their keys", _map_reader),
    **_make_rules("SPARSE_UNION DENSE_UNION", "union", _INNER_RULE, _union_reader),
    **_make_rules("DICTIONARY", "dictionary", _INNER_RULE, _dictionary_reader),
    **_make_rules("RUN_END_ENCODED", "run_end_encoded", _INNER_RULE, _run_reader),
}
"""By the names of Arrow's types, as in :mod:`pyarrow.lib` after ``Type_``."""

_DEFAULT_EXTENSION_RULE = TypeRule("all others", _STORAGE_RULE, _storage_reader)
_UUID_RULE = "text such as 6f1e7c52-0b0e-4c0a-9d3e-3f7a5c1b2d4e"
_JSON_RULE = "in json, the value (refused if it is not valid JSON); in other message types, the text"
EXTENSION_RULES: dict[str, TypeRule] = {
    **_make_rules("arrow.uuid", "arrow.uuid", _UUID_RULE, _uuid_reader),
    **_make_rules("arrow.json", "arrow.json", _JSON_RULE, _json_reader),
    **_make_rules("arrow.bool8", "arrow.bool8", "true or false", _truth_reader),
    **_make_rules(
        "arrow.fixed_shape_tensor",
        "arrow.fixed_shape_tensor",
        "nested arrays, by its shape and permutation",
        _tensor_reader,
    ),
    **_make_rules("arrow.opaque", "arrow.opaque", _STORAGE_RULE, _storage_reader),
}
"""By the names of Arrow's extension types; every other extension is read as its storage type."""

PARQUET_RULES: dict[str, TypeRule] = {
    **_make_rules("ENUM", "ENUM", "the text; refused if it is not UTF-8", _parquet_text_reader),
    **_make_rules("INTERVAL", "INTERVAL", "ISO 8601 text such as P14M3DT0.5S", _parquet_interval_reader),
    **_make_rules("UUID", "UUID", _UUID_RULE, _uuid_reader),
    **_make_rules("JSON", "JSON", _JSON_RULE, _json_reader),
}
"""By Parquet's logical types that pyarrow does not return, or not in all its versions."""


def _number_rules() -> dict[int, TypeRule]:
    """:data:`TYPE_RULES` by the numbers of the types in this version of pyarrow."""
    from pyarrow import lib

    global _rules_by_number
    if not _rules_by_number:
        numbers = ((getattr(lib, f"Type_{name}", None), rule) for name, rule in TYPE_RULES.items())
        _rules_by_number = {number: rule for number, rule in numbers if number is not None}
    return _rules_by_number


_rules_by_number: dict[int, TypeRule] = {}
