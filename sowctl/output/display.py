"""Escapes any text or bytes for display: the only function between data and a terminal.

Used for table cells, messages, file names, keys and configuration values. A payload may contain escape sequences that
move the cursor, change the window's title or reverse the reading direction; here they become visible text.
"""

from __future__ import annotations

import re

_UNSAFE_CHARACTERS = (
    "["
    "\x00-\x1f\x7f-\x9f"  # C0, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction marks, embeddings, overrides, isolates
    "\u200b\u2060-\u2064\ufeff"  # zero-width spaces, joiners and operators: two texts that look alike would differ
    "\u2028\u2029"  # line and paragraph separator
    "\ufff9-\ufffb\U000e0000-\U000e007f"  # interlinear annotation and tag characters: invisible text
    "\ud800-\udfff"  # surrogates; the low ones represent bytes that are not UTF-8
    "]"
)
"""A regular expression, like the next ones; ``re`` compiles each on first use (together 1.5 ms of a start)."""
_LONE_SURROGATES = "[\ud800-\udfff]"
EXCERPT_CHARACTERS = 100
"""Maximum length of the excerpt of a line of input, in characters before escaping."""
_CONTROL_BYTES = rb"[\x00-\x08\x0b-\x1f\x7f]"
_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escape_line(data: bytes | str) -> str:
    """One line of text without control characters: ``\\n \\r \\t``, ``\\x1b`` for bytes, ``\\u202e`` for characters."""
    text = data.decode("utf-8", "surrogateescape") if isinstance(data, bytes) else data
    # Most texts return here, without the search.
    if text.isascii() and text.isprintable():
        return text
    return re.sub(_UNSAFE_CHARACTERS, lambda match: _escape_character(match[0]), text)


def escape_surrogates(text: str) -> str:
    """JSON text with an escape such as ``\\ud800`` for every unpaired surrogate, which has no encoding.

    In a JSON text that is the original escape; elsewhere it is what a table and JSON show, instead of U+FFFD for all.
    """
    return text if text.isascii() else re.sub(_LONE_SURROGATES, lambda match: f"\\u{ord(match[0]):04x}", text)


def escape_lines(data: bytes | str) -> str:
    """Text without control characters except line feeds, tabs as spaces: for excerpts and texts of several lines."""
    text = data.decode("utf-8", "surrogateescape") if isinstance(data, bytes) else data
    return "\n".join(escape_line(line.replace("\t", "    ")) for line in text.split("\n"))


def format_excerpt(line: bytes, column: int | None) -> str:
    """A line of input in at most :data:`EXCERPT_CHARACTERS` characters, and below it a caret under ``column``, counted
    from 1."""
    text = line.decode("utf-8", "surrogateescape")
    at = (column or 1) - 1
    begin = max(0, min(at - EXCERPT_CHARACTERS // 2, len(text) - EXCERPT_CHARACTERS))
    front, back = "..." if begin else "", "..." if begin + EXCERPT_CHARACTERS < len(text) else ""
    shown = front + escape_line(text[begin : begin + EXCERPT_CHARACTERS]) + back
    # Measured after escaping: an escape is wider than its character.
    return shown if column is None else f"{shown}\n{' ' * measure_width(front + escape_line(text[begin:at]))}^"


def escape_json(data: bytes) -> bytes:
    """JSON text for a terminal: unsafe characters inside its strings become ``\\u`` escapes, so it stays valid JSON."""
    if data.isascii() and not re.search(_CONTROL_BYTES, data):
        return data
    text = data.decode("utf-8", "surrogateescape")
    return re.sub(_UNSAFE_CHARACTERS, lambda match: _escape_json_character(match[0]), text).encode(
        "utf-8", "surrogatepass"
    )


def _escape_character(character: str) -> str:
    code = ord(character)
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escape_json_character(character: str) -> str:
    code = ord(character)
    if character in "\n\t":
        return character
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x10000:
        return f"\\u{code:04x}"
    # JSON escapes have only four digits, so such a character becomes a surrogate pair.
    return f"\\u{0xD7C0 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def measure_width(text: str) -> int:
    """The width of displayed text in terminal columns: wide characters count two, combining ones none."""
    if text.isascii():
        return len(text)
    # rich includes the tables of the Unicode standard; it is imported (14 ms) only for non-ASCII texts
    from rich.cells import cell_len

    return cell_len(text)


def clip_text(text: str, columns: int, mark: str = "...") -> str:
    """``text`` cut to at most ``columns`` columns, ending in ``mark`` if it was cut."""
    if measure_width(text) <= columns:
        return text
    if columns <= len(mark):
        return mark[:columns]
    kept, used = [], 0
    for character in text:
        # Columns, not characters, are counted: a wide character has two.
        used += measure_width(character)
        if used > columns - len(mark):
            break
        kept.append(character)
    return "".join(kept) + mark


def clip_front(text: str, columns: int, mark: str = "...") -> str:
    """``text`` without its beginning, at most ``columns`` columns, beginning with ``mark`` if it was cut."""
    if measure_width(text) <= columns:
        return text
    if columns <= len(mark):
        return mark[:columns]
    kept = text
    while measure_width(kept) > columns - len(mark):
        kept = kept[1:]
    return mark + kept
