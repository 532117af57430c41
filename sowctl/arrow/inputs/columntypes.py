"""Types of columns of text, detected from their values (sowctl-types(7), CSV and TSV).

A type is detected only if the value as a number, truth value or JSON is written like the cell, character by character.
So no digit is lost, and a key field has the same text, and therefore the same SOW key, as without detection.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from sowctl.arrow.inputs.rows import Cell, RowBlock, build_converter, parse_json_value
from sowctl.messages.native_values import Form

_INTEGER_PATTERN = re.compile(r"(?:(?:-?[1-9][0-9]{0,17}|0)\n)*+")
_LONG_INTEGER_PATTERN = re.compile(r"(?:(?:-?[1-9][0-9]{0,18}|0)\n)*+")
_NUMBER_PATTERN = re.compile(r"(?:(?:-?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,20}|-?[1-9][0-9]{0,17}|0)\n)*+")
_BOOLEAN_PATTERN = re.compile(r"(?:(?:true|false)\n)*+")
_decode = msgspec.json.Decoder(msgspec.Raw).decode


def are_integers(joined: str, values: Sequence[str]) -> bool:
    """True for values, joined as lines, that are 64-bit integers as written in JSON."""
    if _INTEGER_PATTERN.fullmatch(joined) is not None:
        return True
    # 19 digits may exceed 64 bits.
    if _LONG_INTEGER_PATTERN.fullmatch(joined) is None:
        return False
    return all(-(1 << 63) <= int(value) < 1 << 63 for value in values)


def are_numbers(joined: str, values: Sequence[str]) -> bool:
    """True for values, joined as lines, that are numbers of at most 38 digits, without exponents."""
    return _NUMBER_PATTERN.fullmatch(joined) is not None


def are_booleans(joined: str, values: Sequence[str]) -> bool:
    """True for values, joined as lines, that are ``true`` or ``false``."""
    return _BOOLEAN_PATTERN.fullmatch(joined) is not None


def are_json(joined: str, values: Sequence[str]) -> bool:
    """True for values that are JSON objects or arrays."""
    return all(value[:1] in ("{", "[") and _is_json(value) for value in values)


def _is_json(value: str) -> bool:
    try:
        _decode(value.encode())
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


CHECKS = {"integer": are_integers, "number": are_numbers, "boolean": are_booleans, "json": are_json}
"""By type, except text: whether all of some non-null values are written as that type."""


def fits_type(kind: str, values: Sequence[str]) -> bool:
    """True if all of these values have the detected type ``kind``."""
    joined = "\n".join(values) + "\n"
    # A value of several lines has no simple type.
    if kind != "json" and joined.count("\n") != len(values):
        return False
    return CHECKS[kind](joined, values)


def convert_structure(cell: str, form: Form, *, typed: bool, nested: bool) -> Any:
    """A cell of type json as a value of a message that is not JSON. Raises ValueError for a cell that only begins like
    JSON, if the format is ``nested``.

    In a column with repeated fields a single value is written unchanged, and several as an array: so other cells have
    the type that is detected for them alone, and are texts if the format is not ``typed``.
    """
    if nested and cell[:1] in ("{", "["):
        return parse_json_value(cell, form)
    # A field with one value is written as that value, but bflat has arrays of one value, which are written as such.
    if cell[:1] == "[" and (values := _parse_scalars(cell, form, min_values=1 if typed else 2)) is not None:
        return values
    kinds = ("integer", "number", "boolean") if typed else ()
    return build_converter(next((one for one in kinds if fits_type(one, (cell,))), "text"), form)(cell)


def _parse_scalars(cell: str, form: Form, *, min_values: int) -> list[Any] | None:
    """The values of a repeated field; None for any text that is no array of scalars."""
    try:
        values = parse_json_value(cell, form)
    except ValueError:
        return None
    if not isinstance(values, list) or len(values) < min_values:
        return None
    return None if any(isinstance(one, (dict, list)) for one in values) else values


class TypeDetector:
    """The types of columns so far. ``allowed`` has the possible types of each column, except text; none for a column
    whose type is not detected. ``quotes_text``: a column with cells in quotation marks is text, or JSON."""

    def __init__(self, allowed: Sequence[Sequence[str]], *, quotes_text: bool) -> None:
        self._allowed = allowed
        self._quotes_text = quotes_text
        self._kinds: list[str | None] = [None if kinds else "text" for kinds in allowed]

    @property
    def is_decided(self) -> bool:
        """True if no further row can change a type."""
        return all(kind == "text" for kind in self._kinds)

    def add_block(self, block: RowBlock) -> None:
        """Process the values of some rows."""
        for index, kind in enumerate(self._kinds):
            if kind == "text":
                continue
            values = list_values(block.columns[index])
            if not values:
                continue
            found = self._find_kind(values, kind, self._allowed[index])
            # Only JSON may require quotation marks: around a number they mark a text.
            is_quoted = self._quotes_text and index in block.quoted and found != "json"
            self._kinds[index] = "text" if is_quoted else found

    @staticmethod
    def _find_kind(values: Sequence[str], kind: str | None, allowed: Sequence[str]) -> str:
        # The type of a column so far is the most likely one.
        if kind is not None and fits_type(kind, values):
            return kind
        found = next((one for one in allowed if fits_type(one, values)), "text")
        if kind is None or kind == found:
            return found
        return "number" if {kind, found} == {"integer", "number"} and "number" in allowed else "text"

    def list_types(self) -> list[str]:
        """The type of each column; text for one without values."""
        return [kind or "text" for kind in self._kinds]


def list_values(cells: Sequence[Cell]) -> Sequence[str]:
    """The non-null cells."""
    return [cell for cell in cells if cell is not None] if None in cells else cells  # type: ignore[return-value]
