"""Field identifiers: ``/a/b[0]/@x`` and ``[/odd name]`` as tuples of steps."""

from __future__ import annotations

from sowctl.errors import UsageError
from sowctl.patterns import pattern
from sowctl.plain import dataclass

# The classes name what no step holds: letters, digits, _ and all beyond ASCII start one, - . : go on. Naming all of
# Unicode instead would cost milliseconds at every start.
_STEP = pattern(r"/(@?[^\x00-/:-@\[-\^`{-\x7f][^\x00-,/;-@\[-\^`{-\x7f]*)(?:\[([0-9]+)\])?")
_BRACKET = pattern(r"\[(/[^\]]+)\](?:\[([0-9]+)\])?$")


@dataclass(frozen=True, slots=True)
class Step:
    """One step: a member name and the zero-based position touching it, if any."""

    name: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Path:
    """A field identifier without qualifier. ``str()`` gives its canonical text; equal paths have equal texts."""

    steps: tuple[Step, ...]

    def __str__(self) -> str:
        plain = "".join(f"/{s.name}" + (f"[{s.index}]" if s.index is not None else "") for s in self.steps)
        if _is_plain(plain):
            return plain
        names = "".join("/" + s.name for s in self.steps)
        last = self.steps[-1].index
        return f"[{names}]" + (f"[{last}]" if last is not None else "")

    @property
    def names(self) -> tuple[str, ...]:
        """The member names alone."""
        return tuple(step.name for step in self.steps)


def _is_plain(text: str) -> bool:
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            return False
        position = match.end()
    return bool(text)


def parse_path(text: str) -> Path:
    """Read one identifier such as ``/orderId``, ``/a/b[0]`` or ``[/odd name/x]``.

    Raises :class:`~sowctl.errors.UsageError` ``SOW-VAL-001`` for anything else.
    """
    bracket = _BRACKET.match(text)
    if bracket is not None:
        names = bracket.group(1)[1:].split("/")
        if all(names):
            index = int(bracket.group(2)) if bracket.group(2) is not None else None
            return Path((*(Step(name) for name in names[:-1]), Step(names[-1], index)))
    elif _is_plain(text):
        return Path(tuple(Step(m[1], int(m[2]) if m[2] is not None else None) for m in _STEP.finditer(text)))
    raise UsageError(
        "SOW-VAL-001",
        f"{text!r} is not a field identifier",
        hint="identifiers look like /orderId, /customer/name, /items[0]/sku or [/odd name]",
    )
