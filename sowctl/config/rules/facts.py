"""What no configuration knows about messages and machine, as its author says it in a comment of the file.

``<!-- sowctl: assume largest-message=2MB cores=16 memory=64GB -->`` anywhere in the main file; several such
comments add up, and the last word on a fact counts. Read by :class:`~sowctl.config.rules.survey.Survey` for the advice
on storage and memory. Ruled by ``sowctl-lint(7)``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from sowctl.values.units import parse_count, parse_size

_COMMENT = r"<!--\s*sowctl(?:-lint)?\s*(?::\s*|\s)assume\b(.*?)-->"
_FACT = r"([a-z-]+)\s*=\s*([^\s,;]+)"
_READERS = {"largest-message": parse_size, "cores": parse_count, "memory": parse_size}


class Facts(NamedTuple):
    """Sizes in bytes; None for what nobody said, zero and what cannot be read included."""

    largest_message: int | None = None
    cores: int | None = None
    memory: int | None = None


def facts_of(text: str) -> Facts:
    """The facts in the comments of a file."""
    found: dict[str, int] = {}
    for comment in re.finditer(_COMMENT, text, re.DOTALL):
        for name, value in re.findall(_FACT, comment[1]):
            try:
                found[name.replace("-", "_")] = _READERS[name](value)
            except (KeyError, ValueError):
                continue
    return Facts(**{name: number for name, number in found.items() if number})
