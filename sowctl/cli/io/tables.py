"""Files of rows that ``publish --from`` names: which format each has, and its source of messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sowctl.cli.io.sources import opened
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.writing.batching import MessageSource

TEXTS = ("csv", "tsv")
COLUMNS = ("parquet", "pq", "arrow", "feather", "ipc", "arrows")
LINES = ("ndjson", "jsonl")
_PACKED = ("gz", "zst")
_DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}
"""Words for characters that a command line does not like."""
_NO_DELIMITERS = frozenset('"\\\r\n\0\ufeff')


def format_of(name: str) -> str:
    """The ending that says the format of a file. Raises UsageError ``SOW-EXC-002``."""
    parts = Path(name).name.lower().split(".")
    packed = parts.pop() if parts[-1] in _PACKED else None
    ending = parts[-1] if len(parts) > 1 else ""
    known = (*TEXTS, *LINES) if packed else (*TEXTS, *COLUMNS, *LINES)
    if ending not in known:
        hint = (
            "one of "
            + ", ".join("." + one for one in known)
            + ("" if packed else "; text files may end with .gz or .zst")
        )
        if name == "-" or name.startswith("/dev/"):
            hint = (
                "the end of the file name selects the format, so write the rows to a file; JSON lines "
                "do not require --from"
            )
        raise UsageError("SOW-EXC-002", f"unsupported file name extension of {name!r}", hint=hint)
    return ending


def types_of(texts: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """What ``--type COLUMN=KIND`` says. Raises UsageError ``SOW-EXC-010``."""
    from sowctl.arrow.rows import TEXT_KINDS

    found: dict[str, str] = {}
    for text in texts:
        column, _, kind = text.rpartition("=")
        if not column or kind not in TEXT_KINDS:
            hint = f"use for example --type qty=integer; types: {', '.join(TEXT_KINDS)}"
            raise UsageError("SOW-EXC-010", f"--type {text!r} is not COLUMN=TYPE", hint=hint)
        if "," in column and "=" in column:
            hint = "give --type once per column: --type id=integer --type qty=integer"
            raise UsageError("SOW-EXC-010", f"--type {text!r} names several columns", hint=hint)
        found[column.removeprefix("/")] = kind
    if found and not all(format_of(name) in TEXTS for name in names):
        raise UsageError(
            "SOW-EXC-010", "--type is only for csv and tsv: other files declare the types of their columns"
        )
    return found


class Reading(Struct, frozen=True):
    """How rows are read: ``types`` of columns, the ``delimiter`` between cells (None: as the ending says), and words of
    cells that are ``nulls``, besides the empty one."""

    types: Mapping[str, str]
    delimiter: str | None = None
    nulls: Sequence[str] = ()


def reading_of(types: Sequence[str], delimiter: str | None, nulls: Sequence[str], names: Sequence[str]) -> Reading:
    """What ``--type``, ``--delimiter`` and ``--null-text`` say of these files. Raises UsageError ``SOW-EXC-010``."""
    if delimiter is not None:
        delimiter = _DELIMITERS.get(delimiter, delimiter)
        if len(delimiter) != 1 or delimiter in _NO_DELIMITERS:
            words = f"--delimiter {delimiter!r} is not a single valid character"
            raise UsageError("SOW-EXC-010", words, hint="use for example ';', '|' or tab")
    options = [name for name, given in (("--delimiter", delimiter is not None), ("--null-text", nulls)) if given]
    if options and not all(format_of(name) in TEXTS for name in names):
        raise UsageError("SOW-EXC-010", f"{options[0]} is only for csv and tsv: other files do not require it")
    return Reading(types_of(types, names), delimiter, nulls)


def row_sources(
    instance: Instance, topic: str, message_type: str | None, names: Sequence[str], reading: Reading
) -> Iterator[tuple[str, MessageSource]]:
    """Name and source of each file in turn. Raises what opening and reading them raise, UsageError ``SOW-EXC-010``."""
    from sowctl.arrow.build import root_of
    from sowctl.arrow.needed import need
    from sowctl.arrow.rows import Dialect
    from sowctl.arrow.source import Made, column_source, delimited_source
    from sowctl.engine.topics.targets import find_publishable
    from sowctl.messages.framing.frames import FrameReader

    config = find_publishable(instance, topic, message_type)
    kind = instance.type_of(config.message_type)
    made = Made(kind, root_of(config), by_user=config.key_mode == "user")
    for name in names:
        ending = format_of(name)
        stream: Any
        with opened(name) as stream:
            if ending in LINES:
                if not kind.json_text:
                    raise UsageError("SOW-EXC-010", f"JSON lines are not messages of type {kind.name}")
                yield name, FrameReader(stream, "lines", name=name, kind=kind.kind)
                continue
            if not kind.constructible and ending in TEXTS:
                raise UsageError("SOW-EXC-010", f"messages of type {kind.name} cannot be constructed from columns")
            if ending in TEXTS:
                separator = reading.delimiter or ("\t" if ending == "tsv" else ",")
                dialect = Dialect(separator, ending != "tsv", frozenset(("", *reading.nulls)))
                guesses = reading.delimiter is None
                yield name, delimited_source(name, stream, made, reading.types, dialect, guesses=guesses)
            else:
                need(f"{name}", "pyarrow")
                yield name, column_source(name, stream, made, parquet=ending in ("parquet", "pq"))
