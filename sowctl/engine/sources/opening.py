"""Opening what a target names, now or at an instant: verbs and the tasks of Spark jobs get their sources here alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sowctl.engine.topics.targets import Target

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.current import CurrentSource
    from sowctl.engine.sources.source import Source


def open_source(instance: Instance, target: Target, at: int | None) -> Source:
    """The state of a target now, or as of ``at`` (microseconds UTC); of a Pattern topic, the logical topics meant."""
    if target.topic is not None and target.topic.logical is not None:
        from sowctl.engine.sources.logical import narrowed

        # Logical topics share one store: it is opened whole, and its records are chosen by their logical topics.
        return narrowed(open_source(instance, Target(topic=target.topic.whole), at), target.topic)
    if at is None:
        return open_now(instance, target)
    from sowctl.engine.sources.past import open_at, open_file_at

    if target.topic is not None:
        return open_at(instance, target.topic, at)
    assert target.path is not None
    return open_file_at(instance, target.path, at)


def open_now(instance: Instance, target: Target) -> CurrentSource:
    """The present state of a target; of a Pattern topic, all logical topics."""
    from sowctl.engine.sources.current import open_current, open_file

    if target.topic is not None:
        return open_current(instance, target.topic)
    assert target.path is not None
    return open_file(instance, target.path)
