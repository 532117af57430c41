"""The options of a renderer, checked once: columns, delimiters, template, terminal."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from sowctl.errors import UsageError
from sowctl.output.records import METADATA_NAMES, MORE_METADATA_NAMES
from sowctl.values.paths import Path, parse_path, split_list
from sowctl.values.units import parse_whole_number

Column: TypeAlias = Path | str
"""A path into the payload, or one of ``COLUMN_NAMES``."""

COLUMN_NAMES = (*METADATA_NAMES, *MORE_METADATA_NAMES, "data", "length")
"""The names in ``--columns`` and ``--template`` besides paths: metadata, the payload and its length in bytes."""
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "\\": "\\"}


class Terminal(Struct, frozen=True):
    """The terminal of standard output: its width, its characters, and whether colours are wanted."""

    columns: int = 80
    encoding: str = "utf-8"
    colored: bool = False

    @property
    def shows_unicode(self) -> bool:
        """True if the terminal shows all characters."""
        return self.encoding.lower().replace("-", "") == "utf8"


class TableFit(Struct, frozen=True):
    """The columns to drop or shorten first if a table is wider than the terminal.

    ``spare``: columns to drop, in this order. ``repeated``: also drop columns with one value in all rows, and print
    their values in a note. ``paths``: columns that are cut at the front, since the end of a path is distinctive.
    ``state``: the column whose words have colours. ``figures``: columns of formatted numbers, which are right-aligned
    and never cut.
    """

    spare: tuple[str, ...] = ()
    repeated: bool = False
    paths: tuple[str, ...] = ()
    state: str | None = None
    figures: tuple[str, ...] = ()


NO_FIT = TableFit()
"""Texts are cut, and no column is dropped."""


class OutputOptions(Struct, frozen=True):
    """The options of a renderer.

    ``front`` are the columns of metadata. ``facts``: rows that are no records, so that no column is metadata.
    ``headers``: whether the names of columns precede the rows of csv, tsv and table.
    ``fit``: the columns to drop or shorten if a table is too wide.
    ``terminal`` is None if the output goes anywhere else: then nothing depends on widths or encodings.
    """

    meta: bool = False
    front: tuple[str, ...] = METADATA_NAMES
    columns: tuple[Column, ...] = ()
    delimiter: bytes = b"\n"
    length_prefix: bool = False
    template: str | None = None
    headers: bool = True
    facts: bool = False
    fit: TableFit = NO_FIT
    terminal: Terminal | None = None


def parse_columns(text: str, *, facts: bool = False) -> tuple[Column, ...]:
    """Parse columns such as ``/id,/customer/name,sow_key``; with ``facts``, a bare name is a column of the rows.

    Raises UsageError ``SOW-OUT-001`` or ``SOW-VAL-001``.
    """
    parts = split_list(text)
    # Rows that are no records have no metadata, so the name of a column needs no slash.
    return tuple(parse_path(f"/{part}") if facts and part.isidentifier() else parse_column(part) for part in parts)


def parse_column(text: str) -> Column:
    """Parse one column: a path, or a name in ``COLUMN_NAMES``. Raises as :func:`parse_columns`."""
    if text.startswith(("/", "[")):
        return parse_path(text)
    if text in COLUMN_NAMES:
        return text
    if text == "sowkey":  # as in the {sowkey} of other clients' format strings
        return "sow_key"
    raise UsageError(
        "SOW-OUT-001",
        f"{text!r} is neither a path nor one of {', '.join(COLUMN_NAMES)}",
        hint=f"paths begin with a slash: /{text}" if text else "use for example --columns /id,/price,sow_key",
    )


def parse_delimiter(text: str) -> bytes:
    """Parse a record delimiter: a byte as a decimal number, or a text with the escapes ``\n \r \t \0 \\``.

    Raises :class:`~sowctl.errors.UsageError` ``SOW-OUT-002`` for a number above 255.
    """
    number = parse_whole_number(text)
    if number is None:
        return unescape_text(text).encode("utf-8", "surrogateescape")
    if number > 255:
        raise UsageError(
            "SOW-OUT-002", f"delimiter {text}: the maximum is 255", hint="use for example 10 for line feed"
        )
    return bytes((number,))


def unescape_text(text: str) -> str:
    """Replace ``\\n \\r \\t \\0 \\\\`` by their characters; any other backslash stays."""
    parts, rest = [], text
    while rest:
        before, slash, rest = rest.partition("\\")
        parts.append(before)
        if slash:
            parts.append(_ESCAPES.get(rest[:1], "\\" + rest[:1]))
            rest = rest[1:]
    return "".join(parts)
