"""Messages made of Python values: which form a value has in which format (sowctl-spark(7), WRITING; sowctl-python(7)).

The one place that says it: for rows of data sets, whose columns have types, and for fields that a program gives, which
bring their types with them.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from msgspec import Raw, Struct
from msgspec.json import Encoder

from sowctl.errors import InputError, SowError
from sowctl.messages.base import UNWRITABLE_CODE, ListRefused
from sowctl.messages.nested.type import TreeType
from sowctl.values.fields import Number
from sowctl.values.scalars import I64_MIN, U64_MAX, to_plain_scalar
from sowctl.values.times import format_time, to_micros

if TYPE_CHECKING:
    from sowctl.messages.base import MessageType

Cell: TypeAlias = "Callable[[Any], Any]"
"""Makes of a value what it is in a message, None for NULL."""


def _null_cell(value: Any) -> None:
    """NULL."""


class Form(Struct, frozen=True):
    """The forms of a format: of bytes and of decimals; ``odd`` is what NaN and infinities are.

    ``number`` is that of the text of a number with a fraction or an exponent; None, also as its result, for that of the
    decimal.
    """

    binary: Cell
    decimal: Cell
    odd: Cell = _null_cell
    number: Callable[[str], Any] | None = None


def choose_form(kind: MessageType) -> Form:
    """JSON has numbers of any length and no bytes; the tree formats have bytes of their own; the others have texts."""
    if kind.json_text:
        return JSON_FORM
    if kind.kind == "composite-local":
        # Each part makes its own number of the text.
        return Form(_encode_base64, _keep_digits, number=_keep_spelling)
    number = _parse_double if kind.typed else None
    if isinstance(kind, TreeType):
        # BSON has no unsigned integers.
        max_integer = (1 << 63) - 1 if kind.kind == "bson" else U64_MAX
        return Form(
            lambda value: value, lambda value: to_plain_scalar(_parse_number(value, max_integer)), number=number
        )
    return Form(_encode_base64, _parse_number, number=number)


def build_message(fields: Mapping[str, Any], kind: MessageType) -> bytes:
    """One message of a program's values. None is NULL as the format writes it, NaN and infinities are NULL, too.

    Raises TypeError for a value that is none of a message's, InputError ``SOW-MSG-009`` for one that its format cannot
    hold, and what :meth:`MessageType.build_message` raises.
    """
    if kind.json_text and {*map(type, fields.values())} <= _PLAIN_TYPES and {*map(type, fields)} <= {str}:
        # Most messages are such, and msgspec writes them as the rest of this module would: 7 fields in 4 us, not 13.
        try:
            return _encode_json(fields)
        except OverflowError:
            pass  # a whole number of more than 64 bits
        except UnicodeEncodeError as problem:
            raise _build_surrogate_error(fields, problem) from None
    form = choose_form(kind)
    try:
        members = {format_name(name): convert_untyped(value, form) for name, value in fields.items()}
        return encode_message(members, kind, (), _build_list_error)
    except RecursionError:
        words = "the fields of a message contain themselves, or are too deep within each other"
        raise InputError(UNWRITABLE_CODE, words) from None
    except UnicodeEncodeError as problem:
        raise _build_surrogate_error(fields, problem) from None


def _build_surrogate_error(fields: Mapping[str, Any], problem: UnicodeEncodeError) -> InputError:
    """The error of a text with half a character: the place of the first one."""
    shown = problem.object[problem.start]
    places = [path for path, text in _walk_texts(fields, "") if text == problem.object]
    place = f"field {places[0]}" if places else "the name of a field"
    words = f"{place} has an unpaired surrogate at index {problem.start}, {shown!r}, which is not a character"
    return InputError(UNWRITABLE_CODE, words)


def _walk_texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _walk_texts(inner, f"{path}/{name}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _walk_texts(inner, f"{path}[{index}]")


def encode_message(
    members: dict[str, Any], kind: MessageType, above: tuple[str, ...], refused: Callable[[str, str], SowError]
) -> bytes:
    """The message of fields in their form; ``above`` are the elements around them.

    ``refused`` makes the error for a list that the type cannot have, of its path and the name of the type.
    """
    for name in reversed(above):
        members = {name: members}
    try:
        return kind.build_from_tree(members)
    except ListRefused as problem:
        raise refused(problem.path, kind.name) from None


def convert_scalar(value: Any, form: Form) -> Any:
    """One value of a column."""
    if isinstance(value, float):
        return value if isfinite(value) else form.odd(value)
    if isinstance(value, bool | int | str):
        return value
    # Before dates: in Python a datetime is a date, too.
    if isinstance(value, datetime):
        return format_timestamp(value)
    if isinstance(value, bytes):
        return form.binary(value)
    if isinstance(value, Decimal):
        return form.decimal(value)
    if isinstance(value, timedelta):
        return form.decimal(_interval_seconds(value))
    return value.isoformat() if isinstance(value, date | time) else str(value)


_PLAIN_TYPES = frozenset({str, int, float, bool, type(None)})
_encode_json = Encoder().encode
_SCALAR_TYPES = (bool, int, float, str, bytes, Decimal, date, time, timedelta, UUID)


def convert_untyped(value: Any, form: Form) -> Any:
    """A value that brings its type with it. NULLs in it are kept: they were written.

    Raises TypeError for what is no value of a message: its text would be a guess.
    """
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {format_name(name): convert_untyped(inner, form) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [convert_untyped(inner, form) for inner in value]
    if isinstance(value, bytearray | memoryview):
        return form.binary(bytes(value))
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        # A number of numpy's is none of Python's, but knows which one it is; of an array this raises.
        value = value.item()
    if not isinstance(value, _SCALAR_TYPES):
        raise TypeError(f"a field of a message cannot be of type {type(value).__name__}")
    if isinstance(value, date) and value != value:
        return None  # NaT, which pandas has where a time is missing
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        return form.decimal(Decimal(value))
    return convert_scalar(value, form)


def format_name(key: Any) -> str:
    """The name of a member, of a key that need not be a text."""
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, str | int | float | None):
        return str(key)
    return key.text.decode() if isinstance(key, Number) else bytes(key).decode()


def format_timestamp(at: datetime | None) -> str | None:
    """A time as messages and envelopes have it."""
    return None if at is None else format_time(to_micros(at))


def _encode_base64(value: bytes) -> str:
    return b64encode(value).decode()


def _json_number(value: Decimal) -> Any:
    """A JSON number with these digits."""
    # Put in as text: a float would round it, and msgspec writes a Decimal as a JSON string.
    return Raw(f"{value:f}".encode())


def _parse_number(value: Decimal, max_integer: int = U64_MAX) -> Number | str:
    """A number with its digits; the digits alone where neither 64 bits nor a double hold it."""
    text = f"{value:f}"
    # Formats with numbers of their own hold 64 bits or a double; a number that either would change is written as its
    # digits.
    if value == value.to_integral_value() and I64_MIN <= value <= max_integer:
        return Number(int(value), text.encode())
    return Number(float(value), text.encode()) if Decimal(repr(float(value))) == value else text


def _parse_double(text: str) -> float | None:
    """The double that a text spells, 1.0 and -0.0 too, if it is exactly this number."""
    nearest = float(text)
    return nearest if isfinite(nearest) and Decimal(repr(nearest)) == Decimal(text) else None


def _keep_spelling(text: str) -> Number:
    """A number with its text."""
    return Number(float(text), text.encode())


def _keep_digits(value: Decimal) -> Number:
    """A number with its digits; an integer of 64 bits, or the nearest double."""
    is_integer = value == value.to_integral_value() and I64_MIN <= value <= U64_MAX
    return Number(int(value) if is_integer else float(value), f"{value:f}".encode())


JSON_FORM = Form(_encode_base64, _json_number)
"""Of messages of type json."""


def _interval_seconds(value: timedelta) -> Decimal:
    """An interval in seconds, exact, without zeros at the end of its fraction."""
    micros = Decimal(value // timedelta(microseconds=1)).scaleb(-6)
    whole = micros.to_integral_value()
    return whole if whole == micros else micros.normalize()


def _build_list_error(path: str, name: str) -> SowError:
    return InputError(UNWRITABLE_CODE, f"field {path} is a list, which a message of type {name} cannot have there")
