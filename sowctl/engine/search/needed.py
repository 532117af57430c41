"""The traces of a filter (:mod:`sowctl.engine.search.prefilter`): found in its conditions, one by one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from sowctl.engine.search.numerals import spelled
from sowctl.engine.search.prefilter import Trace, Traces, numbers, words
from sowctl.expressions.rewrites.intervals import bounds_of, strings_of
from sowctl.expressions.syntax.nodes import Affix, Between, Compare, Field, Like, Literal, Node, Pattern
from sowctl.store.integrity import SECRET_SIZE, Marks

MOST_WORDS = 6
"""Looking for one of so many takes 0.4 microseconds a record, and decoding it 0.5."""
LONGEST = 1000
"""The pattern engine takes no pattern above 64 KiB."""
_BEGINNING = re.compile(rb"\^?([A-Za-z0-9 _,:;/@!%&~'<>=#`-]+)(.?)")


def looked_for(conditions: Sequence[Node], random: Callable[[int], bytes]) -> Traces | None:
    """What finds the messages for which all ``conditions`` may be true; None where they need not show anything."""
    traces = traces_of(conditions)
    return Traces(traces, Marks(random(SECRET_SIZE))) if traces else None


def traces_of(conditions: Sequence[Node]) -> list[Trace]:
    """What a JSON message must show for all ``conditions`` to be true; single words first."""
    found = [words(texts) for texts in dict.fromkeys(_words(conditions))]
    found += [words(pieces, whole=False) for pieces in dict.fromkeys(_pieces(conditions))]
    found.sort(key=lambda trace: len(trace.texts))
    return found + [numbers(name, text) for name, text in dict.fromkeys(_numbers(conditions))]


def _words(conditions: Sequence[Node]) -> Iterator[tuple[bytes, ...]]:
    for condition in conditions:
        texts = strings_of(condition)
        if texts and len(texts) <= MOST_WORDS and all(map(_is_plain, texts)):
            yield texts


def _pieces(conditions: Sequence[Node]) -> Iterator[tuple[bytes, ...]]:
    for condition in conditions:
        if not isinstance(condition, Affix | Like) or condition.negated or not isinstance(condition.operand, Field):
            continue
        pieces = [needed_piece(condition.pattern)] if isinstance(condition, Like) else _members(condition.items)
        if len(pieces) <= MOST_WORDS and all(map(_is_piece, pieces)):
            yield tuple(pieces)  # type: ignore[arg-type]


def _members(items: Sequence[Node]) -> list[bytes | None]:
    return [item.value if isinstance(item, Literal) and isinstance(item.value, bytes) else None for item in items]


def _is_piece(piece: bytes | None) -> bool:
    """Whether a text of which this is a part stands in the message. That of a Boolean does not: it is a digit."""
    return piece is not None and piece not in (b"0", b"1") and _is_plain(piece)


def needed_piece(pattern: Pattern) -> bytes | None:
    """Bytes that every text with a match has in it, as far as they stand at the beginning of the pattern."""
    if pattern.exact:
        return pattern.text
    start = _BEGINNING.match(pattern.text)
    if start is None or b"|" in pattern.text or b"(?" in pattern.text:
        return None
    return start[1][:-1] if start[2] in (b"*", b"?", b"{") else start[1]


def _numbers(conditions: Sequence[Node]) -> Iterator[tuple[bytes, bytes]]:
    for condition in conditions:
        field = condition.left if isinstance(condition, Compare) else None
        field = condition.operand if isinstance(condition, Between) else field
        bounds = bounds_of(condition)
        if bounds is None or not isinstance(field, Field):
            continue
        name, text = field.path.steps[-1].name.encode(), spelled(bounds)
        if text is not None and _is_plain(name):
            yield name, text


def _is_plain(text: bytes) -> bool:
    """Whether JSON can spell a text only by itself, or with a backslash; and it is not too long to be looked for."""
    return 0 < len(text) <= LONGEST and b'"' not in text and b"\\" not in text and min(text) >= 0x20
