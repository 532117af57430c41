"""What a verb did, for people in a line or two, or as one line of JSON (``--summary json``).

Works on the report classes of the engine by their fields' names, so that each verb's report needs no twin here: whole
numbers are counted things, ``bytes`` is a size, ``seconds`` a duration, ``first_txid`` and ``last_txid`` a range,
``durable`` a promise, ``dry_run`` a warning that nothing was done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from typing import Any

from sowctl.output.display import display

_ALWAYS = ("published", "inserted", "updated", "deleted", "replayed", "expired")
_APART = {"bytes", "seconds", "first_txid", "last_txid", "durable", "dry_run", "topic", "message_type"}
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def as_dict(report: Any) -> dict[str, Any]:
    """A report dataclass as plain values, tuples as lists, paths as texts; nested reports likewise."""
    if not is_dataclass(report) or isinstance(report, type):
        raise TypeError(f"{type(report).__name__} is no report")
    return {field.name: _plain(getattr(report, field.name)) for field in fields(report)}


def as_json(report: Any) -> str:
    """One line of JSON, ASCII only."""
    return json.dumps(as_dict(report))


def as_text(report: Any) -> str:
    """``orders: 812 inserted, 3 rejected; 214.0 MiB in 6.1 s (133 a second); txid 1-815, durable``."""
    row = as_dict(report)
    topic = f"{display(str(row['topic']))}: " if row.get("topic") else ""
    mode = "dry run, nothing was written: " if row.get("dry_run") else ""
    parts = [", ".join(_counts(row)) or "nothing to do", _volume(row), _position(row)]
    return topic + mode + "; ".join(part for part in parts if part)


def size(count: int) -> str:
    """Bytes for people: ``123 B``, ``4.0 KiB``, ``214.3 MiB``."""
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def _counts(row: Mapping[str, Any]) -> list[str]:
    return [
        f"{value:,} {name.replace('_', ' ')}"
        for name, value in row.items()
        if name not in _APART and type(value) is int and (value or name in _ALWAYS)
    ]


def _volume(row: Mapping[str, Any]) -> str:
    text = size(row["bytes"]) if type(row.get("bytes")) is int and row["bytes"] else ""
    seconds = row.get("seconds")
    if not isinstance(seconds, int | float) or not seconds:
        return text
    total = sum(value for name, value in row.items() if name not in _APART and type(value) is int)
    return f"{text} in {seconds:.1f} s ({total / seconds:,.0f} a second)".strip()


def _position(row: Mapping[str, Any]) -> str:
    first, last = row.get("first_txid"), row.get("last_txid")
    txids = f"txid {last}" if first == last else f"txid {first}-{last}"
    promise = {True: "durable", False: "not durable"}.get(row.get("durable"), "")  # type: ignore[arg-type]
    return ", ".join(part for part in (txids if last else "", promise if not row.get("dry_run") else "") if part)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return as_dict(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value) if isinstance(value, PurePath) else value
