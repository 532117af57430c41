"""A view as a source: its messages as of a moment, in a store like that of a topic.

The current state is read from the view's cache, which is refreshed first. Past states, and the current state if no
cache can be written, are computed into a temporary store.
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
    """Open the view as of a moment. Raises the errors of compiling its texts and of reading its sources."""
    assert isinstance(entry, View)
    query = build_query(moment.instance, entry)
    path = find_cache_path(moment.instance, entry) if moment.at is None else None
    source = _open_cached(moment, entry, query, path) if path is not None else None
    return source if source is not None else _open_temporary(moment, entry, query)


def refresh_cache(moment: ViewInstant, entry: View) -> Refresh | None:
    """Bring the cache of a view to a moment, and return the refresh; None if the view can have no cache. Raises the
    errors of :meth:`Refresh.run`."""
    path = find_cache_path(moment.instance, entry)
    if path is None:
        return None
    refresh = Refresh(moment, entry, build_query(moment.instance, entry), path)
    refresh.run()
    return refresh


def plan_refresh(instance: Instance, entry: OtherEntry) -> RefreshPlan:
    """Return the current plan for refreshing the cache of a view. Raises the errors of opening its sources."""
    assert isinstance(entry, View)
    # _open_current opens only sources that plan_refresh_at found to be up to date, so no cache is refreshed here.
    return run_at_instant(instance, entry, None, _open_current, lambda moment: plan_refresh_at(moment, entry))


def _open_current(moment: ViewInstant, entry: OtherEntry) -> Source:
    """Open a view or conflated topic that is known to be up to date, or a queue, which has no cache."""
    if isinstance(entry, View):
        return open_entry(moment, entry)
    from sowctl.engine.views.openers import open_derived_entry

    return open_derived_entry(moment, entry)


def plan_refresh_at(moment: ViewInstant, entry: View) -> RefreshPlan:
    """Return the plan for refreshing the cache of a view as of a moment, without executing it."""
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
    """Open the view from its cache, refreshed if necessary; None if the cache cannot be written."""
    instance = moment.instance
    assert instance.config is not None
    refresh = Refresh(moment, entry, query, path)
    topic = replace(build_derived_topic(instance.config, entry), file=path)
    # The usual case: nothing has changed, and no lock is needed.
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
        # Another process has refreshed the cache to a later state in between.
        raise Moved
    return source


def _open_if_current(moment: ViewInstant, refresh: Refresh, topic: TopicConfig) -> CurrentSource | None:
    """Open the cache if its state is that of the view at the moment, otherwise return None."""
    return open_if_current(moment, topic, lambda source: refresh.is_current(read_state(source.snapshot)))


def open_computed(moment: ViewInstant, entry: OtherEntry) -> Source:
    """Open the view as of a moment, computed from all records of its topics without a cache."""
    assert isinstance(entry, View)
    return _open_temporary(moment, entry, build_query(moment.instance, entry))


def _open_temporary(moment: ViewInstant, entry: View, query: Query) -> CurrentSource:
    """Compute the view into a temporary store, and open it."""
    instance = moment.instance
    assert instance.config is not None
    with ExitStack() as stack:
        then = stack.enter_context(open_temporary_topic(build_derived_topic(instance.config, entry), "view"))
        assert then.file is not None
        definition = build_definition(instance.config.name, then)
        # Without a creation time, so that the digest alone identifies the state, also across processes.
        with build_store(then.file, definition, seam=instance.seam, now=0) as builder:
            with pause_collection():
                append_messages(builder, compute_messages(moment, Program(instance, query), builder.path.parent))
            builder.install(wait=instance.lock_wait)
        base = stack.enter_context(open_file_source(instance, then.file))
        return CurrentSource(stack.pop_all(), base.snapshot, None, then, moment.now)
