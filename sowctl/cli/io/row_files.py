"""Files of rows that ``publish --from`` names: which format each has, and its source of messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sowctl.cli.io.sources import open_input
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.writing.batches import MessageSource

DELIMITED_ENDINGS = ("csv", "tsv")
COLUMN_ENDINGS = ("parquet", "pq", "arrow", "feather", "ipc", "arrows")
JSON_LINES_ENDINGS = ("ndjson", "jsonl")
_COMPRESSION_ENDINGS = ("gz", "zst")
_DELIMITER_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}
"""Words for characters that a command line does not like."""
_FORBIDDEN_DELIMITERS = frozenset('"\\\r\n\0\ufeff')


def find_format(name: str) -> str:
    """The ending that says the format of a file. Raises UsageError ``SOW-EXC-002``."""
    parts = Path(name).name.lower().split(".")
    packed = parts.pop() if parts[-1] in _COMPRESSION_ENDINGS else None
    ending = parts[-1] if len(parts) > 1 else ""
    known = (
        (*DELIMITED_ENDINGS, *JSON_LINES_ENDINGS)
        if packed
        else (*DELIMITED_ENDINGS, *COLUMN_ENDINGS, *JSON_LINES_ENDINGS)
    )
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


def parse_types(texts: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Parse ``--type COLUMN=KIND``. Raises UsageError ``SOW-EXC-010``."""
    from sowctl.arrow.rows import TEXT_KINDS
    from sowctl.cli.parsing.synonyms import TYPE_SYNONYMS

    found: dict[str, str] = {}
    for text in texts:
        column, _, kind = text.rpartition("=")
        if not column or kind not in TEXT_KINDS:
            known = TYPE_SYNONYMS.get(kind.lower())
            hint = f"use for example --type qty=integer; types: {', '.join(TEXT_KINDS)}"
            hint = f"did you mean --type {column}={known}?" if column and known else hint
            raise UsageError("SOW-EXC-010", f"--type {text!r} is not COLUMN=TYPE", hint=hint)
        if "," in column and "=" in column:
            hint = "give --type once per column: --type id=integer --type qty=integer"
            raise UsageError("SOW-EXC-010", f"--type {text!r} names several columns", hint=hint)
        found[column.removeprefix("/")] = kind
    if found and not all(find_format(name) in DELIMITED_ENDINGS for name in names):
        raise UsageError(
            "SOW-EXC-010", "--type is only for csv and tsv: other files declare the types of their columns"
        )
    return found


class RowOptions(Struct, frozen=True):
    """Options of rows: ``types`` of columns, ``delimiter`` (None: by the ending), cell words that are ``nulls``."""

    types: Mapping[str, str]
    delimiter: str | None = None
    nulls: Sequence[str] = ()


def parse_row_options(
    types: Sequence[str], delimiter: str | None, nulls: Sequence[str], names: Sequence[str]
) -> RowOptions:
    """Parse ``--type``, ``--delimiter`` and ``--null-text`` for these files. Raises UsageError ``SOW-EXC-010``."""
    if delimiter is not None:
        delimiter = _DELIMITER_NAMES.get(delimiter, delimiter)
        if len(delimiter) != 1 or delimiter in _FORBIDDEN_DELIMITERS:
            words = f"--delimiter {delimiter!r} is not a single valid character"
            raise UsageError("SOW-EXC-010", words, hint="use for example ';', '|' or tab")
    options = [name for name, given in (("--delimiter", delimiter is not None), ("--null-text", nulls)) if given]
    if options and not all(find_format(name) in DELIMITED_ENDINGS for name in names):
        raise UsageError("SOW-EXC-010", f"{options[0]} is only for csv and tsv: other files do not require it")
    return RowOptions(parse_types(types, names), delimiter, nulls)


def open_row_sources(
    instance: Instance, topic: str, message_type: str | None, names: Sequence[str], reading: RowOptions
) -> Iterator[tuple[str, MessageSource]]:
    """Name and source of each file in turn. Raises what opening and reading them raise, UsageError ``SOW-EXC-010``."""
    from sowctl.arrow.message_encoder import find_root
    from sowctl.arrow.requirements import require_packages
    from sowctl.arrow.rows import Dialect
    from sowctl.arrow.table_source import RowTarget, open_column_source, open_delimited_source
    from sowctl.engine.topics.targets import find_publish_topic
    from sowctl.messages.framing.frames import FrameReader

    config = find_publish_topic(instance, topic, message_type)
    kind = instance.find_message_type(config.message_type)
    made = RowTarget(kind, find_root(config), by_user=config.key_mode == "user")
    for name in names:
        ending = find_format(name)
        stream: Any
        with open_input(name) as stream:
            if ending in JSON_LINES_ENDINGS:
                if not kind.json_text:
                    raise UsageError("SOW-EXC-010", f"JSON lines are not messages of type {kind.name}")
                yield name, FrameReader(stream, "lines", name=name, kind=kind.kind)
                continue
            if not kind.constructible and ending in DELIMITED_ENDINGS:
                raise UsageError("SOW-EXC-010", f"messages of type {kind.name} cannot be constructed from columns")
            if ending in DELIMITED_ENDINGS:
                separator = reading.delimiter or ("\t" if ending == "tsv" else ",")
                dialect = Dialect(separator, ending != "tsv", frozenset(("", *reading.nulls)))
                guesses = reading.delimiter is None
                yield name, open_delimited_source(name, stream, made, reading.types, dialect, guesses=guesses)
            else:
                require_packages(f"{name}", "pyarrow")
                yield name, open_column_source(name, stream, made, parquet=ending in ("parquet", "pq"))
