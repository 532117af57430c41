"""A view as a source: its messages as of a moment, in a store like that of a topic.

The present is read from the view's cache, which is brought up to date first. The past, and the present where no cache
can be written, is computed into a temporary store.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.config.derived_entries import ConflatedTopic, View
from sowctl.engine.fold.tempstore import open_temporary_topic
from sowctl.engine.sources.current import CurrentSource, open_file_source
from sowctl.engine.topics.derived_topics import build_derived_topic
from sowctl.engine.topics.positions import build_definition
from sowctl.engine.views.cache import UNWRITABLE_ERRORS, find_cache_path, open_if_current, read_state
from sowctl.engine.views.cache_build import append_messages
from sowctl.engine.views.cache_refresh import Refresh, RefreshPlan, build_plan
from sowctl.engine.views.computation import compute_messages
from sowctl.engine.views.definition import Program, Query, build_query
from sowctl.engine.views.gc_pause import pause_collection
from sowctl.engine.views.instant import Moved, find_entry, run_at_instant
from sowctl.errors import SowError
from sowctl.store.builder import build_store

if TYPE_CHECKING:
    from pathlib import Path

    from sowctl.config.model import OtherEntry, TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source
    from sowctl.engine.views.instant import ViewInstant


def open_entry(moment: ViewInstant, entry: OtherEntry) -> Source:
    """The view as of a moment. Raises what its texts and the reading of its sources raise."""
    assert isinstance(entry, View)
    query = build_query(moment.instance, entry)
    path = find_cache_path(moment.instance, entry) if moment.at is None else None
    source = _open_cached(moment, entry, query, path) if path is not None else None
    return source if source is not None else _open_temporary(moment, entry, query)


def refresh_cache(moment: ViewInstant, entry: View) -> Refresh | None:
    """Bring the cache of a view to a moment, and say how; None where it can have none. Raises why none is written."""
    path = find_cache_path(moment.instance, entry)
    if path is None:
        return None
    refresh = Refresh(moment, entry, build_query(moment.instance, entry), path)
    refresh.run()
    return refresh


def plan_refresh(instance: Instance, entry: OtherEntry) -> RefreshPlan:
    """Plan, at present, how the cache of a view would be brought up to date with its sources. Raises what opening
    these raises.
    """
    assert isinstance(entry, View)
    # Nothing is opened by ``openers`` here, which would bring caches up to date.
    return run_at_instant(instance, entry, None, _open_current, lambda moment: plan_refresh_at(moment, entry))


def _open_current(moment: ViewInstant, entry: OtherEntry) -> Source:
    """A view or conflated topic that is known to be up to date, or a queue, which has no cache."""
    if isinstance(entry, View):
        return open_entry(moment, entry)
    from sowctl.engine.views.openers import open_derived_entry

    return open_derived_entry(moment, entry)


def plan_refresh_at(moment: ViewInstant, entry: View) -> RefreshPlan:
    """Plan how the cache of a view would be brought up to date as of a moment, without doing so."""
    instance = moment.instance
    query, path = build_query(instance, entry), find_cache_path(instance, entry)
    if path is None:
        return RefreshPlan("compute", "none of its topics has a file, so the cache has no location")
    for ref in query.sources:
        source = find_entry(instance, ref)
        behind = None
        if isinstance(source, View) and plan_refresh_at(moment, source).way != "use":
            behind = "view"
        elif isinstance(source, ConflatedTopic):
            from sowctl.engine.views.conflation.conflation_store import read_status as standing_of

            behind = None if standing_of(moment, source).is_current else "conflated topic"
        if behind is not None:
            return build_plan(instance, path, "catch up", f"its source {source.name} ({behind}) is not up to date")
    return Refresh(moment, entry, query, path).plan()


def _open_cached(moment: ViewInstant, entry: View, query: Query, path: Path) -> CurrentSource | None:
    """The view from its cache; None where there can be none."""
    instance = moment.instance
    assert instance.config is not None
    refresh = Refresh(moment, entry, query, path)
    topic = replace(build_derived_topic(instance.config, entry), file=path)
    # The usual case: nothing has changed, and no lock is taken.
    if not moment.fresh and (source := _open_if_current(moment, refresh, topic)) is not None:
        return source
    try:
        refresh.run()
    except UNWRITABLE_ERRORS as problem:
        words = problem.message if isinstance(problem, SowError) else problem.strerror or str(problem)
        instance.notify_once(f"cache of {entry.name}", f"view {entry.name} is computed without a cache: {words}")
        return None
    source = _open_if_current(moment, refresh, topic)
    if source is None:
        # Another process has brought it further between the two.
        raise Moved
    return source


def _open_if_current(moment: ViewInstant, refresh: Refresh, topic: TopicConfig) -> CurrentSource | None:
    """The cache, if it shows the view as of the moment."""
    return open_if_current(moment, topic, lambda source: refresh.is_current(read_state(source.snapshot)))


def open_computed(moment: ViewInstant, entry: OtherEntry) -> Source:
    """The view as of a moment, from all records of its topics and without any cache."""
    assert isinstance(entry, View)
    return _open_temporary(moment, entry, build_query(moment.instance, entry))


def _open_temporary(moment: ViewInstant, entry: View, query: Query) -> CurrentSource:
    """The view in a temporary store."""
    instance = moment.instance
    assert instance.config is not None
    with ExitStack() as stack:
        then = stack.enter_context(open_temporary_topic(build_derived_topic(instance.config, entry), "view"))
        assert then.file is not None
        definition = build_definition(instance.config.name, then)
        # Without a creation time: its digest alone names its state, in the next process, too.
        with build_store(then.file, definition, seam=instance.seam, now=0) as builder:
            with pause_collection():
                append_messages(builder, compute_messages(moment, Program(instance, query), builder.path.parent))
            builder.install(wait=instance.lock_wait)
        base = stack.enter_context(open_file_source(instance, then.file))
        return CurrentSource(stack.pop_all(), base.snapshot, None, then, moment.now)
