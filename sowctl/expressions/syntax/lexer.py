"""Tokens of expression texts (``sowctl-expressions(7)``, lexical rules and the slash rule).

A token is (kind, start, end) in characters. The first lexical error ends the list as an ``ERROR`` token, so that the
parser reports an earlier syntax error first.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from msgspec import Struct

from sowctl.expressions.syntax.errors import ExpressionError, build_expression_error

Token: TypeAlias = tuple[str, int, int]
"""Kind (a terminal of the grammar), first character, one past the last."""

_VALUE_KEYWORDS = frozenset(("NULL", "NAN", "TRUE", "FALSE"))
_FINAL_KEYWORDS = frozenset(("CURRENT", "PREVIOUS", "OPTIONAL", "SET_CURRENT", "ASC", "DESC", "TEXT"))
_OPERAND_END_KEYWORDS = _VALUE_KEYWORDS | _FINAL_KEYWORDS
"""Keywords that are a value or end one: a slash after them is a division."""

KEYWORDS = _OPERAND_END_KEYWORDS | frozenset(
    ("AND", "OR", "NOT", "IN", "LIKE", "BETWEEN", "BEGINS", "ENDS", "WITH", "IS")
)
KEYWORDS |= frozenset(("IF", "MOD", "AS", "OF", "HINT"))

# Written as negated classes: a class that lists all of Unicode takes milliseconds to compile.
_STEP_START = "[^\\x00-/:-@\\[-\\^`{-\\x7f]"
_STEP_PART = "[^\\x00-,/;-@\\[-\\^`{-\\x7f]"
# A step may begin with a digit, so that /055 is a path; the subscript follows its step directly and has only digits.
STEP_PATTERN = f"@?{_STEP_START}{_STEP_PART}*"
PATH_PATTERN = f"/{STEP_PATTERN}(?:\\[[0-9]+\\])?(?:/{STEP_PATTERN}(?:\\[[0-9]+\\])?)*"
BRACKETED_PATH_PATTERN = "\\[/[^\\]]*\\](?:\\[[0-9]+\\])?"
_QUALIFIED_PATTERN = f"(?:\\[[^\\]]+\\]\\.){{1,2}}(?:{PATH_PATTERN}|{BRACKETED_PATH_PATTERN})"
# A bracket followed by a dot is a qualifier: the lookahead prevents reading it as a separate path.
_FIELD_PATTERN = f"{_QUALIFIED_PATTERN}|{PATH_PATTERN}|\\[/[^\\]]*\\](?!\\.)(?:\\[[0-9]+\\])?"
_STRING_PATTERN = "'[^'\\\\]*(?:\\\\.[^'\\\\]*)*'|\"[^\"\\\\]*(?:\\\\.[^\"\\\\]*)*\""
# The order of the alternatives matters. A FIELD includes the words inside a path, so AND may be the name of a step; RAW
# is before WORD, or r'a' would begin with the word r. Atomic groups prevent backtracking in NUMBER: 12AND is
# one malformed number and not two tokens.
_TOKEN_PATTERN = re.compile(
    "[ \\t\\r\\n]*(?:"
    f"(?P<FIELD>{_FIELD_PATTERN})"
    f"|(?P<RAW>[rR](?:'[^']*'|\"[^\"]*\"))"
    "|(?P<WORD>[A-Za-z_][A-Za-z0-9_]*)"
    "|(?P<NUMBER>(?>[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(?>(?:[eE][+-]?[0-9]+)?)(?![A-Za-z_]|[^\\x00-\\x7f]))"
    f"|(?P<STRING>{_STRING_PATTERN})"
    "|(?P<COMPARE>==?|!=|<>|<=?|>=?)"
    "|(?P<SIGN>[+-])|(?P<TIMES>[*%/])|(?P<LPAR>\\()|(?P<RPAR>\\))|(?P<COMMA>,)|(?P<END>\\Z))",
    re.DOTALL,
).match
_match_space = re.compile("[ \\t\\r\\n]*").match
# There may be space between a name and its parenthesis. The token is only the name; the parenthesis is another token.
_match_call = re.compile("[ \\t\\r\\n]*\\(").match
_DIVISION_PRECEDERS = frozenset(("FIELD", "RAW", "NUMBER", "STRING", "RPAR"))


_FOREIGN_OPERATORS = {
    "&": "use the operator AND",
    "|": "use the operator OR; CONCAT joins strings",
    "!": "write NOT, or <> between two values",
    "#": "comments are not supported",
    ";": "one expression, without a mark at its end",
    "ILIKE": "write LIKE '(?i)...' to ignore case",
    "RLIKE": "LIKE takes a regular expression",
    "REGEXP": "LIKE takes a regular expression",
    "STARTS": "write BEGINS WITH",
    "CASE": "write IF(condition, value, other)",
    "XOR": "write (a) <> (b)",
    "DIV": "use the operator /, which truncates Integers",
    "NIL": "write NULL",
    "NONE": "write NULL",
}
"""Operators and words of other languages, and what to write here."""


class LexicalFault(Struct, frozen=True):
    """A lexical error: code, description, position."""

    code: str
    what: str
    at: int
    hint: str | None = None

    def build_error(self, text: str) -> ExpressionError:
        """The exception for this error."""
        return build_expression_error(self.code, self.what, text, self.at, hint=self.hint)


def check_text(text: str) -> None:
    """Refuse a text that is not UTF-8 (lone surrogates). Raises ExpressionError ``SOW-EXP-009``."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise build_expression_error("SOW-EXP-009", "the text is not UTF-8", text, error.start) from None


