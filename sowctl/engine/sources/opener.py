"""Opening topics and files, now or at an instant. Readers, which also accept views and other derived topics, use
:mod:`sowctl.engine.views.openers`; writers, and the tasks of Spark jobs, open their sources here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from sowctl.engine.topics.targets import Target

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.current import CurrentSource
    from sowctl.engine.sources.source import Source
    from sowctl.errors import MissingError

Opener: TypeAlias = "Callable[[Instance, Target, int | None], Source]"
"""Opens a target, now or at an instant: :func:`open_source`, or the function above it that also opens views."""


def open_source(instance: Instance, target: Target, at: int | None) -> Source:
    """Open the state of a target now, or as of ``at`` (microseconds UTC); of a Pattern topic, its selected logical
    topics."""
    if target.topic is not None and target.topic.logical is not None:
        from sowctl.engine.sources.logical_topics import narrow_source

        # Logical topics share one store: it is opened as a whole, and records are selected by logical topic.
        return narrow_source(open_source(instance, Target(topic=target.topic.whole_topic), at), target.topic)
    if at is None:
        return open_present_source(instance, target)
    from sowctl.engine.sources.past import open_past_file, open_past_source

    if target.topic is not None:
        return open_past_source(instance, target.topic, at)
    assert target.path is not None
    return open_past_file(instance, target.path, at)


def open_present_source(instance: Instance, target: Target) -> CurrentSource:
    """Open the current state of a target; of a Pattern topic, all logical topics."""
    from sowctl.engine.sources.current import open_current_source, open_file_source

    if target.topic is not None:
        return open_current_source(instance, target.topic)
    assert target.path is not None
    return open_file_source(instance, target.path)


def open_empty_source(instance: Instance, topic: TopicConfig, missing: MissingError) -> Source:
    """Return an empty source for a topic without messages; a note says so with the text of ``missing``."""
    from sowctl.engine.sources.past import EmptySource
    from sowctl.engine.topics.positions import build_definition

    assert instance.config is not None
    instance.notify_once(f"empty topic {topic.label}", f"{missing.message}, so it is empty")
    return EmptySource(build_definition(instance.config.name, topic))
