"""Tokens of expression texts (``sowctl-expressions(7)``, lexical rules and the slash rule).

A token is (kind, start, end) in characters. The first lexical fault ends the list as an ``ERROR`` token, so that the
parser reports an earlier fault of syntax first.
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
"""Keywords that are a value or end one: a slash after them divides."""

KEYWORDS = _OPERAND_END_KEYWORDS | frozenset(
    ("AND", "OR", "NOT", "IN", "LIKE", "BETWEEN", "BEGINS", "ENDS", "WITH", "IS")
)
KEYWORDS |= frozenset(("IF", "MOD", "AS", "OF", "HINT"))

# Written as what they exclude: a class that names all of Unicode takes milliseconds to compile.
_STEP_START = "[^\\x00-/:-@\\[-\\^`{-\\x7f]"
_STEP_PART = "[^\\x00-,/;-@\\[-\\^`{-\\x7f]"
# A step may begin with a digit, so that /055 is a path; the subscript touches its step and holds digits only.
STEP_PATTERN = f"@?{_STEP_START}{_STEP_PART}*"
PATH_PATTERN = f"/{STEP_PATTERN}(?:\\[[0-9]+\\])?(?:/{STEP_PATTERN}(?:\\[[0-9]+\\])?)*"
BRACKETED_PATH_PATTERN = "\\[/[^\\]]*\\](?:\\[[0-9]+\\])?"
_QUALIFIED_PATTERN = f"(?:\\[[^\\]]+\\]\\.){{1,2}}(?:{PATH_PATTERN}|{BRACKETED_PATH_PATTERN})"
# A bracket followed by a dot is a qualifier: the lookahead keeps it from being read as a path of its own.
_FIELD_PATTERN = f"{_QUALIFIED_PATTERN}|{PATH_PATTERN}|\\[/[^\\]]*\\](?!\\.)(?:\\[[0-9]+\\])?"
_STRING_PATTERN = "'[^'\\\\]*(?:\\\\.[^'\\\\]*)*'|\"[^\"\\\\]*(?:\\\\.[^\"\\\\]*)*\""
# The order of the alternatives decides. A FIELD takes the words inside a path, so AND may be the name of a step; RAW
# stands before WORD, or r'a' would begin with the word r. Atomic groups keep NUMBER from giving back digits: 12AND is
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
# A name and its parenthesis may stand apart. The token is the name alone; the parenthesis is a token of its own.
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
"""What other languages write, and what to write here."""


class LexicalFault(Struct, frozen=True):
    """A lexical fault: code, words, place."""

    code: str
    what: str
    at: int
    hint: str | None = None

    def build_error(self, text: str) -> ExpressionError:
        """The fault as the error to raise."""
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
        # A slash begins a path, unless what stands before it is a value: then it divides. The pattern cannot see what
        # stands before, so ``divides`` remembers it, and a FIELD behind a value gives up all but its slash.
        if kind == "WORD":
            word = text[start:position].upper()
            # Keywords ignore case. MOD is an operator like any other of its level, so the grammar sees TIMES.
            if word in KEYWORDS:
                kind = "TIMES" if word == "MOD" else word
                divides = word in _OPERAND_END_KEYWORDS
            # A word that is no keyword is the name of a function if a parenthesis follows, and nothing else.
            elif _match_call(text, position):
                kind, divides = "NAME", False
            else:
                position = start
                break
        elif kind == "FIELD" and divides and text[start] == "/":
            kind, position, divides = "TIMES", start + 1, False
        elif kind == "TIMES" and not divides and text[start] == "/":
            # a slash where a value must stand and that begins no path: a malformed path, not a division
            position = start
            break
        else:
            # Behind a closing parenthesis a slash divides as behind any value: (/a)/4, ABS(/a)/4.
            divides = kind in _DIVISION_PRECEDERS
        add((kind, start, position))
        if kind == "END":
            return tokens, None
    at = _match_space(text, position).end()  # type: ignore[union-attr]  # it matches nothing as well
    # The fault is not raised here: the parser may find one of syntax in front of it, and the first one is reported.
    fault = _find_fault(text, at)
    add(("ERROR", at, at))
    return tokens, fault


def _find_fault(text: str, at: int) -> LexicalFault:
    character = text[at]
    # The order decides which fault is named: what stands here looks most like the first that fits.
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
            # A join may leave the brackets out, an expression may not.
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
    """Suggest the character of the language for one that looks like it, as text processors make them."""
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
# The escapes are sought in bytes: of a character beyond ASCII the first byte follows the backslash and stands for
# itself.
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
    # A backslash before any other character stands for that character.
    return _NAMED_ESCAPES.get(match[3], match[3])


_QUOTED_PATTERN = re.compile(r"\\(.)", re.DOTALL)


def decode_pattern(token: str) -> tuple[bytes, bool]:
    """Bytes of a pattern and whether it is exact: only the backslash before the delimiting quote is removed."""
    if token[0] in "rR":
        return token[2:-1].encode(), True
    quote = token[0]
    # Every other backslash belongs to the engine of regular expressions, also one before the other kind of quote.
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
