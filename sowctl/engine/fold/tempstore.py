"""A store in a temporary directory: for a state that is read, compared or written once and removed afterwards.

Used to read or write a topic without a file, to fold a past state, and to compare a rebuild (``replay --verify``,
``--rekey``).
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
    """Yield ``topic`` with a separate file, ``name.sow``, in a directory that is removed with its files at the end."""
    from sowctl.work_directories import create_work_directory  # imports tempfile, which most commands do not need

    # Only the topic's file is replaced: keys, types and limits stay, so the copy behaves like the topic itself.
    with create_work_directory() as place:
        yield replace(topic, file=place / f"{name}.sow")
