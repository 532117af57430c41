"""The element table as a RELAX NG grammar, for editors that check and complete while typing.

RELAX NG, because it can express that children come in any order, each with its own multiplicity; XML Schema 1.0 cannot.
``GRAMMAR_NOTES`` lists what it cannot express either. Ruled by ``sow-config(5)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sowctl.config.elements.descriptions import find_meaning
from sowctl.config.elements.element import Element
from sowctl.config.elements.instance import INSTANCE
from sowctl.config.schema import describe_value
from sowctl.messages.xml.tree import escape_text

GRAMMAR_NOTES = (
    "An Include stands for the root of its file: what only an included file has is reported as missing.",
    "Bounds of numbers, intervals and sizes are not checked.",
    "Expressions, patterns, options of modules and references between elements are not looked into.",
    "A text with a variable, ${NAME}, is right everywhere.",
)
"""The limits of the grammar."""
_BLANK = r"[ \t\r\n]*"
_NUMBER = r"[0-9]+(\.[0-9]+)?"
_INTERVAL = rf"{_NUMBER}([nNuUmM]?[sS]|[mMhHdDwW])?"
_PATTERNS = {
    "interval": _INTERVAL,
    "expiration": f"{_INTERVAL}|{{enabled}}|{{disabled}}",
    "expiration:queue": _INTERVAL,
    "bytes": rf"{_NUMBER}{_BLANK}[kKmMgGtT]?[bB]?",
    "count": "[0-9]+[kKmM]?",
    "byte": "[0-9]{{1,3}}",
    "switch": "{true}|{false}|{enabled}|{disabled}",
    "percent": rf"[0-9]{{{{1,3}}}}(\.[0-9]+)?{_BLANK}%?",
    "octal": "[0-7]{{3,4}}",
    "version": r"[0-9]+(\.[0-9]+){{0,3}}",
    "field": r"[/\[](.|\n)*",
    "address": r"(.*:)?[0-9]{{1,5}}",
    "string": r"(.|\n)*\S(.|\n)*",
    "path": r"(.|\n)*\S(.|\n)*",
}


def format_grammar() -> Iterator[str]:
    """The lines of the grammar in XML syntax."""
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield "<!-- A configuration of topics and everything around them. Not expressed:"
    yield from (f"     {line}" for line in GRAMMAR_NOTES)
    yield "-->"
    yield '<grammar xmlns="http://relaxng.org/ns/structure/1.0"'
    yield '         xmlns:a="http://relaxng.org/ns/compatibility/annotations/1.0"'
    yield '         datatypeLibrary="http://www.w3.org/2001/XMLSchema-datatypes">'
    yield '  <start><element name="AMPSConfig">'
    yield from _format_children(INSTANCE, "", "    ")
    yield "  </element></start>"
    yield '  <define name="include"><zeroOrMore><element name="Include">'
    yield '    <optional><attribute name="comment"/></optional><text/>'
    yield "  </element></zeroOrMore></define>"
    yield '  <define name="anything"><interleave><text/><zeroOrMore><element><anyName/>'
    yield '    <zeroOrMore><attribute><anyName/></attribute></zeroOrMore><ref name="anything"/>'
    yield "  </element></zeroOrMore></interleave></define>"
    yield "</grammar>"


def _format_children(row: Element, path: str, indent: str) -> Iterator[str]:
    # Elements of different names may come in any order.
    yield f"{indent}<interleave>"
    yield f'{indent}  <ref name="include"/>'
    for child in row.children:
        yield from _format_repeated(child, f"{path}/{child.tag}" if path else child.tag, indent + "  ")
    if row.kind == "open":
        names = (name for child in row.children for name in _list_names(child))
        # Known elements are excluded from the wildcard, or their content would be unchecked.
        excluded = "".join(f"<name>{name}</name>" for name in (*names, "Include"))
        yield f"{indent}  <zeroOrMore><element><anyName><except>{excluded}</except></anyName>"
        yield f'{indent}    <ref name="anything"/></element></zeroOrMore>'
    yield f"{indent}</interleave>"


def _list_names(row: Element) -> tuple[str, ...]:
    return (row.tag, *(name for name, _ in row.synonyms))


def _format_repeated(row: Element, path: str, indent: str) -> Iterator[str]:
    times = {"0..1": "optional", "0..n": "zeroOrMore", "1..n": "oneOrMore"}.get(row.times)
    inner = indent
    if times is not None:
        yield f"{indent}<{times}>"
        inner = indent + "  "
    names = _list_names(row)
    chosen = f"<choice>{''.join(f'<name>{name}</name>' for name in names)}</choice>"
    opening = f'<element name="{row.tag}">' if len(names) == 1 else f"<element>{chosen}"
    yield f"{inner}{opening}"
    default = "" if row.default is None else f" Default: {row.default}."
    text = f"{find_meaning(path).text}. Value: {describe_value(row)}.{default}"
    yield f"{inner}  <a:documentation>{escape_text(text[0].upper() + text[1:])}</a:documentation>"
    yield from _format_content(row, path, inner + "  ")
    yield f"{inner}</element>"
    if times is not None:
        yield f"{indent}</{times}>"


def _format_content(row: Element, path: str, indent: str) -> Iterator[str]:
    if row.kind == "opaque":
        yield f'{indent}<ref name="anything"/>'
    elif row.kind == "mixed":
        yield f"{indent}<choice>"
        yield from _format_children(row, path, indent + "  ")
        yield f"{indent}  {_format_data(_PATTERNS['string'])}"
        yield f"{indent}</choice>"
    elif row.kind in ("section", "open"):
        yield from _format_children(row, path, indent)
    else:
        pattern = "|".join(f"{{{value}}}" for value in row.values) if row.kind == "enum" else _PATTERNS.get(row.kind)
        yield f"{indent}{'<text/>' if pattern is None else _format_data(pattern)}"


def _format_data(pattern: str) -> str:
    """A text that matches ``pattern``, with optional surrounding white space, or contains a variable; words in braces
    match in any letter case."""
    shape = re.sub(r"\{\{|\}\}|\{([^{}]+)\}", _format_word, pattern)
    # A variable may replace any part of a value, so a text with one is accepted.
    whole = rf"{_BLANK}({shape}){_BLANK}|(.|\n)*\$\{{[^}}]*\}}(.|\n)*"
    return f'<data type="string"><param name="pattern">{escape_text(whole)}</param></data>'


def _format_word(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[0][0]
    # Patterns of XML Schema cannot ignore letter case, so each letter is given in both.
    return "".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else re.escape(c) for c in match[1])
