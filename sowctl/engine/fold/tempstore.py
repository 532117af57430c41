"""A store in a temporary directory: for a state that is read, compared or written once and goes with its reader.

Called where a topic without a file is read or written, where a state of the past is folded, and where a rebuild is only
compared (``replay --verify``, ``--rekey``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig


@contextmanager
def open_temporary_topic(topic: TopicConfig, name: str) -> Iterator[TopicConfig]:
    """Yield ``topic`` with a file of its own, ``name.sow``, in a directory that is removed at the end with its
    files."""
    from sowctl.work_directories import create_work_directory  # with tempfile; most commands make no such store

    # Only the topic's file is replaced: keys, types and limits stay, so the copy gives the answers of the topic itself.
    with create_work_directory() as place:
        yield replace(topic, file=place / f"{name}.sow")
