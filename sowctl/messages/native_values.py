"""Messages built from Python values: the form of a value in each format (sowctl-spark(7), WRITING; sowctl-python(7)).

The only place that defines it: for rows of data sets, whose columns have types, and for fields that a program passes,
whose values have their own types.
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
"""Converts a value to its form in a message, None for NULL."""


def _null_cell(value: Any) -> None:
    """NULL."""


class Form(Struct, frozen=True):
    """The forms of a format: for bytes and for decimals; ``odd`` is that of NaN and infinities.

    ``number`` converts the text of a number with a fraction or an exponent; None, also as its result, selects that of
    the decimal.
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
        # Each part converts the text to a number itself.
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
    """One message from a program's values. None is NULL in the format, and so are NaN and infinities.

    Raises TypeError for a value that messages cannot have, InputError ``SOW-MSG-009`` for one that the format cannot
    represent, and the errors of :meth:`MessageType.build_message`.
    """
    if kind.json_text and {*map(type, fields.values())} <= _PLAIN_TYPES and {*map(type, fields)} <= {str}:
        # Most messages are such, and msgspec encodes them as the rest of this module would: 7 fields in 4 us, not 13.
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
    """The error of a text with an unpaired surrogate: the place of the first one."""
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

    ``refused`` creates the error for an unsupported list from its path and the name of the type.
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
    """A value with its own type. NULLs in it are kept, because they were given explicitly.

    Raises TypeError for a value that messages cannot have: its text would be a guess.
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
        # A numpy number is no Python number, but converts itself; for an array this raises.
        value = value.item()
    if not isinstance(value, _SCALAR_TYPES):
        raise TypeError(f"a field of a message cannot be of type {type(value).__name__}")
    if isinstance(value, date) and value != value:
        return None  # NaT, which pandas has for a missing time
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        return form.decimal(Decimal(value))
    return convert_scalar(value, form)


def format_name(key: Any) -> str:
    """The name of a member, for a key that need not be a text."""
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, str | int | float | None):
        return str(key)
    return key.text.decode() if isinstance(key, Number) else bytes(key).decode()


def format_timestamp(at: datetime | None) -> str | None:
    """A time in the form of messages and envelopes."""
    return None if at is None else format_time(to_micros(at))


def _encode_base64(value: bytes) -> str:
    return b64encode(value).decode()


def _json_number(value: Decimal) -> Any:
    """A JSON number with these digits."""
    # Inserted as text: a float would round it, and msgspec encodes a Decimal as a JSON string.
    return Raw(f"{value:f}".encode())


def _parse_number(value: Decimal, max_integer: int = U64_MAX) -> Number | str:
    """A number with its digits; only the digits if neither 64 bits nor a double can represent it."""
    text = f"{value:f}"
    # Formats with numbers of their own have 64 bits or a double; a number that either would change is written as its
    # digits.
    if value == value.to_integral_value() and I64_MIN <= value <= max_integer:
        return Number(int(value), text.encode())
    return Number(float(value), text.encode()) if Decimal(repr(float(value))) == value else text


def _parse_double(text: str) -> float | None:
    """The double of a text, including 1.0 and -0.0, if it is exactly this number."""
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
"""The form of messages of type json."""


def _interval_seconds(value: timedelta) -> Decimal:
    """An interval in seconds, exact, without trailing zeros in its fraction."""
    micros = Decimal(value // timedelta(microseconds=1)).scaleb(-6)
    whole = micros.to_integral_value()
    return whole if whole == micros else micros.normalize()


def _build_list_error(path: str, name: str) -> SowError:
    return InputError(UNWRITABLE_CODE, f"field {path} is a list, which a message of type {name} cannot have there")
