"""The store files of targets: each once, with the complete topic that it belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.topics.targets import Target


def list_store_files(targets: Sequence[Target], *, missing: bool = False) -> Iterator[tuple[Path, TopicConfig | None]]:
    """Yield the store files of ``targets``, with ``missing`` also those that do not exist, in order, with their topics.

    Logical topics share the file of their Pattern topic, which is returned once; a bare path has no topic.
    """
    seen = set()
    for target in targets:
        topic = target.topic.whole_topic if target.topic is not None else None
        path = topic.file if topic is not None else target.path
        if path is not None and path not in seen and (missing or path.exists()):
            seen.add(path)
            yield path, topic
