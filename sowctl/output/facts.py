"""Facts for people on a terminal: names and their descriptions, in lines that break between words.

Nothing is cut. Names are in a column; a name that would leave too little room has a line of its own. All text is
escaped by ``escape_line``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from sowctl.output.display import escape_line, measure_width

_GAP = "  "
_MIN_TEXT_COLUMNS = 24
"""Minimum columns of texts beside their names; on a narrower terminal they are below the names."""
_INDENT_COLUMNS = 4
"""Indentation of a text below its name."""


class Fact(Struct, frozen=True):
    """``mark`` is before the name, in the colour ``style``; ``hint`` is below the text."""

    name: str
    text: str
    mark: str = ""
    style: str | None = None
    hint: str | None = None


def format_facts(
    facts: Sequence[Fact], columns: int, paint: Callable[[str, str], str] = lambda style, text: text
) -> Iterator[str]:
    """The lines, without line feeds, none wider than ``columns``; ``paint`` applies the colour of a style to a text."""
    front = max((measure_width(fact.mark) for fact in facts), default=0)
    front += len(_GAP) if front else 0
    names = [size for fact in facts if (size := measure_width(escape_line(fact.name))) <= columns // 3]
    indent = front + max(names, default=0) + len(_GAP)
    beside = columns - indent >= _MIN_TEXT_COLUMNS
    indent = indent if beside else _INDENT_COLUMNS
    for fact in facts:
        mark = f"{fact.mark:{front}}" if fact.style is None else paint(fact.style, f"{fact.mark:{front}}")
        heads = list(wrap_text(fact.name, columns - front))
        texts = list(wrap_text(fact.text, columns - indent))
        if beside and front + measure_width(heads[0]) <= indent - len(_GAP) and texts:
            heads[0] += " " * (indent - front - measure_width(heads[0])) + texts.pop(0)
        yield (mark + heads[0]).rstrip()
        yield from (" " * front + line for line in heads[1:])
        yield from (" " * indent + line for line in texts)
        for line in wrap_text(fact.hint or "", columns - indent):
            yield " " * indent + paint("hint", line)


def wrap_list_line(line: str, columns: int) -> Iterator[str]:
    """A line of a list, wrapped; further lines are below its last column, which moves to a new line if there is no room
    for it."""
    text = escape_line(line)
    if measure_width(text) <= columns:
        yield text
        return
    indent = len(text) - len(text.lstrip(" "))
    gaps = [gap.end() for gap in re.finditer(r"(?<=\S) {2,}(?=\S)", text)]
    cut = gaps[-1] if gaps else indent
    if not gaps:
        # Continuation lines are indented a little more.
        first, *rest = wrap_text(text[indent:], columns - indent)
        yield " " * indent + first
        yield from (" " * (indent + 2) + one for one in wrap_text(" ".join(rest), columns - indent - 2))
        return
    if columns - cut >= _MIN_TEXT_COLUMNS:
        first, *rest = wrap_text(text[cut:], columns - cut)
        yield text[:cut] + first
        yield from (" " * cut + one for one in rest)
        return
    yield from (" " * indent + one for one in wrap_text(text[indent:cut].rstrip(), columns - indent))
    yield from (
        " " * (indent + _INDENT_COLUMNS) + one for one in wrap_text(text[cut:], columns - indent - _INDENT_COLUMNS)
    )


def wrap_text(text: str, columns: int) -> Iterator[str]:
    """``text`` in lines of at most ``columns`` columns, broken between words; a word that is too long is broken
    anywhere."""
    line = ""
    for word in escape_line(text).split(" "):
        joined = f"{line} {word}" if line else word
        if measure_width(joined) <= columns:
            line = joined
            continue
        if line:
            yield line
        while measure_width(word) > columns:
            end = len(word)
            while measure_width(word[:end]) > columns:
                end -= 1
            # A path is broken after a slash, if possible.
            end = word.rfind("/", 1, end) + 1 or max(end, 1)
            yield word[:end]
            word = word[end:]
        line = word
    if line:
        yield line


def wrap_words(text: str, columns: int, first: str = "", rest: str = "") -> Iterator[str]:
    """``text`` in lines of at most ``columns`` columns, broken only at spaces: a longer word has a longer line.

    ``first`` precedes the first line, ``rest`` the others. The text is already escaped.
    """
    line, empty = first, True
    for word in text.split(" "):
        joined = f"{line}{word}" if empty else f"{line} {word}"
        if not empty and measure_width(joined) > columns:
            yield line.rstrip()
            joined = rest + word
        line, empty = joined, False
    yield line.rstrip()
