"""Opening a bookmark store by name, and the table of store kinds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.engine.topics.targets import find_topic
from sowctl.errors import MissingError

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.subscriptions.bookmark_stores.protocol import BookmarkStore
    from sowctl.engine.subscriptions.bookmark_stores.topic import RowWriter

STORE_FILE_SUFFIX = ".bookmarks"
"""Suffix of the name of a bookmark store file."""


def open_bookmark_store(instance: Instance, text: str, verbs: RowWriter, *, begun: bool = False) -> BookmarkStore:
    """Return the store that a text names: a topic of the instance by its own name, else a file, else a logical topic.

    A missing file is created by the first change if its name has the suffix of a store file. ``verbs`` write to topics.
    ``begun``: a file must exist, because the caller starts no subscription. Raises MissingError ``SOW-BKM-001`` with
    similar names, and what opening the store raises.
    """
    topic = _find_store_topic(instance, text)
    path = instance.working / text
    # As for every target: a topic's own name takes precedence over a file; a Pattern, which matches nearly any name,
    # does not.
    if topic is not None and topic.logical is None:
        return STORE_KINDS["topic"](instance, topic, path, verbs)
    if path.is_file() or (text.endswith(STORE_FILE_SUFFIX) and path.parent.is_dir() and not begun):
        return STORE_KINDS["file"](instance, None, path, verbs)
    if topic is not None:
        return STORE_KINDS["topic"](instance, topic, path, verbs)
    if text.endswith(STORE_FILE_SUFFIX) and path.parent.is_dir():
        raise _make_missing_store_error(
            instance, text, f"bookmark store {text!r} does not exist", "it is created when a position is stored"
        )
    raise _make_missing_store_error(
        instance,
        text,
        f"{text!r} is neither a topic of this configuration nor a bookmark store file",
        f"the name of a new file must end with {STORE_FILE_SUFFIX}, in an existing directory; "
        "sowctl info lists the topics",
    )


def _make_missing_store_error(instance: Instance, text: str, words: str, hint: str) -> MissingError:
    from difflib import get_close_matches

    names = [] if instance.config is None else [topic.name for topic in instance.config.topics]
    directory = (instance.working / text).parent
    front = text[: len(text) - len(Path(text).name)]
    with suppress(OSError):
        names += [front + found.name for found in directory.glob(f"*{STORE_FILE_SUFFIX}")]
    near = get_close_matches(text, names, n=3, cutoff=0.6)
    return MissingError("SOW-BKM-001", words, hint=f"did you mean {' or '.join(near)}?" if near else hint)


def _find_store_topic(instance: Instance, text: str) -> TopicConfig | None:
    try:
        return find_topic(instance, text) if instance.config is not None else None
    except MissingError:
        return None


def _open_topic_store(instance: Instance, topic: TopicConfig | None, path: Path, verbs: RowWriter) -> BookmarkStore:
    from sowctl.engine.subscriptions.bookmark_stores.topic import TopicStore

    assert topic is not None
    return TopicStore(instance, topic, verbs)


def _open_file_store(instance: Instance, topic: TopicConfig | None, path: Path, verbs: RowWriter) -> BookmarkStore:
    from sowctl.engine.subscriptions.bookmark_stores.file import FileStore

    return FileStore(path, instance.seam, instance.clock)


STORE_KINDS: dict[str, Callable[[Instance, TopicConfig | None, Path, RowWriter], BookmarkStore]] = {
    "topic": _open_topic_store,
    "file": _open_file_store,
}
"""The function that opens the stores of each kind."""
