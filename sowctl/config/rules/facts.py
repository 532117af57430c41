"""Facts about messages and machine that the author of a configuration states in a comment of the file.

``<!-- sowctl: assume largest-message=2MB cores=16 memory=64GB -->`` anywhere in the main file; several such comments
are combined, and the last value of a fact counts. Words after ``because`` are for people. Read by
:class:`~sowctl.config.rules.survey.Survey` for the advice on storage and memory, and by
:mod:`sowctl.config.suppressions`, which reports words without effect. Ruled by ``sowctl-lint(7)``.
"""

from __future__ import annotations

import re

from msgspec import Struct

from sowctl.config.directives import DIRECTIVE_START_PATTERN
from sowctl.values.units import parse_count, parse_size

ASSUME_HINT = "write <!-- sowctl: assume largest-message=2MB cores=16 memory=64GB -->"
_COMMENT_PATTERN = rf"<!--{DIRECTIVE_START_PATTERN}assume\b(.*?)-->"
_READERS = {"largest-message": parse_size, "cores": parse_count, "memory": parse_size}
_MAX_FACT_VALUE = 1 << 62


class Facts(Struct, frozen=True):
    """Sizes in bytes; None if no comment states one."""

    largest_message: int | None = None
    cores: int | None = None
    memory: int | None = None


def parse_facts(text: str) -> Facts:
    """The facts in the comments of a file."""
    found: dict[str, int] = {}
    for comment in re.finditer(_COMMENT_PATTERN, text, re.DOTALL):
        for name, number, _ in _parse_words(comment[1]):
            if number is not None:
                found[name.replace("-", "_")] = number
    return Facts(**found)


def find_comment_faults(words: str) -> list[str]:
    """Describe the words of a comment that have no effect, a sentence each; empty if there are none."""
    read = list(_parse_words(words))
    return [fault for _, _, fault in read if fault] if read else ["the comment has nothing to assume"]


def _parse_words(words: str) -> list[tuple[str, int | None, str]]:
    """Return name, number and fault of each word; the number is None if there is a fault."""
    rows: list[tuple[str, int | None, str]] = []
    for word in re.findall(r"[^\s,;]+", re.split(r"\bbecause\b", words, maxsplit=1)[0]):
        name, _, value = word.partition("=")
        reader = _READERS.get(name)
        if reader is None:
            rows.append((name, None, f"lint cannot assume {name[:40]!r}"))
            continue
        try:
            number = reader(value)
        except ValueError:
            number = 0
        rows.append(
            (name, number, "")
            if 0 < number < _MAX_FACT_VALUE
            else (name, None, f"invalid value {value[:40]!r} of {name}")
        )
    return rows
