"""A view as a source: its messages as of a moment, in a store like that of a topic.

The present is read from the view's cache, which is brought up to date first. The past, and the present where no cache
can be written, is computed into a temporary store.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.config.derived import ConflatedTopic, View
from sowctl.engine.fold.tempstore import aside
from sowctl.engine.sources.current import CurrentSource, open_file
from sowctl.engine.topics.derived import as_topic
from sowctl.engine.topics.positions import definition_of
from sowctl.engine.views.building import build_messages
from sowctl.engine.views.cache import WITHOUT, as_it_is, place_of, read_state
from sowctl.engine.views.collecting import no_collection
from sowctl.engine.views.definition import Program, Query, query_of
from sowctl.engine.views.moment import Moved, at_one_instant, entry_of
from sowctl.engine.views.refreshing import Refresh, RefreshOutlook, kept
from sowctl.errors import SowError
from sowctl.store.builder import build

if TYPE_CHECKING:
    from pathlib import Path

    from sowctl.config.model import OtherEntry, TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source
    from sowctl.engine.views.moment import ViewInstant


def open_entry(moment: ViewInstant, entry: OtherEntry) -> Source:
    """The view as of a moment. Raises what its texts and the reading of its sources raise."""
    assert isinstance(entry, View)
    query = query_of(moment.instance, entry)
    path = place_of(moment.instance, entry) if moment.at is None else None
    source = _cached(moment, entry, query, path) if path is not None else None
    return source if source is not None else _computed(moment, entry, query)


def refreshed(moment: ViewInstant, entry: View) -> Refresh | None:
    """Bring the cache of a view to a moment, and say how; None where it can have none. Raises why none is written."""
    path = place_of(moment.instance, entry)
    if path is None:
        return None
    refresh = Refresh(moment, entry, query_of(moment.instance, entry), path)
    refresh.run()
    return refresh


def outlook(instance: Instance, entry: OtherEntry) -> RefreshOutlook:
    """How the cache of a view stands to its sources at present. Raises what opening these raises."""
    assert isinstance(entry, View)
    # Nothing is opened through the door of readers here, which would bring caches up to date.
    return at_one_instant(instance, entry, None, _open_current, lambda moment: standing(moment, entry))


def _open_current(moment: ViewInstant, entry: OtherEntry) -> Source:
    """A view or conflated topic that is known to be up to date, or a queue, which has no cache."""
    if isinstance(entry, View):
        return open_entry(moment, entry)
    from sowctl.engine.views.opening import open_entry as open_any

    return open_any(moment, entry)


def standing(moment: ViewInstant, entry: View) -> RefreshOutlook:
    """How the cache of a view stands to its sources; no cache is brought up to date for that."""
    instance = moment.instance
    query, path = query_of(instance, entry), place_of(instance, entry)
    if path is None:
        return RefreshOutlook("compute", "none of its topics has a file, so the cache has no location")
    for ref in query.sources:
        source = entry_of(instance, ref)
        behind = None
        if isinstance(source, View) and standing(moment, source).way != "use":
            behind = "view"
        elif isinstance(source, ConflatedTopic):
            from sowctl.engine.views.conflation.keeping import outlook as standing_of

            behind = None if standing_of(moment, source).is_current else "conflated topic"
        if behind is not None:
            return kept(instance, path, "catch up", f"its source {source.name}, a {behind}, is behind")
    return Refresh(moment, entry, query, path).outlook()


def _cached(moment: ViewInstant, entry: View, query: Query, path: Path) -> CurrentSource | None:
    """The view from its cache; None where there can be none."""
    instance = moment.instance
    assert instance.config is not None
    refresh = Refresh(moment, entry, query, path)
    topic = replace(as_topic(instance.config, entry), file=path)
    # The usual case: nothing has changed, and no lock is taken.
    if not moment.fresh and (source := _as_it_is(moment, refresh, topic)) is not None:
        return source
    try:
        refresh.run()
    except WITHOUT as problem:
        words = problem.message if isinstance(problem, SowError) else problem.strerror or str(problem)
        instance.notify_once(f"cache of {entry.name}", f"view {entry.name} is computed without a cache: {words}")
        return None
    source = _as_it_is(moment, refresh, topic)
    if source is None:
        # Another process has brought it further between the two.
        raise Moved
    return source


def _as_it_is(moment: ViewInstant, refresh: Refresh, topic: TopicConfig) -> CurrentSource | None:
    """The cache, if it shows the view as of the moment."""
    return as_it_is(moment, topic, lambda source: refresh.is_current(read_state(source.snapshot)))


def open_computed(moment: ViewInstant, entry: OtherEntry) -> Source:
    """The view as of a moment, from all records of its topics and without any cache."""
    assert isinstance(entry, View)
    return _computed(moment, entry, query_of(moment.instance, entry))


def _computed(moment: ViewInstant, entry: View, query: Query) -> CurrentSource:
    """The view in a temporary store."""
    instance = moment.instance
    assert instance.config is not None
    with ExitStack() as stack:
        then = stack.enter_context(aside(as_topic(instance.config, entry), "view"))
        assert then.file is not None
        definition = definition_of(instance.config.name, then)
        with build(then.file, definition, seam=instance.seam, now=moment.now) as builder:
            with no_collection():
                build_messages(moment, Program(instance, query), builder)
            builder.put_in_place(wait=instance.lock_wait)
        base = stack.enter_context(open_file(instance, then.file))
        return CurrentSource(stack.pop_all(), base.snapshot, None, then, moment.now)
