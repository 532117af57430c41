"""Errors of expression texts: a code, the position in the text, the line with a caret, similar names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sowctl.errors import LimitError, UsageError

FOREIGN_FUNCTIONS: dict[str, str] = {
    "CHAR_LENGTH": "LENGTH",
    "CHARINDEX": "INSTR",
    "CURRENT_TIMESTAMP": "UNIX_TIMESTAMP",
    "DATE_FORMAT": "STRFTIME",
    "IFNULL": "COALESCE",
    "IIF": "IF",
    "LEN": "LENGTH",
    "LOCATE": "INSTR",
    "LCASE": "LOWER",
    "LISTAGG": "GROUP_CONCAT",
    "MEAN": "AVG",
    "NOW": "UNIX_TIMESTAMP",
    "NVL": "COALESCE",
    "POSITION": "INSTR",
    "POW": "POWER",
    "REGEXP_EXTRACT": "REGEXP_MATCH",
    "REGEXP_LIKE": "REGEXP_MATCH",
    "REGEXP_SUBSTR": "REGEXP_MATCH",
    "SIZE": "ARRAY_COUNT",
    "STDDEV": "STDDEV_SAMP",
    "STRING_AGG": "GROUP_CONCAT",
    "STRLEN": "LENGTH",
    "STRPOS": "INSTR",
    "STR_TO_DATE": "STRPTIME",
    "SUBSTRING": "SUBSTR",
    "TO_CHAR": "STRFTIME",
    "TO_DATE": "STRPTIME",
    "TOLOWER": "LOWER",
    "TOUPPER": "UPPER",
    "UCASE": "UPPER",
}
"""Functions of other languages, each with the equivalent of this language; for suggestions only."""
EXCERPT_CHARACTERS = 100
"""Maximum length of the part of a line in an excerpt, in characters."""


class ExpressionError(UsageError):
    """An expression that cannot be compiled. ``line`` and ``column`` are 1-based and count characters."""

    @property
    def line(self) -> int:
        """The line of the text, from 1."""
        return int(self.facts["line"])

    @property
    def column(self) -> int:
        """The character in the line, from 1."""
        return int(self.facts["column"])


def build_expression_error(
    code: str, what: str, text: str, offset: int, *, hint: str | None = None, names: Iterable[str] = ()
) -> ExpressionError:
    """An error at character ``offset`` of ``text``; similar ones of ``names`` are suggested in the message."""
    line, column, excerpt = locate_offset(text, offset)
    message = f"{what} at line {line}, column {column}"
    near = list(names)
    if near:
        message += f" (did you mean {' or '.join(near)}?)"
    facts: dict[str, Any] = {"line": line, "column": column}
    return ExpressionError(code, message, hint=hint, excerpt=excerpt, **facts)


def locate_offset(text: str, offset: int) -> tuple[int, int, str]:
    """Line, column and excerpt (the line and a caret under the character) of an offset."""
    # Only LF ends a line; the CR of a CRLF is part of the line break and is not shown.
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    line = text[start : len(text) if end < 0 else end].removesuffix("\r")
    column = offset - start
    shown, caret = line, column
    # Of a long line the part around the error is shown, so that the caret is always under its character.
    if len(line) > EXCERPT_CHARACTERS:
        begin = max(0, min(column - EXCERPT_CHARACTERS // 2, len(line) - EXCERPT_CHARACTERS))
        shown = line[begin : begin + EXCERPT_CHARACTERS]
        caret -= begin
        if begin:
            shown, caret = "..." + shown, caret + 3
        if begin + EXCERPT_CHARACTERS < len(line):
            shown += "..."
    # One character for each character shown: a tab or a control character would displace the caret.
    clean = "".join(c if c.isprintable() else " " if c == "\t" else "\ufffd" for c in shown)
    return text.count("\n", 0, start) + 1, column + 1, f"  {clean}\n  {' ' * caret}^"


def find_near_names(name: str, known: Iterable[str], distance: int = 2, most: int = 3) -> list[str]:
    """Up to ``most`` known names within an edit distance of ``name``, nearest first, then alphabetical.

    For another language's name of a function (:data:`FOREIGN_FUNCTIONS`) the only result is that function. For names of
    fewer than four characters the distance is one edit: with two, almost every short name is near every other.
    """
    wanted = name.upper()
    # Computing the distance takes time proportional to both lengths, and such a long word is not a typing error.
    if len(wanted) > 64:
        return []
    known = list(known)
    if FOREIGN_FUNCTIONS.get(wanted) in known:
        return [FOREIGN_FUNCTIONS[wanted]]
    distance = min(distance, 1) if len(wanted) < 4 else distance
    found = sorted(
        (gap, other) for other in known if (gap := compute_edit_distance(wanted, other, distance)) <= distance
    )
    return [other for _, other in found[:most]]


def compute_edit_distance(a: str, b: str, limit: int) -> int:
    """Insertions, deletions and substitutions from ``a`` to ``b``; above ``limit``: limit + 1."""
    # Each edit changes the length by at most one, so most names are excluded without a table.
    if abs(len(a) - len(b)) > limit:
        return limit + 1
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        # One row of the table at a time: distances from the first characters of a to all prefixes of b.
        before, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y)))
    return min(row[-1], limit + 1)


_BOUND_HINTS = {
    "SOW-EXP-030": "nested quantifiers such as (a+)+ try too many ways; make them possessive or anchor the pattern",
    "SOW-EXP-034": "nested quantifiers such as (a+)+ try too many ways; make them possessive or anchor the pattern",
    "SOW-EXP-035": "nested REPLACE, REGEXP_REPLACE and CONCAT multiply a text; take a part of it with SUBSTR first",
}


class BoundExceededError(Exception):
    """A bound of evaluation was exceeded on a message; generated code turns it into a LimitError that has its index."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(words)
        self.code = code
        self.words = words

    def at(self, index: int) -> LimitError:
        """The error, on the record at ``index`` of the batch.

        Callers that know the batch add the record to the error's location: an index is meaningless to users.
        """
        return LimitError(self.code, self.words, hint=_BOUND_HINTS.get(self.code), index=index)


class MatchLimitExceededError(BoundExceededError):
    """One pattern match took too many steps."""

    def __init__(self, pattern: bytes) -> None:
        shown = pattern.decode("utf-8", "replace")
        if len(shown) > 60:
            shown = shown[:60] + "..."
        super().__init__("SOW-EXP-030", f"the pattern {shown!r} exceeded the match limit")
