"""Field identifiers: ``/a/b[0]/@x`` and ``[/odd name]`` as tuples of steps."""

from __future__ import annotations

import re

from msgspec import Struct

from sowctl.errors import UsageError

# The classes name the excluded characters: letters, digits, _ and everything beyond ASCII may start a step, - . : may
# follow. Naming all of Unicode instead would cost milliseconds at every start.
_STEP_PATTERN = re.compile(r"/(@?[^\x00-/:-@\[-\^`{-\x7f][^\x00-,/;-@\[-\^`{-\x7f]*)(?:\[([0-9]+)\])?")
_BRACKET_PATTERN = re.compile(r"\[(/[^\]]+)\](?:\[([0-9]+)\])?$")
# Text in brackets is part of a name. Possessive: a long text is scanned once.
_LIST_PART = r"(?:\[[^\]]*+\]?|[^,\[]++)*+"
"""Compiled on first use: most commands parse no list."""
_BLANKS = " \t\r\n\f\v"
"""Not allowed in a step of a path outside brackets; Unicode's other blanks are."""

MAX_PATH_STEPS = 256
"""Maximum number of steps of a path: no message of any type nests more containers (``messages.base``)."""
_MAX_INDEX_DIGITS = 18
"""Maximum number of digits of a position; no list has so many items."""


class Step(Struct, frozen=True):
    """One step: a member name and the zero-based position directly after it, if any."""

    name: str
    index: int | None = None


class Path(Struct, frozen=True):
    """A field identifier without qualifier. ``str()`` gives its canonical text; equal paths have equal texts."""

    steps: tuple[Step, ...]

    def __str__(self) -> str:
        plain = "".join(f"/{s.name}" + (f"[{s.index}]" if s.index is not None else "") for s in self.steps)
        # Brackets only if a name needs them, so that equal paths have one text, whichever way they were written.
        if _is_plain(plain):
            return plain
        names = "".join("/" + s.name for s in self.steps)
        # In brackets only the last step can have a subscript, as in parsed paths.
        last = self.steps[-1].index
        return f"[{names}]" + (f"[{last}]" if last is not None else "")

    @property
    def names(self) -> tuple[str, ...]:
        """The member names alone."""
        return tuple(step.name for step in self.steps)


def _is_plain(text: str) -> bool:
    position = 0
    while position < len(text):
        match = _STEP_PATTERN.match(text, position)
        if match is None:
            return False
        position = match.end()
    return bool(text)


def parse_path(text: str) -> Path:
    """Read one identifier such as ``/orderId``, ``/a/b[0]`` or ``[/odd name/x]``.

    Raises :class:`~sowctl.errors.UsageError` ``SOW-VAL-001`` for anything else, ``SOW-VAL-021`` for more than
    :data:`MAX_PATH_STEPS` steps.
    """
    path = _read_path(text)
    if path is not None and len(path.steps) <= MAX_PATH_STEPS:
        return path
    if path is not None:
        raise UsageError(
            "SOW-VAL-021",
            f"a path of {len(path.steps):,} steps: {text[:40]}...",
            hint=f"the maximum is {MAX_PATH_STEPS} steps, the nesting limit of messages",
        )
    raise UsageError(
        "SOW-VAL-001",
        f"{text if len(text) < 200 else text[:200] + '...'!r} is not a field identifier",
        hint="write paths like /orderId, /customer/name, /items[0]/sku or [/odd name]",
    )


def split_list(text: str) -> list[str]:
    """Split a list of identifiers or other names at commas outside brackets; blanks around the parts are stripped."""
    parts, end = [], -1
    match_part = re.compile(_LIST_PART).match
    while end < len(text):
        part = match_part(text, end + 1)
        assert part is not None  # it may be empty
        parts.append(part[0].strip(_BLANKS))
        end = part.end()
    return parts


def parse_position(digits: str) -> int:
    """Return the position that digits denote. Python refuses very long integers, and no list is that long."""
    return int(digits) if len(digits) <= _MAX_INDEX_DIGITS else 10**_MAX_INDEX_DIGITS


def _read_path(text: str) -> Path | None:
    """Parse a path; None if the text is not one."""
    bracket = _BRACKET_PATTERN.match(text)
    if bracket is not None:
        names = bracket.group(1)[1:].split("/")
        if all(names):
            index = parse_position(bracket.group(2)) if bracket.group(2) is not None else None
            return Path((*(Step(name) for name in names[:-1]), Step(names[-1], index)))
    elif _is_plain(text):
        return Path(
            tuple(Step(m[1], parse_position(m[2]) if m[2] is not None else None) for m in _STEP_PATTERN.finditer(text))
        )
    return None


_CAPITALS_TABLE = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def fold_case(name: str) -> str:
    """Return a name as DuckDB and SQLite compare names: without case in ASCII."""
    return name.translate(_CAPITALS_TABLE)
