"""Join conditions of views: ``[A]./x = [B]./y`` (``sowctl-expressions(7)``, join). The keys are not expressions."""

from __future__ import annotations

import re
from typing import NamedTuple

from sowctl.expressions.syntax.actions import split_path
from sowctl.expressions.syntax.errors import build_expression_error
from sowctl.expressions.syntax.lexer import BRACKETED_PATH_PATTERN, PATH_PATTERN, check_text
from sowctl.values.paths import Path

_SPACE_PATTERN = re.compile("[ \\t\\r\\n]*")
_QUALIFIER_PATTERN = re.compile("\\[([^\\]]+)\\]\\.")
_PATH_PATTERN = re.compile(f"{PATH_PATTERN}|{BRACKETED_PATH_PATTERN}")
# A topic without brackets ends at the first slash, where its field begins.
_UNBRACKETED_TOPIC = re.compile("[^/\\[\\]=]+(?=/)")


class JoinSide(NamedTuple):
    """Message type (None unless given), topic, and the key's path."""

    message_type: str | None
    topic: str
    path: Path


class Join(NamedTuple):
    """Every row of ``left``, with the rows of ``right`` whose key has the same text."""

    left: JoinSide
    right: JoinSide


def parse_join(text: str) -> Join:
    """Read a join condition. Raises ExpressionError ``SOW-EXP-026``."""
    check_text(text)
    left, position = _parse_side(text, _skip_space(text, 0))
    position = _skip_space(text, position)
    if text[position : position + 1] != "=":
        raise _build_malformed_error(text, position, "= is missing")
    position += 2 if text.startswith("==", position) else 1
    right, position = _parse_side(text, _skip_space(text, position))
    position = _skip_space(text, position)
    if position != len(text):
        raise _build_malformed_error(text, position, "unexpected text after the join")
    return Join(left, right)


def _parse_side(text: str, start: int) -> tuple[JoinSide, int]:
    position = start
    # One qualifier is a topic, two are a message type and a topic.
    names: list[str] = []
    while len(names) < 2 and (match := _QUALIFIER_PATTERN.match(text, position)):
        names.append(match[1])
        position = match.end()
    if not names:
        bare = _UNBRACKETED_TOPIC.match(text, position)
        # The dot between topic and field is optional here and not part of the name; only one is removed.
        topic = bare[0].removesuffix(".").strip(" \t\r\n") if bare else ""
        if bare is None or not topic:
            raise _build_malformed_error(text, position, "a topic is missing")
        names.append(topic)
        position = bare.end()
    match = _PATH_PATTERN.match(text, position)
    steps = split_path(match[0], text, position) if match else None
    if match is None or steps is None:
        raise _build_malformed_error(text, position, "a path is missing")
    return JoinSide(names[0] if len(names) == 2 else None, names[-1], Path(steps)), match.end()


def _skip_space(text: str, position: int) -> int:
    match = _SPACE_PATTERN.match(text, position)
    return match.end() if match else position


def _build_malformed_error(text: str, at: int, what: str) -> Exception:
    return build_expression_error(
        "SOW-EXP-026", what, text, at, hint="write a join like [orders]./customer = [customers]./id"
    )
