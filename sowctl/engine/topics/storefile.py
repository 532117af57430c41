"""Which file may stand, and be replaced, at the place of a topic's store.

A FileName may name anything, by mistake or through a link. Called before a topic is opened for writing and before a
replay moves a file aside. What is decided here:

* Never, not with --force either: what is no regular file, the configuration, and the files of this instance's journal,
  whatever is in them.
* Only with --force: a regular file that is plainly something else, told by its first bytes; and one whose name does not
  end in ``.sow`` and that holds nothing which only stores hold.
* Anything else may be what is left of a store, damaged beyond recognition: replay keeps it aside and makes a new one.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from sowctl.engine.topics.filekinds import OTHERS, PACKED
from sowctl.errors import RefusedError, SowError
from sowctl.journal.format import FILE_MAGIC, TOPICS_MAGIC, own_files
from sowctl.store.opening.access import refuse_irregular
from sowctl.store.raw.pages import inspect

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.seam import Seam

_KINDS = {
    FILE_MAGIC: "it is a journal file",
    TOPICS_MAGIC: "it is the list of topics of a journal",
    b"SOWMEMO\0": "it is an index",
    b"<?xml": "it is an XML document",
    b"<AMPSConfig": "it is a configuration",
    b"\x7fELF": "it is a program",
    **PACKED,
    **{magic: f"it is {words}" for magic, words in OTHERS.items()},
}
"""First bytes of files that people have beside their stores. Text tells nothing: it may be written over a store."""
_LMDB = (0xBEEFC0DE).to_bytes(4, "little")
_OURS = (b"SOWSTORE", b"expiry")
"""What some page of every store holds: the beginning of the meta record, and the name of a sub-database."""


def refuse_reserved(instance: Instance, topic: TopicConfig) -> None:
    """Refuse a FileName that names the configuration or a file of the journal, there already or not.

    Raises RefusedError ``SOW-ENG-087``.
    """
    config, file = instance.config, topic.file
    if config is None or file is None:
        return
    # Asked once for every topic of a run: paths are resolved only where a name or a link calls for it.
    what, log = None, config.transaction_log
    path = file.resolve() if file.is_symlink() else file
    if log is not None and own_files(config.name).fullmatch(path.name):
        homes = {place.resolve() for place in (log.directory, log.archive_directory) if place is not None}
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
            hint="give the topic a FileName of its own, such as ./sow/%n.sow",
            topic=topic.name,
        )


def refuse_other_file(instance: Instance, topic: TopicConfig, *, force: bool = False) -> None:
    """Refuse to replace what is at a topic's FileName where that is no store and was none.

    Raises RefusedError ``SOW-ENG-087``, ``SOW-STO-070`` (no regular file), and unless ``force`` ``SOW-ENG-088``
    (another kind of file).
    """
    refuse_reserved(instance, topic)
    if topic.file is None or not topic.file.exists():
        return
    path = topic.file.resolve()
    refuse_irregular(path)
    kind = None if force else _kind_of(path, instance.seam)
    if kind is not None:
        raise RefusedError(
            "SOW-ENG-088",
            f"the file at the place of topic {topic.name!r} is no store: {kind}",
            place=str(topic.file),
            hint="give the topic a FileName of its own; sowctl replay --force keeps the file aside and makes a store",
            topic=topic.name,
        )


def _kind_of(path: Path, seam: Seam) -> str | None:
    """What a file is that is no store; None for a store, and for what may be left of one."""
    try:
        with path.open("rb") as file:
            start = file.read(64)
            if not start:
                return None  # nothing is lost with an empty file
            if start[16:20] == _LMDB:
                inspect(path, seam)  # of a file that is cut or has broken meta pages, the pages of ours may be gone
                return None if _holds_ours(file) else "it is an LMDB file of another program"
            text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
            for magic, kind in _KINDS.items():
                if start.startswith(magic) or text.startswith(magic):
                    return kind
            if path.name.endswith(".sow") or _holds_ours(file):
                return None
            return "it holds nothing of a store, and its name does not end in .sow"
    except (OSError, SowError):
        return None  # what cannot be read is reported where it is opened


def _holds_ours(file: BinaryIO) -> bool:
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return any(content.find(word) >= 0 for word in _OURS)
