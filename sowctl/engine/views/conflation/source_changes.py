"""Changes of the source of a conflated topic, of any kind, in time order.

Changes of a topic are read from its journal. Those of a conflated topic are computed from its own source, those of a
view from all of its sources. Called by :mod:`sowctl.engine.views.conflation.conflated_source` and
:mod:`sowctl.engine.views.conflation.conflation_store`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from sowctl.config.derived_entries import ConflatedTopic, View
from sowctl.config.model import TopicConfig
from sowctl.engine.extensions.functions import load_functions
from sowctl.engine.search.matcher import Matcher, build_environment
from sowctl.engine.views.conflation.conflation_rule import TopicConflation
from sowctl.engine.views.conflation.outputs import TopicOutputs
from sowctl.engine.views.conflation.timeline import KeyChange, LogStretch, iterate_topic_changes
from sowctl.engine.views.instant import find_entry
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.config.model import SowEntry
    from sowctl.engine.instance import Instance

BATCH_CHANGES = 1000


def iterate_conflated_changes(instance: Instance, entry: ConflatedTopic, stretch: LogStretch) -> Iterator[KeyChange]:
    """Yield the changes of a conflated topic from its beginning, with the unmodified messages of its source.

    Raises the errors of reading the journal, and UsageError ``SOW-VIW-002`` for a source without a journal.
    """
    source = find_entry(instance, entry.source)
    found = filter_changes(instance, entry, iterate_source_changes(instance, source, stretch, entry))
    return TopicConflation(entry.interval_us).conflate_changes(found, stretch.at)


def iterate_source_changes(
    instance: Instance, source: SowEntry, stretch: LogStretch, entry: ConflatedTopic
) -> Iterator[KeyChange]:
    """Yield the changes of the source of a conflated topic, from its beginning. Raises the errors of
    :func:`iterate_conflated_changes`."""
    if isinstance(source, ConflatedTopic):
        return map(TopicOutputs(instance, source).apply_output, iterate_conflated_changes(instance, source, stretch))
    if isinstance(source, View):
        from sowctl.engine.views.conflation.rowchanges import iterate_row_changes
        from sowctl.engine.views.definition import build_query

        refs = build_query(instance, source).sources
        below = [iterate_source_changes(instance, find_entry(instance, ref), stretch, entry) for ref in refs]
        return iterate_row_changes(instance, source, below)
    if not isinstance(source, TopicConfig) or not source.journalled:
        raise build_unrecorded_error(entry, source.name)
    return iterate_topic_changes(instance, source, stretch)


def filter_changes(instance: Instance, entry: ConflatedTopic, found: Iterable[KeyChange]) -> Iterator[KeyChange]:
    """Apply the filter of a conflated topic to changes: a message that does not match becomes a deletion (11.46)."""
    if not entry.filter:
        yield from found
        return
    kind = instance.find_message_type(entry.message_type)
    matcher = Matcher(
        entry.filter, kind, entry.underlying, build_environment(instance), functions=load_functions(instance)
    )
    remaining = iter(found)
    while some := list(islice(remaining, BATCH_CHANGES)):
        there = [place for place, change in enumerate(some) if change.value is not None]
        places = matcher.find_matches(
            [some[place].key for place in there], [some[place].value or b"" for place in there]
        )
        left = {there[place] for place in places}
        yield from (
            change if place in left or change.value is None else change._replace(value=None)
            for place, change in enumerate(some)
        )


def build_unrecorded_error(entry: ConflatedTopic, source: str) -> UsageError:
    """Return the error for a conflated topic without a journal and without a stored state."""
    return UsageError(
        "SOW-VIW-002",
        f"cannot compute {entry.name!r}: its source {source!r} has no journal",
        hint=f"sowctl conflate {entry.name} saves its state from now on",
        topic=entry.name,
    )
