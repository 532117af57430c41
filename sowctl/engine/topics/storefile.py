"""Files that are not stores: named as a store to read, or found where a store is to be written.

A bare path to a recognized other file is rejected with a hint at the command that reads it; a name that ends in
``.sow`` means a store, and other content there is damage. A FileName may name any file, by mistake or through a link:
it is checked before a topic is opened for writing and before a replay moves a file aside. Whether a file at a FileName
may be replaced:

* Never, even with --force: anything but a regular file, the configuration, and the files of this instance's journal,
  whatever their content is.
* Only with --force: a regular file that is recognized as another kind by its first bytes; and a file whose name does
  not end in ``.sow`` and that has no content specific to stores.
* Any other file may be the rest of a store, damaged beyond recognition: replay keeps it aside and creates a new one.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from sowctl.errors import RefusedError, SowError, UsageError
from sowctl.journal.format import FILE_MAGIC, TOPICS_MAGIC, build_own_files_pattern
from sowctl.store.opening.access import require_regular_file
from sowctl.store.opening.meta_pages import read_verified_meta

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.seam import Seam

_PEEK_BYTES = 4096
_LOCK_SUFFIXES = ("-lock", "-gate", "-writer")
_DECOMPRESS_HINT = "decompress it first; 'sowctl publish TOPIC' also reads messages from standard input"
_PUBLISH_HINT = (
    "'sowctl publish TOPIC FILE' publishes its messages, 'sowctl eval EXPRESSION FILE' evaluates an expression on them"
)
COMPRESSED_MAGICS = {
    b"\x1f\x8b": "it is compressed with gzip",
    b"\x28\xb5\x2f\xfd": "it is compressed with zstd",
    b"\xfd7zXZ\0": "it is compressed with xz",
    b"BZh": "it is compressed with bzip2",
    b"PK\3\4": "it is a zip archive",
}
FOREIGN_FILE_MAGICS = {
    b"SQLite format 3\0": "an SQLite database",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
}
"""Other file types by their first bytes."""

_KNOWN_FILE_KINDS = {
    FILE_MAGIC: "it is a journal file",
    TOPICS_MAGIC: "it is the topics file of a journal",
    b"SOWMEMO\0": "it is an index",
    b"<?xml": "it is an XML document",
    b"<AMPSConfig": "it is a configuration",
    b"\x7fELF": "it is a program",
    **COMPRESSED_MAGICS,
    **{magic: f"it is {words}" for magic, words in FOREIGN_FILE_MAGICS.items()},
}
"""First bytes of files that users keep next to their stores. Text is not listed: it may be written over a store."""
_LMDB_MAGIC = (0xBEEFC0DE).to_bytes(4, "little")
_STORE_MARKERS = (b"SOWSTORE", b"expiry")
"""Content that some page of every store has: the start of the meta record, and the name of a sub-database."""


def refuse_other_kind(path: Path) -> None:
    """Raise UsageError ``SOW-ENG-080`` (exit 2: the wrong file was named) if ``path`` is recognized as another kind of
    file.

    An unrecognized file passes: a store with a damaged beginning is not a user's mistake.
    """
    if path.name.endswith(".sow"):
        return
    found = _detect_file_kind(path)
    if found is not None:
        kind, hint = found
        raise UsageError("SOW-ENG-080", f"not a store: {kind}", place=str(path), hint=hint)


def _detect_file_kind(path: Path) -> tuple[str, str] | None:
    for end in _LOCK_SUFFIXES:
        if path.name.endswith(f".sow{end}"):
            return f"it is a lock file of {path.name.removesuffix(end)}", "name the store, without this ending"
    try:
        with path.open("rb") as file:
            start = file.read(_PEEK_BYTES)
    except OSError:
        return None  # opening it reports the reason
    if not start:
        return "it is empty", "name a topic, or the .sow file of one"
    if start.startswith(FILE_MAGIC):
        return "it is a journal file", "'sowctl journal dump DIR' prints the entries of the journals in a directory"
    for magic, words in COMPRESSED_MAGICS.items():
        if start.startswith(magic):
            return words, _DECOMPRESS_HINT
    for magic, words in FOREIGN_FILE_MAGICS.items():
        if start.startswith(magic):
            return f"it is {words}", "name a topic, or the .sow file of one"
    return _detect_text(start)


def _detect_text(start: bytes) -> tuple[str, str] | None:
    """Detect text: no byte 0, and UTF-8 except for a character that may be cut at the end of the bytes read."""
    if b"\0" in start:
        return None
    try:
        start.decode()
    except UnicodeDecodeError as problem:
        if problem.start < len(start) - 4:
            return None
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] in (b"{", b"["):
        return "it is text that looks like JSON", _PUBLISH_HINT
    if text[:1] == b"<":
        return "it is text that looks like XML", f"--config FILE names a configuration; {_PUBLISH_HINT}"
    return "it is text", _PUBLISH_HINT


def refuse_reserved_file(instance: Instance, topic: TopicConfig) -> None:
    """Reject a FileName that names the configuration or a file of the journal, existing or not.

    Raises RefusedError ``SOW-ENG-087``.
    """
    config, file = instance.config, topic.file
    if config is None or file is None:
        return
    # Called once per topic of a run: paths are resolved only if a name or a link requires it.
    what, log = None, config.transaction_log
    path = file.resolve() if file.is_symlink() else file
    # By name first, which is cheap; only if the name could be a journal file's, the directories are compared.
    if log is not None and build_own_files_pattern(config.name).fullmatch(path.name):
        homes = {place.resolve() for place in (log.directory, log.local_archive) if place is not None}
        what = "a file of the journal" if path.resolve().parent in homes else None
    if what is None and path.exists():
        sources = [Path(one.file) for one in config.document.sources]
        if any(path.samefile(source) for source in (config.path, *sources) if source.exists()):
            what = "the configuration"
    if what is not None:
        raise RefusedError(
            "SOW-ENG-087",
            f"the FileName of topic {topic.name!r} names {what}",
            place=str(file),
            hint="give the topic a separate FileName, such as ./sow/%n.sow",
            topic=topic.name,
        )


def refuse_other_file(instance: Instance, topic: TopicConfig, *, force: bool = False) -> None:
    """Reject replacing the file at a topic's FileName if it is not a store and was none.

    Raises RefusedError ``SOW-ENG-087``, ``SOW-STO-070`` (not a regular file), and unless ``force`` ``SOW-ENG-088``
    (another kind of file).
    """
    refuse_reserved_file(instance, topic)
    if topic.file is None or not topic.file.exists():
        return
    path = topic.file.resolve()
    require_regular_file(path)
    # With force, the file is kept aside whatever it is.
    kind = None if force else _describe_foreign_file(path, instance.seam)
    if kind is not None:
        raise RefusedError(
            "SOW-ENG-088",
            f"the file at the path of topic {topic.name!r} is not a store: {kind}",
            place=str(topic.file),
            hint="give the topic another FileName; or run sowctl replay --force, which keeps the file "
            "beside a new store",
            topic=topic.name,
        )


def _describe_foreign_file(path: Path, seam: Seam) -> str | None:
    """Return the kind of a file; None for a store, and for the possible rest of a store."""
    try:
        with path.open("rb") as file:
            start = file.read(64)
            if not start:
                return None  # nothing is lost with an empty file
            # LMDB's magic number is in the first meta page, after its header of 16 bytes.
            if start[16:20] == _LMDB_MAGIC:
                read_verified_meta(
                    path, seam
                )  # of a truncated file, or one with broken meta pages, the pages of a store may be missing
                return None if _has_store_markers(file) else "it is an LMDB file of another program"
            text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
            for magic, kind in _KNOWN_FILE_KINDS.items():
                if start.startswith(magic) or text.startswith(magic):
                    return kind
            if path.name.endswith(".sow") or _has_store_markers(file):
                return None
            return "it has no store data, and its name does not end with .sow"
    except (OSError, SowError):
        return None  # errors are reported when the file is opened


def _has_store_markers(file: BinaryIO) -> bool:
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return any(content.find(word) >= 0 for word in _STORE_MARKERS)
