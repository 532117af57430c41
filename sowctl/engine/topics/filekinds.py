"""A file that was named where a store is wanted, and plainly is something else: what it is, and what takes it.

Called by :mod:`sowctl.engine.topics.targets` for bare paths. A name that ends in ``.sow`` means a store: what stands
there instead is damage, whatever it looks like.
"""

from __future__ import annotations

from pathlib import Path

from sowctl.errors import UsageError

_PEEK = 4096
_LOCKS = ("-lock", "-gate", "-writer")
_UNPACK = "unpack it first; 'sowctl publish TOPIC' reads messages from standard input, too"
_MESSAGES = "'sowctl publish TOPIC FILE' loads messages from it, 'sowctl eval EXPRESSION FILE' looks into them"
PACKED = {
    b"\x1f\x8b": "it is compressed with gzip",
    b"\x28\xb5\x2f\xfd": "it is compressed with zstd",
    b"\xfd7zXZ\0": "it is compressed with xz",
    b"BZh": "it is compressed with bzip2",
    b"PK\3\4": "it is a zip archive",
}
OTHERS = {b"SQLite format 3\0": "an SQLite database", b"PAR1": "a Parquet file", b"ARROW1": "an Arrow file"}
"""Files by their first bytes; also for :mod:`sowctl.engine.topics.storefile`, which asks what may be replaced."""


def refuse_other_kind(path: Path) -> None:
    """Raise UsageError ``SOW-ENG-080`` (exit 2: the wrong file was named) where ``path`` plainly is no store.

    What nothing is known of passes: a store whose beginning is damaged is no mistake of who asked for it.
    """
    if path.name.endswith(".sow"):
        return
    found = _kind(path)
    if found is not None:
        kind, hint = found
        raise UsageError("SOW-ENG-080", f"this is no store: {kind}", place=str(path), hint=hint)


def _kind(path: Path) -> tuple[str, str] | None:
    from sowctl.journal.format import FILE_MAGIC

    for end in _LOCKS:
        if path.name.endswith(f".sow{end}"):
            return f"it is a lock file of {path.name.removesuffix(end)}", "name the store: the name without this ending"
    try:
        with path.open("rb") as file:
            start = file.read(_PEEK)
    except OSError:
        return None  # who opens it says why
    if not start:
        return "it is empty", "name a topic, or the .sow file of one"
    if start.startswith(FILE_MAGIC):
        return "it is a journal file", "'sowctl journal dump DIR' prints what the journals of a directory hold"
    for magic, words in PACKED.items():
        if start.startswith(magic):
            return words, _UNPACK
    for magic, words in OTHERS.items():
        if start.startswith(magic):
            return f"it is {words}", "name a topic, or the .sow file of one"
    return _text(start)


def _text(start: bytes) -> tuple[str, str] | None:
    """Text has no byte 0, and is UTF-8 but for a character that may be cut at the end of what was read."""
    if b"\0" in start:
        return None
    try:
        start.decode()
    except UnicodeDecodeError as problem:
        if problem.start < len(start) - 4:
            return None
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] in (b"{", b"["):
        return "it is text that looks like JSON", _MESSAGES
    if text[:1] == b"<":
        return "it is text that looks like XML", f"--config FILE names a configuration; {_MESSAGES}"
    return "it is text", _MESSAGES
