"""Values of elements as the advice reads and writes them: intervals, sizes, counts and switches.

A reader gives None where there is no element, or none that makes sense: the element table speaks of that one. Called by
the rules only. Ruled by ``sow-config(5)``, text and values.
"""

from __future__ import annotations

from collections.abc import Callable

from sowctl.config.document import ElementNode
from sowctl.config.elements.element import Element
from sowctl.config.kinds import out_of_bounds, read_bytes
from sowctl.values.units import (
    INTERVAL_NANOSECONDS,
    SIZE_FACTORS,
    format_interval,
    parse_count,
    parse_interval,
    parse_switch,
)

SECOND, MINUTE, HOUR, DAY = (INTERVAL_NANOSECONDS[unit] for unit in ("s", "m", "h", "d"))
"""Nanoseconds."""
interval_text = format_interval
DEFAULT_SLAB = 5 << 20
TOO_LARGE = 1 << 62
_BUDGET = 20_000_000


def _read(node: ElementNode | None, read: Callable[[str], int]) -> int | None:
    if node is None:
        return None
    try:
        value = read(node.text)
    except ValueError:
        return None
    return None if value > TOO_LARGE else value


def interval(node: ElementNode | None) -> int | None:
    """The interval of an element in nanoseconds."""
    return _read(node, parse_interval)


def size(node: ElementNode | None) -> int | None:
    """The size of an element in bytes, units of 1024."""
    return _read(node, read_bytes)


def count(node: ElementNode | None) -> int | None:
    """The number of an element."""
    return _read(node, parse_count)


def switch(node: ElementNode | None) -> bool | None:
    """Whether an element says true or enabled."""
    word = _read(node, parse_switch)
    return None if word is None else bool(word)


def within(node: ElementNode, low: str, high: str) -> bool:
    """Whether a readable size lies between two others, both included, be a kilobyte 1000 or 1024 bytes."""
    return out_of_bounds(Element(node.tag, "1", "bytes", low=low, high=high, bounds="S027"), node.text) is None


def affordable(one: int, other: int, cost: int = 10) -> bool:
    """Whether every one of a number of things may be compared with every one of another number.

    ``cost`` is that of one comparison, 1 for the cheapest. No sensible file comes near the limit; a hostile one must
    not make lint compare for minutes.
    """
    return one * other * cost <= _BUDGET


def size_text(number: int) -> str:
    """A size in bytes for people, with one decimal where it is not whole: ``5MB``, ``1.5GB``, ``100 bytes``."""
    for unit, factor in reversed(SIZE_FACTORS.items()):
        if unit and number >= factor:
            whole, tenths = divmod(round(10 * number / factor), 10)
            return f"{whole}{f'.{tenths}' if tenths else ''}{unit.upper()}B"
    return f"{number} bytes"
