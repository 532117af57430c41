"""The tables of elements in ``sow-config(5)``, as roff, made from the element table.

The text between the two marks of the page is regenerated (``generators.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sowctl.cli.manual.roff import escape_text
from sowctl.config.elements.element import Element, walk_rows
from sowctl.config.elements.instance import INSTANCE
from sowctl.config.elements.modules import ACTION_MODULES
from sowctl.config.schema import ElementRow, describe_value, iterate_rows

PAGE_FILE = "sow-config.5"
BEGIN_MARK = '.\\" begin: made by python -m sowctl.cli.manual'
END_MARK = '.\\" end: made by python -m sowctl.cli.manual'
_KIND_NAMES = {"every": "interval or time", "usage": "percentage", "interval": "interval", "regex": "pattern"}
_REPEATED_ELEMENTS = {"LocalQueue": "Queue", "GroupLocalQueue": "Queue"}
"""Elements with the same children as another, which are listed only once."""


def generate_pages(directory: Path) -> dict[str, str]:
    """The page by its name, with fresh tables. Raises OSError."""
    return {PAGE_FILE: renew_tables((directory / PAGE_FILE).read_text(encoding="utf-8"))}


def renew_tables(page: str) -> str:
    """The page with fresh tables between its marks."""
    before, _, rest = page.partition(BEGIN_MARK + "\n")
    _, _, after = rest.partition(END_MARK + "\n")
    return "".join((before, BEGIN_MARK, "\n", *(line + "\n" for line in build_tables()), END_MARK, "\n", after))


def build_tables() -> Iterator[str]:
    """The lines of all tables."""
    yield from (".SS Elements", *_build_intro(), ".na", ".TS", "l1 l1 l1 lw(27n).")
    yield r"\fBelement\fR	\fBtimes\fR		\fBvalue; default. Meaning\fR"
    for row in iterate_rows():
        if not any(f"/{name}/" in f"/{row.path}" for name in _REPEATED_ELEMENTS):
            yield from _format_entry(row)
    yield from (
        ".TE",
        ".ad l",
        ".SS Other names",
        "An old name is read like the present name; lint reports it under the rule.",
    )
    yield from (".TS", "l l l.", r"\fBold\fR	\fBpresent\fR	\fBrule\fR")
    yield from _list_synonyms()
    yield from (".TE", ".SS Retired elements", ".TS", "l l.", r"\fBelement\fR	\fBrule\fR")
    yield from dict.fromkeys(
        f"{escape_text(row.row.tag)}	{row.row.retired}" for row in iterate_rows() if row.row.retired
    )
    yield from (".TE", ".SS Modules of actions")
    yield "The options of each module. A star marks required options. The type is text unless stated otherwise."
    yield from (".na", ".TS", "l lw(34n).", r"\fBmodule\fR	\fBoptions\fR")
    for modules in ACTION_MODULES.values():
        for name, module in modules.items():
            options = ", ".join(
                _format_option(option, kind, module.required) for option, kind in module.options.items()
            )
            yield from (
                f"{escape_text(name.removeprefix('amps-action-'))}	T{{",
                escape_text(options) or "none",
                "T}",
            )
    yield from (".TE", ".ad l")


def _build_intro() -> tuple[str, ...]:
    return (
        "Children are indented below their parent.",
        "The second column says how often an element may occur.",
        "The third column has",
        ".B +",
        "if sowctl acts on the element, and is empty if sowctl only checks it.",
        "The last column has the type of the value, the default after a semicolon, and the meaning.",
        "LocalQueue and GroupLocalQueue have the same children as Queue.",
        "An element that is not listed is an error, and so is a listed element in the wrong place.",
    )


def _format_entry(row: ElementRow) -> tuple[str, ...]:
    value = describe_value(row.row)
    if row.row.default is not None:
        value += f"; {row.row.default}"
    bounds = _format_bounds(row.row)
    text = f"{value}{bounds}. {row.text[0].upper()}{row.text[1:]}."
    mark = "+" if row.acted else ""
    return (
        f"{'  ' * row.depth}{escape_text(row.row.tag)}	{row.row.times}	{mark}	T{{",
        escape_text(text),
        "T}",
    )


def _format_bounds(row: Element) -> str:
    if row.low is not None and row.high is not None:
        return f", {row.low} to {row.high}"
    if row.low is not None:
        return f", at least {row.low}"
    return f", at most {row.high}" if row.high is not None else ""


def _list_synonyms() -> Iterator[str]:
    found: dict[tuple[str, str, str], None] = {}
    for _, row in walk_rows(INSTANCE):
        for name, rule in row.synonyms:
            found[(name, row.tag, rule or "")] = None
    for old, present, rule in found:
        yield f"{escape_text(old)}	{escape_text(present)}	{rule}"


def _format_option(name: str, kind: str, required: tuple[str, ...]) -> str:
    star = "*" if name in required else ""
    return f"{name}{star} ({_KIND_NAMES.get(kind, kind)})" if kind else f"{name}{star}"
