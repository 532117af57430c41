"""The table of output formats. A format exists if and only if it has a line here; its module is imported when used."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import BinaryIO, Protocol

from sowctl.errors import UsageError
from sowctl.output.options import OutputOptions
from sowctl.output.records import Batch
from sowctl.tuples import NamedTuple


class Rendered(NamedTuple):
    """What was written: how many records, and what somebody should know about it."""

    records: int
    notes: tuple[str, ...] = ()


class Renderer(Protocol):
    """One output format."""

    def __init__(self, options: OutputOptions) -> None: ...

    def write(self, batches: Iterable[Batch], out: BinaryIO) -> Rendered:
        """Write all records as they come; what ``out.write`` raises goes through."""
        ...


class Format(NamedTuple):
    """One line: its name, module and class in ``sowctl.output``, what it is, and whether it is no text at all."""

    name: str
    module: str
    renderer: str
    summary: str
    binary: bool = False


FORMATS: tuple[Format, ...] = (
    Format("table", "table", "TableRenderer", "columns for people; the default on a terminal"),
    Format("ndjson", "ndjson", "NdjsonRenderer", "one JSON value a line; the default elsewhere"),
    Format("json", "jsonarray", "JsonRenderer", "one JSON array"),
    Format("csv", "delimited", "CsvRenderer", "comma-separated, quoted where needed, with a header"),
    Format("tsv", "delimited", "TsvRenderer", "tab-separated with backslash escapes, with a header"),
    Format("raw", "raw", "RawRenderer", "the payloads' bytes, each with a delimiter or behind its length"),
    Format("template", "template", "TemplateRenderer", "a text of your own for each record"),
    Format("msgpack", "msgpackstream", "MsgpackRenderer", "a stream of MessagePack maps", binary=True),
)


def choose(wanted: str | None, *, terminal: bool, template: bool = False) -> str:
    """The format to use: the wanted one, else template where one is given, else table on a terminal, else ndjson."""
    return wanted or ("template" if template else "table" if terminal else "ndjson")


def make(name: str, options: OutputOptions) -> Renderer:
    """The renderer of a format.

    Raises :class:`~sowctl.errors.UsageError` ``SOW-OUT-010`` for an unknown name and ``SOW-OUT-011`` where bytes that
    are no text would go to a terminal.
    """
    found = next((line for line in FORMATS if line.name == name), None)
    if found is None:
        names = ", ".join(line.name for line in FORMATS)
        raise UsageError("SOW-OUT-010", f"there is no output format {name!r}", hint=f"one of {names}")
    if options.terminal is not None and (found.binary or (name == "raw" and options.length_prefix)):
        raise UsageError(
            "SOW-OUT-011",
            f"{name} output is not text and would go to a terminal",
            hint="send it into a pipe or file, or use --output FILE",
        )
    renderer: type[Renderer] = getattr(importlib.import_module(f"sowctl.output.{found.module}"), found.renderer)
    return renderer(options)
