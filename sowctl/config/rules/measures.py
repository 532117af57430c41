"""Values of elements as the advice reads and writes them: intervals, sizes, counts and switches.

A reader returns None if the element is absent or invalid; the element table reports invalid ones. Called only by the
rules. Ruled by ``sow-config(5)``, text and values.
"""

from __future__ import annotations

from collections.abc import Callable

from sowctl.config.document import ElementNode
from sowctl.config.elements.element import Element
from sowctl.config.kinds import find_bounds_fault, read_bytes
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
format_interval_text = format_interval
DEFAULT_SLAB_BYTES = 5 << 20
MAX_READABLE_VALUE = 1 << 62
_MAX_COMPARISON_COST = 20_000_000


def _read_measure(node: ElementNode | None, read: Callable[[str], int]) -> int | None:
    if node is None:
        return None
    try:
        value = read(node.text)
    except ValueError:
        return None
    return None if value > MAX_READABLE_VALUE else value


def read_interval(node: ElementNode | None) -> int | None:
    """The interval of an element in nanoseconds."""
    return _read_measure(node, parse_interval)


def read_size(node: ElementNode | None) -> int | None:
    """The size of an element in bytes, units of 1024."""
    return _read_measure(node, read_bytes)


def read_count(node: ElementNode | None) -> int | None:
    """The number of an element."""
    return _read_measure(node, parse_count)


def read_switch(node: ElementNode | None) -> bool | None:
    """Return True if an element is true or enabled, None if it is absent or unreadable."""
    word = _read_measure(node, parse_switch)
    return None if word is None else bool(word)


def is_size_within(node: ElementNode, low: str, high: str) -> bool:
    """Return True if a readable size is between two others, inclusive, whether a kilobyte is 1000 or 1024 bytes."""
    return find_bounds_fault(Element(node.tag, "1", "bytes", low=low, high=high, bounds="S027"), node.text) is None


def can_compare_all(one: int, other: int, cost: int = 10) -> bool:
    """Return True if each of ``one`` items may be compared with each of ``other``.

    ``cost`` is that of one comparison, 1 for the cheapest. No sensible file comes near the limit; a hostile one must
    not make lint compare for minutes.
    """
    return one * other * cost <= _MAX_COMPARISON_COST


def format_size_text(number: int) -> str:
    """A size in bytes for people, with one decimal unless it is whole: ``5MB``, ``1.5GB``, ``100 bytes``."""
    for unit, factor in reversed(SIZE_FACTORS.items()):
        if unit and number >= factor:
            whole, tenths = divmod(round(10 * number / factor), 10)
            return f"{whole}{f'.{tenths}' if tenths else ''}{unit.upper()}B"
    return f"{number} bytes"