def tokenize(text: str) -> tuple[list[Token], LexicalFault | None]:
    """The tokens of ``text``, the last of kind ``END_MARK``, or ``ERROR`` together with the fault."""
    tokens: list[Token] = []
    add = tokens.append
    position = 0
    divides = False
    match = _TOKEN_PATTERN
    while True:
        found = match(text, position)
        if found is None:
            break
        kind: str = found.lastgroup  # type: ignore[assignment]  # every alternative is a named group
        start, position = found.span(kind)
        # A slash begins a path, unless it follows a value: then it is a division. The pattern does not include the
        # preceding token, so ``divides`` stores this, and a FIELD after a value is reduced to its slash.
        if kind == "WORD":
            word = text[start:position].upper()
            # Keywords ignore case. MOD is an operator like the others of its level, so the grammar has only TIMES.
            if word in KEYWORDS:
                kind = "TIMES" if word == "MOD" else word
                divides = word in _OPERAND_END_KEYWORDS
            # A word that is not a keyword is the name of a function if a parenthesis follows, and nothing else.
            elif _match_call(text, position):
                kind, divides = "NAME", False
            else:
                position = start
                break
        elif kind == "FIELD" and divides and text[start] == "/":
            kind, position, divides = "TIMES", start + 1, False
        elif kind == "TIMES" and not divides and text[start] == "/":
            # a slash in operand position that begins no path: a malformed path, not a division
            position = start
            break
        else:
            # After a closing parenthesis a slash is a division as after any value: (/a)/4, ABS(/a)/4.
            divides = kind in _DIVISION_PRECEDERS
        add((kind, start, position))
        if kind == "END":
            return tokens, None
    at = _match_space(text, position).end()  # type: ignore[union-attr]  # it also matches the empty text
    # The error is not raised here: the parser may find a syntax error before it, and the first one is reported.
    fault = _find_fault(text, at)
    add(("ERROR", at, at))
    return tokens, fault


