"""The fields of a payload as an output needs them: members in order, paths, texts; and whether bytes are JSON at all.

Reads the JSON view of a payload with the standard library, so that no command pays for a faster reader's import.
Numbers keep their text; of duplicate members the first counts (``sowctl-expressions(7)``).
"""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

from sowctl.output.display import escaped
from sowctl.output.records import View
from sowctl.values.paths import Path


class NumberText(str):
    """A number as it was written."""

    __slots__ = ()


def is_json_line(payload: bytes) -> bool:
    """Whether ``payload`` is exactly one JSON value in one line, without white space around it."""
    # White space around a value would be lost when the line is read back.
    if not payload or payload[0] not in b'{["-0123456789tfn' or payload[-1] in b" \t\r\n":
        return False
    if b"\n" in payload or b"\r" in payload:
        return False
    try:
        # Numbers stay texts, so that none is too long to be converted; NaN, which Python would take, is no JSON.
        json.loads(payload.decode(), parse_int=NumberText, parse_float=NumberText, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def members(payload: bytes, view: View) -> dict[str, Any]:
    """The first-level members of a payload in order.

    A payload that is no object has one member, ``data``; one whose view is no JSON has ``data_base64``.
    """
    try:
        value = _loads(view(payload).decode())
    except (ValueError, RecursionError):
        return {"data_base64": b64encode(payload).decode()}
    return value if isinstance(value, dict) else {"data": value}


def at(row: dict[str, Any], path: Path) -> Any:
    """The value at ``path``, None where there is none. A step without a position takes the first of an array."""
    value: Any = row
    for step in path.steps:
        if isinstance(value, list):
            value = next((item for item in value if isinstance(item, dict)), None)
        value = value.get(step.name) if isinstance(value, dict) else None
        if step.index is not None:
            items = value if isinstance(value, list) else [value]
            value = items[step.index] if step.index < len(items) else None
    return value


def as_text(value: Any) -> str | None:
    """A value in a cell: a text as it is, a number as it was written, objects and arrays as JSON, null as None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return _dump(value)


def plain(value: Any) -> Any:
    """A value with real numbers: integers that fit 64 bits, else floats; texts as :func:`escaped` makes them."""
    if isinstance(value, NumberText):
        whole = value.lstrip("-").isdecimal() and len(value) <= 20
        # More digits than 64 bits can have are not converted to see that they are too many.
        number = int(value) if whole else float(value)
        return number if not whole or -(1 << 63) <= number < 1 << 64 else float(value)
    if isinstance(value, dict):
        return {escaped(name): plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return escaped(value) if isinstance(value, str) else value


def _dump(value: Any) -> str:
    """Compact JSON text with the numbers' own texts."""
    if isinstance(value, NumberText):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_string(name)}:{_dump(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_dump, value)) + "]"
    return _string(value)


def _string(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _loads(text: str) -> Any:
    return json.loads(
        text,
        parse_int=NumberText,
        parse_float=NumberText,
        parse_constant=_refuse,
        object_pairs_hook=_first,
    )


def _first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        # The first of several members counts (behaviour C136): put in last, it stays.
        for name, value in reversed(pairs):
            row[name] = value
    return row


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
