"""Tokens of filters in other languages (SQL, C, Python, JSONPath), for suggestions; ``lexer`` accepts fewer."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from msgspec import Struct

from sowctl.expressions.syntax.lexer import BRACKETED_PATH_PATTERN, PATH_PATTERN, STEP_PATTERN

ForeignKind: TypeAlias = Literal["path", "word", "string", "raw", "regex", "number", "operator", "method"]

_SPACE_PATTERN = re.compile(r"\s*")
# A hyphen inside a name is part of it, as in a path.
_WORD_PATTERN = r"[^\W\d]\w*(?:-[^\W\d]\w*)*"
_OPERATOR_PATTERN = re.compile(
    r"<=>|===|!==|==|!=|<>|<=|>=|=<|=>|=~\*?|!~~?\*?|~~?\*?|@>|&&|\|\||[&|!<>=≠≥≤¬∧∨+\-*%(),\[\]{};]|//?"
)
_RAW_PATTERN = re.compile(r"[rR](?:'[^']*'|\"[^\"]*\")")
# SQL doubles a quote inside a string.
_STRING_PATTERN = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"", re.DOTALL)
_TYPOGRAPHIC_STRING_PATTERN = re.compile(r"[“”„‟«»]([^“”„‟«»'\"\\]*)[“”„‟«»]|[‘’‚‛‹›]([^‘’‚‛‹›'\"\\]*)[‘’‚‛‹›]")
_NUMBER_PATTERN = re.compile(r"0[xX][0-9A-Fa-f]+|(?:[0-9][0-9_]*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_REGEX_PATTERN = re.compile(r"/((?:[^/\\]|\\.)+)/([a-z]*)")
_PATH_PATTERN = re.compile(f"{PATH_PATTERN}|{BRACKETED_PATH_PATTERN}(?!\\.)")
_START_PATTERN = re.compile(rf"\$?\.?(?:({_WORD_PATTERN})|`([^`]+)`)|\$?\[(['\"])([^'\"]+)\3\]|\[([^\W\d][\w ]*)\]")
# Parts after the first one: .name .`name` ->'name' ->>'name' ['name'] [0] [*] []
_PART_PATTERN = re.compile(
    rf"\.(?:({_WORD_PATTERN})|`([^`]+)`)|->>?\s*'([^']+)'|\[(['\"])([^'\"]+)\4\]|\[([0-9]+)\]|\[\*?\]"
)
_is_step = re.compile(STEP_PATTERN).fullmatch


class ForeignToken(Struct, frozen=True):
    """One token. ``text`` is as written, for a field the path in this language; ``changed``: it was written
    differently.

    ``name`` is the name of a single word or of a method (``/a.contains``), whose field is ``text``.
    """

    kind: ForeignKind
    text: str
    name: str = ""
    changed: bool = False

    @property
    def upper(self) -> str:
        """The word or operator in upper case."""
        return self.text.upper() if self.kind == "operator" else self.name.upper()


def tokenize_foreign(text: str) -> list[ForeignToken] | None:
    """The tokens of ``text``; None if it has something that no known language has."""
    tokens: list[ForeignToken] = []
    position = 0
    while True:
        position = _SPACE_PATTERN.match(text, position).end()  # type: ignore[union-attr]  # it matches nothing as well
        if position == len(text):
            return tokens
        last = tokens[-1] if tokens else None
        operand = last is None or (last.kind == "operator" and last.text not in (")", "]", "}"))
        read = _read_token(text, position, last, operand)
        if read is None:
            return None
        token, position = read
        tokens.append(token)


def _read_token(text: str, at: int, last: ForeignToken | None, operand: bool) -> tuple[ForeignToken, int] | None:
    """The token at a place and its end; ``operand``: an operand must begin here."""
    if found := _RAW_PATTERN.match(text, at):
        return ForeignToken("raw", found[0]), found.end()
    if found := _STRING_PATTERN.match(text, at):
        return ForeignToken("string", found[0]), found.end()
    if found := _TYPOGRAPHIC_STRING_PATTERN.match(text, at):
        return ForeignToken("string", f"'{found[1] or found[2] or ''}'", changed=True), found.end()
    if last is not None and "~" in last.text and last.kind == "operator" and (found := _REGEX_PATTERN.match(text, at)):
        flags = "".join(flag for flag in found[2] if flag in "imsx")
        return ForeignToken("regex", (f"(?{flags})" if flags else "") + found[1].replace("\\/", "/")), found.end()
    # After a value a slash is a division; after a word it begins a path, because the word may be an operator.
    if (operand or (last is not None and last.kind == "word")) and (found := _PATH_PATTERN.match(text, at)):
        return _read_parts(text, found.end(), found[0], [])
    if operand or text[at] != "[":
        found = _START_PATTERN.match(text, at)
        if found is not None and not (text[at] == "[" and last is not None and last.upper == "IN"):
            first = next(part for part in (found[1], found[2], found[4], found[5]) if part)
            plain = found[0] == first
            return _read_parts(text, found.end(), None, [first], plain=plain)
    if found := _NUMBER_PATTERN.match(text, at):
        if text[found.end() : found.end() + 1].isalnum() or text[found.end() : found.end() + 1] == "_":
            return None
        digits = found[0].replace("_", "")
        digits = str(int(digits, 16)) if digits[1:2] in ("x", "X") else digits
        return ForeignToken("number", digits, changed=digits != found[0]), found.end()
    if found := _OPERATOR_PATTERN.match(text, at):
        return ForeignToken("operator", found[0]), found.end()
    return None


def _read_parts(
    text: str, at: int, path: str | None, names: list[str], *, plain: bool = False
) -> tuple[ForeignToken, int] | None:
    """A field with the parts after its beginning, which is a ``path`` of this language or a name."""
    index, start = "", at
    while found := _PART_PATTERN.match(text, at):
        name = next((part for part in (found[1], found[2], found[3], found[5]) if part), None)
        if name is not None:
            if index:
                return None
            names.append(name)
        elif found[6]:
            index = f"[{found[6]}]"
        # All elements of an array: the meaning of a path without a subscript.
        plain, at = False, found.end()
    called = text[at : at + 1] == "("
    if path is not None and called and not names and "." in path.rpartition("/")[2]:
        path, _, method = path.rpartition(".")
        return ForeignToken("method", path, method), at
    if plain:
        return ForeignToken("word", names[0], names[0]), at
    method = names.pop() if called and names and (path or len(names) > 1) else ""
    built = _build_path(path or "", names, index)
    if built is None or (called and not method):
        return None
    return ForeignToken("method" if method else "path", built, method, path is None or at > start), at


def build_field(name: str) -> str | None:
    """The path of a field with a name; None if no path can have this name."""
    return _build_path("", [name], "")


def _build_path(path: str, names: list[str], index: str) -> str | None:
    if all(_is_step(name) for name in names) and (not names or not path.startswith("[")):
        return path + "".join(f"/{name}" for name in names) + index
    if path.startswith("[") or "[" in path or any("]" in name or "/" in name for name in names):
        return None
    return f"[{path}{''.join(f'/{name}' for name in names)}]{index}"
