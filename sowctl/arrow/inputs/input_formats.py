"""Formats of inputs of rows: by name, by content, their options, and how an input was read.

Imported for every ``publish``, so it imports nothing that reads rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from sowctl.errors import UsageError

ENDINGS: Mapping[str, str] = {
    "csv": "csv",
    "tsv": "tsv",
    "parquet": "parquet",
    "pq": "parquet",
    "arrow": "arrow",
    "feather": "arrow",
    "ipc": "arrow",
    "arrows": "arrow",
    "ndjson": "ndjson",
    "jsonl": "ndjson",
    "json": "json",
    "msgpack": "msgpack",
    "sqlite": "sqlite",
    "sqlite3": "sqlite",
    "db": "sqlite",
}
"""The format of a file by its extension."""
INPUT_FORMATS = ("csv", "tsv", "json", "ndjson", "parquet", "arrow", "msgpack", "sqlite")
DELIMITED_FORMATS = ("csv", "tsv")
PARTITIONED_FORMATS = ("csv", "tsv", "parquet", "arrow")
"""Formats whose rows get the partition columns of their directories; messages of the others are unchanged."""
TEXT_FORMATS = ("csv", "tsv", "json", "ndjson")
"""Formats of files that may be compressed, and whose rows have lines."""
_COMPRESSION_ENDINGS = ("gz", "zst")
_PARQUET_MAGIC = b"PAR1"
ARROW_FILE_MAGIC = b"ARROW1"
"""The first bytes of Arrow's file format; its stream format has others."""
_SQLITE_MAGIC = b"SQLite format 3\0"
_ARROW_STREAM_MAGIC = b"\xff\xff\xff\xff"
HEAD_BYTES = 4096
"""Number of bytes from which the format of an input without a name is detected."""


class DelimitedOptions(Struct, frozen=True):
    """How CSV and TSV are read: ``types`` of columns, the others detected unless ``all_text``; ``delimiter`` (None:
    detected from the header); words that are ``nulls``; ``headers``: the first row names the columns; ``columns``:
    their names otherwise; ``shares_types``: ``types`` may have columns that only other inputs of the run have."""

    types: Mapping[str, str] = {}
    all_text: bool = False
    delimiter: str | None = None
    nulls: Sequence[str] = ()
    headers: bool = True
    columns: Sequence[str] = ()
    shares_types: bool = False


class InputOptions(Struct, frozen=True):
    """How inputs of rows are read: their ``format`` (None: by name or content), CSV and TSV, the ``table`` of a
    database."""

    format: str | None = None
    delimited: DelimitedOptions = field(default_factory=DelimitedOptions)
    table: str | None = None


class InputColumn(Struct):
    """A column of a file: its name, its type, whether that was detected; how many later cells have another type and are
    text instead, and the line of the first one."""

    name: str
    type: str
    detected: bool
    exceptions: int = 0
    first_exception: int | None = None


class InputFacts(Struct):
    """How a file of rows was read. ``delimiter`` and ``columns`` only for CSV and TSV."""

    name: str
    format: str
    delimiter: str | None = None
    headers: bool | None = None
    columns: list[InputColumn] = field(default_factory=list)


def find_format(name: str) -> str | None:
    """Return the format of a file by its extension; None for an unknown one."""
    parts = Path(name).name.lower().split(".")
    is_packed = parts[-1] in _COMPRESSION_ENDINGS
    if is_packed:
        parts.pop()
    found = ENDINGS.get(parts[-1]) if len(parts) > 1 else None
    return None if is_packed and found not in TEXT_FORMATS else found


def choose_format(name: str, given: str | None = None) -> str | None:
    """Return the format of an input: ``given``, or that of its name; None if it must be detected.

    Raises UsageError ``SOW-EXC-002`` for a file whose name does not show the format.
    """
    found = given or find_format(name)
    if found is None and not (name == "-" or name.startswith("/dev/") or Path(name).is_fifo()):
        if name in INPUT_FORMATS and not Path(name).exists():
            words = f"there is no file {name!r}, and a format is given with --format"
            raise UsageError("SOW-EXC-002", words, hint=f"to read {name} from standard input: --format {name}")
        hint = f"add --format, one of {', '.join(INPUT_FORMATS)}; names end in .csv, .parquet, ..., .csv.gz, .csv.zst"
        raise UsageError("SOW-EXC-002", f"unsupported file name extension of {name!r}", hint=hint)
    return found


def detect_format(head: bytes) -> str:
    """Return the format of an input that begins with ``head``: csv for any other text."""
    for magic, name in ((_PARQUET_MAGIC, "parquet"), (ARROW_FILE_MAGIC, "arrow"), (_SQLITE_MAGIC, "sqlite")):
        if head.startswith(magic):
            return name
    if head.startswith(_ARROW_STREAM_MAGIC):
        return "arrow"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] in (b"{", b"["):
        return "json"
    # A map of MessagePack begins with a byte that no text begins with.
    if text[:1] and (0x80 <= text[0] <= 0x8F or text[0] in (0xDE, 0xDF)):
        return "msgpack"
    line = text.partition(b"\n")[0]
    return "tsv" if b"\t" in line and b"," not in line and b'"' not in line else "csv"
