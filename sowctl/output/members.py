"""The fields of a payload for output: members in order, paths, texts; and whether bytes are JSON at all.

Reads the JSON view of a payload by the bytes of its members (:mod:`sowctl.values.rawmembers`); texts that this reader
declines are read by the standard library. Numbers keep their text; of duplicate members the first counts
(``sowctl-expressions(7)``).
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Collection, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from json.encoder import encode_basestring
from math import isfinite
from typing import Any

import msgspec
from msgspec import Raw

from sowctl.output.display import escape_surrogates
from sowctl.output.records import View
from sowctl.values.depth import MAX_DEPTH, is_deep
from sowctl.values.jsontree import NumberText, parse_json, parse_json_exact, parse_member
from sowctl.values.paths import Path
from sowctl.values.rawmembers import LONG_OBJECT_LIMITS, open_long_object, read_raw_members

_SURE_DIGITS = 16
"""Characters of a number without an exponent that a double always preserves: 15 digits and a point."""
_decode_raw = msgspec.json.Decoder(Raw).decode


def is_json_line(payload: bytes) -> bool:
    """True if ``payload`` is exactly one JSON value in one line, without white space around it."""
    # White space around a value would be lost when the line is read back.
    if not payload or payload[0] not in b'{["-0123456789tfn' or payload[-1] in b" \t\r\n":
        return False
    if b"\n" in payload or b"\r" in payload:
        return False
    try:
        text = payload.decode()
        # If msgspec accepts it, it is JSON; it may reject what the standard library accepts, such as an unpaired
        # surrogate. Deeply nested text is read by the standard library at once, whose limit counts.
        if not is_deep(payload) and _is_json(payload):
            return True
        parse_json(text)
    except (ValueError, RecursionError):
        return False
    return True


def are_json_lines(payloads: Sequence[bytes]) -> bool:
    """True if each of several payloads is certainly such a line; otherwise call :func:`is_json_line` for each."""
    # Long ones may be too deep; finding that out requires counting brackets.
    if not payloads or min(map(len, payloads)) == 0 or max(map(len, payloads)) > 2 * MAX_DEPTH:
        return False
    whole = b"\n".join(payloads)
    if whole.count(b"\n") >= len(payloads) or b"\r" in whole:
        return False
    if not {payload[0] for payload in payloads}.isdisjoint(b" \t") or not {one[-1] for one in payloads}.isdisjoint(
        b" \t"
    ):
        return False
    try:
        whole.decode()
        for _ in map(_decode_raw, payloads):
            pass
    except (ValueError, RecursionError):
        return False
    return True


def _is_json(payload: bytes) -> bool:
    try:
        _decode_raw(payload)
    except (ValueError, RecursionError):
        return False
    return True


def read_members(payload: bytes, view: View) -> dict[str, Any]:
    """The first-level members of a payload in order.

    A payload that is no object has one member, ``data``; one whose view is no JSON has ``data_base64``.
    """
    try:
        line = view(payload)
        text = line.decode()
        found = read_raw_members(line)
        if found is not None:
            return {name: parse_member(raw) for name, raw in found.items()}
        value = parse_json(text)
    except (ValueError, RecursionError):
        return {"data_base64": b64encode(payload).decode()}
    return value if isinstance(value, dict) else {"data": value}


def read_exact_members(payload: bytes, view: View) -> dict[str, Any]:
    """As :func:`read_members`, for a view that may have words for NaN and infinities, which become floats."""
    line = view(payload)
    if b"NaN" in line or b"Infinity" in line:
        # Texts may contain these words, too, and members() does not read a line in which they represent numbers.
        with suppress(ValueError, RecursionError):
            value = parse_json_exact(line.decode())
            return value if isinstance(value, dict) else {"data": value}
    return read_members(payload, lambda _: line)


def read_some_members(payload: bytes, view: View, names: Collection[str]) -> dict[str, Any]:
    """As :func:`read_members`, if only ``names`` will be used. From a long object, no other members are
    read.
    """
    parts = open_long_object(view(payload)) if len(payload) >= LONG_OBJECT_LIMITS.min_object_bytes else None
    if parts is None:
        return read_members(payload, view)
    return {name: parse_member(raw) for part in parts for name, raw in part.items() if name in names}


def find_value(row: dict[str, Any], path: Path) -> Any:
    """The value at ``path``, None if absent. A step without a position uses the first item of an array."""
    value: Any = row
    for step in path.steps:
        if isinstance(value, list):
            value = next((item for item in value if isinstance(item, dict)), None)
        value = value.get(step.name) if isinstance(value, dict) else None
        if step.index is not None:
            items = value if isinstance(value, list) else [value]
            value = items[step.index] if step.index < len(items) else None
    return value


def format_value(value: Any) -> str | None:
    """A value in a cell: a text unchanged, a number as written, objects and arrays as JSON, null as None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if type(value) is int else dump_json(value)


def convert_numbers(value: Any) -> Any:
    """A value with real numbers: 64-bit integers and doubles; other numbers become texts with all digits.

    Texts are escaped as by :func:`escape_surrogates`.
    """
    if isinstance(value, NumberText):
        return _parse_number(value)
    if isinstance(value, dict):
        return {escape_surrogates(name): convert_numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [convert_numbers(item) for item in value]
    return escape_surrogates(value) if isinstance(value, str) else value


def _parse_number(text: NumberText) -> int | float | str:
    if len(text) < _SURE_DIGITS and text.isdecimal():
        return int(text)
    # Numbers with too many digits for 64 bits are not converted.
    if len(text) <= 20 and text.lstrip("-").isdecimal() and -(1 << 63) <= int(text) < 1 << 64:
        # An integer has no negative zero.
        return int(text) if text != "-0" else -0.0
    nearest = float(text)
    if len(text) <= _SURE_DIGITS and "e" not in text and "E" not in text:
        return nearest
    try:
        return nearest if isfinite(nearest) and Decimal(repr(nearest)) == Decimal(text) else str(text)
    except InvalidOperation:
        return str(text)


def dump_json(value: Any) -> str:
    """Compact JSON text of any value, numbers with their own texts."""
    if isinstance(value, NumberText):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_dump_string(name)}:{dump_json(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(dump_json, value)) + "]"
    return _dump_string(value)


def _dump_string(value: Any) -> str:
    return encode_basestring(value) if isinstance(value, str) else encode_compact(value)


encode_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""JSON text without blanks. Created once: json.dumps creates an encoder for each call with such arguments."""
