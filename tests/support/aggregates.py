"""Aggregates over a group in the order of updates, in plain Python: the reference for queries and views."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from typing import Any

VALUES: tuple[Any, ...] = (None, 1, 1.0, "1", "1.0", True, 0.0, -0.0, 2, "2", 2.5, "a", "b", "", 2**53 + 1, "zebra")
"""A few values of many kinds, so that equal values of different spelling meet."""
PROJECTION = (
    "/g, /v AS /last, ANY(/v) AS /any, GROUP_CONCAT(/v, '|') AS /all, MIN(/v) AS /least, MAX(/v) AS /most,"
    " UNIQUE(/v) AS /one, COUNT(/v) AS /n, COUNT_DISTINCT(/v) AS /kinds, AVG(/w) AS /mean"
)
GROUPING = "/g"


def drawn_history(seed: int, updates: int = 60, ids: int = 25) -> list[dict[str, Any]]:
    """Return messages that overwrite each other and change their groups."""
    source = random.Random(seed)
    pool = source.choice([VALUES, [1, 1.0, "1", None], ["a", "b", "c"], [0.0, -0.0, 1.5], [1, 2, 3]])
    return [
        {
            "id": source.randrange(ids),
            "g": source.choice(["x", "y", "z"]),
            "v": source.choice(pool),
            "w": source.choice([2**53 + 1, 3, -5]),
        }
        for _ in range(updates)
    ]


def expected(messages: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the result of PROJECTION by group, after messages that overwrite those with the same id."""
    last: dict[int, dict[str, Any]] = {}
    for message in messages:
        last.pop(message["id"], None)
        last[message["id"]] = message
    groups: dict[str, list[dict[str, Any]]] = {}
    for message in last.values():
        groups.setdefault(message["g"], []).append(message)
    return {name: _row(name, some) for name, some in groups.items()}


def spelled(rows: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return rows in a form in which 1, 1.0, "1" and true are different."""
    return {name: json.dumps(row, sort_keys=True) for name, row in rows.items()}


def _row(name: str, some: list[dict[str, Any]]) -> dict[str, Any]:
    values = [one["v"] for one in some if one["v"] not in (None, "")]
    numeric = any(not isinstance(value, str) for value in values)
    keys = [_key(value, numeric) for value in values]
    firsts: dict[Any, Any] = {}
    for key, value in zip(keys, values, strict=True):
        firsts.setdefault(key, value)
    exact = sum(Fraction(one["w"]) for one in some) / len(some)
    return {
        "g": name,
        "last": None if some[-1]["v"] == "" else some[-1]["v"],
        "any": values[-1] if values else None,
        "all": "|".join(map(_text, firsts.values())) if values else None,
        "least": firsts[min(firsts)] if values else None,
        "most": firsts[max(firsts)] if values else None,
        "one": values[0] if len(firsts) == 1 else None,
        "n": len(values),
        "kinds": len(firsts),
        "mean": float(exact),
    }


def _key(value: Any, numeric: bool) -> tuple[int, Any]:
    if not isinstance(value, str):
        return 0, Fraction(value)
    try:
        return (0, Fraction(value)) if numeric else (1, value)
    except ValueError:
        return 1, value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(int(value)) if isinstance(value, bool) else repr(value)
