"""What happened to anything that a conflated topic may copy, in the order of time: the changes of its source.

A topic's are in its journal, a conflated topic's follow from those of its own source, a view's from those of all of its
topics. Called by :mod:`sowctl.engine.views.conflation.conflated` and :mod:`sowctl.engine.views.conflation.keeping`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from sowctl.config.derived import ConflatedTopic, View
from sowctl.config.model import TopicConfig
from sowctl.engine.extensions.functions import functions_of
from sowctl.engine.search.matcher import Matcher, environment_of
from sowctl.engine.views.conflation.conflating import TopicConflation
from sowctl.engine.views.conflation.outputs import Outputs
from sowctl.engine.views.conflation.timeline import KeyChange, LogStretch, topic_changes
from sowctl.engine.views.moment import entry_of
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.config.model import SowEntry
    from sowctl.engine.instance import Instance

TOGETHER = 1000


def conflated_changes(instance: Instance, entry: ConflatedTopic, stretch: LogStretch) -> Iterator[KeyChange]:
    """When a conflated topic showed what, from its beginning: the messages of its source, as these have them.

    Raises what reading the journal raises, UsageError ``SOW-VIW-002`` for a source that no journal records.
    """
    source = entry_of(instance, (entry.message_type, entry.underlying))
    found = matching(instance, entry, changes_of(instance, source, stretch, entry))
    return TopicConflation(entry.interval_us).over(found, stretch.at)


def changes_of(instance: Instance, source: SowEntry, stretch: LogStretch, entry: ConflatedTopic) -> Iterator[KeyChange]:
    """The changes of the source of a conflated topic, from its beginning. Raises as :func:`conflated_changes`."""
    if isinstance(source, ConflatedTopic):
        return map(Outputs(instance, source).change, conflated_changes(instance, source, stretch))
    if isinstance(source, View):
        from sowctl.engine.views.conflation.rowchanges import row_changes
        from sowctl.engine.views.definition import query_of

        refs = query_of(instance, source).sources
        below = [changes_of(instance, entry_of(instance, ref), stretch, entry) for ref in refs]
        return row_changes(instance, source, below)
    if not isinstance(source, TopicConfig) or not source.journalled:
        raise unrecorded(entry, source.name)
    return topic_changes(instance, source, stretch)


def matching(instance: Instance, entry: ConflatedTopic, found: Iterable[KeyChange]) -> Iterator[KeyChange]:
    """Changes as a conflated topic takes them: a message that its filter does not leave is gone (11.46)."""
    if not entry.filter:
        yield from found
        return
    kind = instance.type_of(entry.message_type)
    matcher = Matcher(entry.filter, kind, entry.underlying, environment_of(instance), functions=functions_of(instance))
    remaining = iter(found)
    while some := list(islice(remaining, TOGETHER)):
        there = [place for place, change in enumerate(some) if change.value is not None]
        places = matcher.places([some[place].key for place in there], [some[place].value or b"" for place in there])
        left = {there[place] for place in places}
        yield from (
            change if place in left or change.value is None else change._replace(value=None)
            for place, change in enumerate(some)
        )


def unrecorded(entry: ConflatedTopic, source: str) -> UsageError:
    """The error for a conflated topic whose state nothing tells."""
    return UsageError(
        "SOW-VIW-002",
        f"cannot compute {entry.name!r}: its source {source!r} has no journal",
        hint=f"sowctl conflate {entry.name} saves its state from now on",
        topic=entry.name,
    )