def _find_fault(text: str, at: int) -> LexicalFault:
    character = text[at]
    # The order determines which error is reported: the first kind that fits is the most similar.
    if character in "'\"" or (character in "rR" and text[at + 1 : at + 2] in ("'", '"')):
        return LexicalFault("SOW-EXP-003", "string is not closed", at, "close it with the same quote")
    if character == "/":
        return LexicalFault(
            "SOW-EXP-004",
            "malformed path",
            at,
            "a step starts with a letter, digit, _ or @; for other names write [/odd name]",
        )
    if character == "[":
        return _bracket_fault(text, at)
    if character in ".0123456789" and (character != "." or text[at + 1 : at + 2] in tuple("0123456789")):
        return LexicalFault(
            "SOW-EXP-002", "malformed number", at, "numbers are decimal and cannot be followed by letters"
        )
    word = re.compile("[A-Za-z_][A-Za-z0-9_]*").match(text, at)
    if word is not None:
        name = word[0]
        if text.startswith("./", word.end()):
            # A join may omit the brackets, an expression may not.
            return LexicalFault(
                "SOW-EXP-006", f"{name} is neither a field nor a function", at, f"write [{name}]./ for its fields"
            )
        hint = (
            _FOREIGN_OPERATORS.get(name.upper())
            or f"write /{name} for a field, {name}() for a function, or '{name}' for text"
        )
        return LexicalFault("SOW-EXP-006", f"{name} is neither a field nor a function", at, hint)
    shown = character if character.isprintable() else f"U+{ord(character):04X}"
    return LexicalFault(
        "SOW-EXP-001", f"unexpected {shown}", at, _FOREIGN_OPERATORS.get(character) or _ascii_hint(character)
    )


def _ascii_hint(character: str) -> str | None:
    """Suggest the character of the language for a similar one, as inserted by text processors."""
    if character in "“”„‟«»‘’‚‛‹›":
        return "write straight quotation marks: '"
    if character in "‐‑‒–—−":
        return "write the hyphen of ASCII: -"
    from unicodedata import normalize

    plain = normalize("NFKC", character)
    return f"write {plain!r} of ASCII" if len(plain) == 1 and plain.isascii() and not character.isascii() else None


def _bracket_fault(text: str, at: int) -> LexicalFault:
    close = text.find("]", at)
    if close < 0:
        return LexicalFault("SOW-EXP-005", "bracket is not closed", at, "close it with ]")
    if text[close + 1 : close + 2] == ".":
        return LexicalFault("SOW-EXP-005", "qualifier without path", at, "write a qualified field like [topic]./a")
    return LexicalFault(
        "SOW-EXP-005", "not a path in brackets", at, "a path in brackets starts with a slash: [/odd name]"
    )


# Octal escapes are three digits of which the first is 0 to 3, one byte; \477 is therefore the character 4 and then 77.
# The escapes are searched in bytes: for a character beyond ASCII the first byte follows the backslash and is kept
# as it is.
_ESCAPE_PATTERN = re.compile(rb"\\(?:x([0-9A-Fa-f]{2})|([0-3][0-7]{2})|(.))", re.DOTALL)
_NAMED_ESCAPES = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"f": b"\f", b"r": b"\r"}


def decode_string(token: str) -> bytes:
    """The bytes of a string or raw string token."""
    if token[0] in "rR":
        return token[2:-1].encode()
    raw = token[1:-1].encode()
    return _ESCAPE_PATTERN.sub(_decode_escape, raw) if b"\\" in raw else raw


def _decode_escape(match: re.Match[bytes]) -> bytes:
    if match[1] is not None:
        return bytes([int(match[1], 16)])
    if match[2] is not None:
        return bytes([int(match[2], 8)])
    # A backslash before any other character means that character.
    return _NAMED_ESCAPES.get(match[3], match[3])


_QUOTED_PATTERN = re.compile(r"\\(.)", re.DOTALL)


def decode_pattern(token: str) -> tuple[bytes, bool]:
    """Bytes of a pattern and whether it is exact: only the backslash before the delimiting quote is removed."""
    if token[0] in "rR":
        return token[2:-1].encode(), True
    quote = token[0]
    # Every other backslash belongs to the regular expression engine, also one before the other kind of quote.
    return _QUOTED_PATTERN.sub(lambda m: quote if m[1] == quote else m[0], token[1:-1]).encode(), False


_QUALIFIER_PARTS = re.compile(r"\[([^\]]+)\]\.")


def split_field(token: str) -> tuple[tuple[str, ...], str]:
    """Qualifiers and path text of a FIELD token."""
    qualifiers = []
    position = 0
    while match := _QUALIFIER_PARTS.match(token, position):
        qualifiers.append(match[1])
        position = match.end()
    return tuple(qualifiers), token[position:]
