"""Describes the messages to build from rows of files and frames, for the topic that they are published to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sowctl.arrow.message_encoder import find_root
from sowctl.engine.topics.targets import find_publish_topic

if TYPE_CHECKING:
    from sowctl.arrow.inputs.delimited_source import RowTarget
    from sowctl.engine.instance import Instance


def build_row_target(instance: Instance, topic: str, message_type: str | None = None) -> RowTarget:
    """Return how rows become messages of ``topic``. Raises as :func:`find_publish_topic`."""
    from sowctl.arrow.inputs.delimited_source import RowTarget

    config = find_publish_topic(instance, topic, message_type)
    return RowTarget(
        instance.find_message_type(config.message_type),
        find_root(config),
        by_user=config.key_mode == "user",
        topic=config.name,
        keys=frozenset(key.names[0] for key in config.keys),
        key_objects=frozenset(key.names[0] for key in config.keys if len(key.names) > 1),
        requires_keys=bool(config.keys) and not config.preprocessing,
    )
