"""Select lists: ``-/pocket,+/pocket/left`` (``sowctl-expressions(7)``, select list)."""

from __future__ import annotations

import re
from typing import NamedTuple

from msgspec import Struct

from sowctl.expressions.syntax.actions import split_path
from sowctl.expressions.syntax.errors import build_expression_error
from sowctl.expressions.syntax.lexer import BRACKETED_PATH_PATTERN, PATH_PATTERN, check_text
from sowctl.values.paths import Path

_DIRECTIVE_PATTERN = re.compile(
    f"[ \\t\\r\\n]*([+-])[ \\t\\r\\n]*({PATH_PATTERN}|{BRACKETED_PATH_PATTERN}|/)[ \\t\\r\\n]*"
)
_SPACE_PATTERN = re.compile("[ \\t\\r\\n]*")


class SelectDirective(NamedTuple):
    """Include or exclude the fields that a path covers; the path None covers all fields."""

    include: bool
    path: Path | None


class SelectList(Struct, frozen=True):
    """The directives of a select list as written."""

    directives: tuple[SelectDirective, ...]

    def is_included(self, names: tuple[str, ...]) -> bool:
        """Return whether a field is kept, by its member names: the most specific directive decides, then the first."""
        # A field that no directive covers is kept. ``/`` covers with no step, which is still more than no directive.
        longest, verdict = -1, True
        for include, path in self.directives:
            covered = () if path is None else path.names
            # Greater, not greater or equal: of directives for one path the first counts.
            if len(covered) > longest and names[: len(covered)] == covered:
                longest, verdict = len(covered), include
        return verdict


def parse_select(text: str) -> SelectList:
    """Read a select list, in square brackets or without. Raises ExpressionError ``SOW-EXP-025`` for a malformed one."""
    check_text(text)
    # A directive begins with its sign, so a leading bracket can only be that of the whole list.
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    directives = []
    position = 0
    while True:
        match = _DIRECTIVE_PATTERN.match(text, position)
        if match is None:
            raise _build_malformed_error(text, _skip_space(text, position))
        steps = split_path(match[2], text, match.start(2)) if match[2] != "/" else ()
        if steps is None:
            raise _build_malformed_error(text, match.start(2))
        directives.append(SelectDirective(match[1] == "+", Path(steps) if steps else None))
        position = match.end()
        if position == len(text):
            return SelectList(tuple(directives))
        if text[position] != ",":
            raise _build_malformed_error(text, position)
        position += 1


def _skip_space(text: str, position: int) -> int:
    match = _SPACE_PATTERN.match(text, position)
    return match.end() if match else position


def _build_malformed_error(text: str, at: int) -> Exception:
    hint = "a select list looks like -/,+/id,+/customer/name: a sign and a path, separated by commas"
    return build_expression_error("SOW-EXP-025", "malformed select list", text, at, hint=hint)
