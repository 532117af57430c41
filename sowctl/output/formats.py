"""The table of output formats. A format exists if and only if it has a row here; its module is imported when used."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import BinaryIO, Protocol

from msgspec import Struct

from sowctl.errors import UsageError
from sowctl.output.options import OutputOptions
from sowctl.output.records import Batch


class RenderResult(Struct, frozen=True):
    """The number of records written, and notes for the user; ``warnings`` about replaced values."""

    records: int
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class Renderer(Protocol):
    """One output format."""

    def __init__(self, options: OutputOptions) -> None: ...

    def write(self, batches: Iterable[Batch], out: BinaryIO) -> RenderResult:
        """Write all records as they arrive; errors of ``out.write`` are not caught."""
        ...


class Format(Struct, frozen=True):
    """One row: its name, module and class in ``sowctl.output``, its description, and whether it is binary.

    ``takes``: the options that it supports, of those that only some formats support.
    """

    name: str
    module: str
    renderer: str
    summary: str
    binary: bool = False
    takes: tuple[str, ...] = ()


_COLUMN_OPTIONS = ("--columns", "--no-headers")
_CHOSEN = ("--columns",)
_DELIMITER_OPTIONS = ("--null", "--delimiter")
FORMATS: tuple[Format, ...] = (
    Format("table", "table", "TableRenderer", "columns for people; the default on a terminal", takes=_COLUMN_OPTIONS),
    Format(
        "ndjson", "ndjson", "NdjsonRenderer", "one JSON value a line; the default elsewhere", takes=_DELIMITER_OPTIONS
    ),
    Format("json", "jsonarray", "JsonRenderer", "one JSON array"),
    Format(
        "csv",
        "delimited",
        "CsvRenderer",
        "comma-separated, quoted where needed, with a header; the default elsewhere with --columns or --no-headers",
        takes=_COLUMN_OPTIONS,
    ),
    Format(
        "tsv", "delimited", "TsvRenderer", "tab-separated with backslash escapes, with a header", takes=_COLUMN_OPTIONS
    ),
    Format(
        "raw",
        "raw",
        "RawRenderer",
        "payload bytes, each followed by a delimiter or preceded by its length",
        takes=(*_DELIMITER_OPTIONS, "--length-prefix"),
    ),
    Format(
        "template",
        "template",
        "TemplateRenderer",
        "a text of your own for each record",
        takes=("--template", *_DELIMITER_OPTIONS),
    ),
    Format("msgpack", "msgpackstream", "MsgpackRenderer", "a stream of MessagePack maps", binary=True, takes=_CHOSEN),
    Format(
        "parquet",
        "arrow_formats",
        "ParquetRenderer",
        "a Parquet file, typed columns (extra arrow)",
        binary=True,
        takes=_CHOSEN,
    ),
    Format(
        "arrow",
        "arrow_formats",
        "ArrowRenderer",
        "an Arrow IPC stream, typed columns (extra arrow)",
        binary=True,
        takes=_CHOSEN,
    ),
)
BINARY_FORMATS = frozenset(line.name for line in FORMATS if line.binary) | {"sqlite"}
"""Formats of binary files."""
_PREFERRED_FORMATS = ("ndjson", "raw", "template")
"""Formats to choose from, in this order, if the default formats do not support a given option."""


def options_by_format() -> dict[str, tuple[str, ...]]:
    """The options that each format supports, of those that only some formats support."""
    return {line.name: line.takes for line in FORMATS} | {"sqlite": _CHOSEN}


def choose_format(wanted: str | None, *, terminal: bool, given: Sequence[str] = (), ending: str | None = None) -> str:
    """The format to use: the wanted one, else that of the file's ``ending``, else table on a terminal and ndjson
    elsewhere, or one that supports ``given``.

    These are the options that only some formats support. Raises UsageError ``SOW-OUT-012`` for one that the chosen
    format does not support, so that no option is without effect.
    """
    usual = "table" if terminal else "csv" if set(_COLUMN_OPTIONS) & set(given) else "ndjson"
    takes = options_by_format()
    if wanted is not None:
        found = wanted
    elif ending is not None and set(given) <= set(takes.get(ending, ())):
        found = ending
    else:
        # Without --format the options decide: the first default format that supports all of them.
        found = next((name for name in (usual, *_PREFERRED_FORMATS) if set(given) <= set(takes[name])), usual)
    # Users would assume that an ignored option had worked.
    foreign = next((name for name in given if name not in takes.get(found, given)), None)
    if foreign is not None:
        able = [line.name for line in FORMATS if foreign in line.takes]
        either = ", ".join(able[:-1]) + (" or " if able[:-1] else "") + able[-1]
        hint = f"leave it out, or take --format {either}"
        raise UsageError("SOW-OUT-012", f"{foreign} cannot be used with format {found}", hint=hint)
    return found


def make_renderer(name: str, options: OutputOptions) -> Renderer:
    """The renderer of a format.

    Raises :class:`~sowctl.errors.UsageError` ``SOW-OUT-010`` for an unknown name and ``SOW-OUT-011`` if binary data
    would be written to a terminal.
    """
    found = next((line for line in FORMATS if line.name == name), None)
    if found is None:
        names = ", ".join(line.name for line in FORMATS)
        raise UsageError("SOW-OUT-010", f"unknown output format {name!r}", hint=f"use one of {names}")
    # Such bytes could move the cursor or make the terminal unusable.
    if options.terminal is not None and (found.binary or (name == "raw" and options.length_prefix)):
        raise UsageError(
            "SOW-OUT-011",
            f"{name} output is binary and cannot be written to a terminal",
            hint="use a pipe or file, or --output FILE",
        )
    renderer: type[Renderer] = getattr(importlib.import_module(f"sowctl.output.{found.module}"), found.renderer)
    return renderer(options)
