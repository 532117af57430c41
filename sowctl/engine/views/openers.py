"""Opening the source of any TARGET: a topic, a file, a view or another derived topic. All readers open sources here.

Each kind of derived entry has a line in :data:`OPENER_MODULES`. Its module defines ``open_entry(moment, entry)``, which
returns the source of the entry as of a moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from sowctl.engine.sources.opener import open_empty_source, open_source
from sowctl.engine.topics.positions import NO_STORE_CODE
from sowctl.errors import MissingError, UsageError

if TYPE_CHECKING:
    from sowctl.config.model import OtherEntry, TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source
    from sowctl.engine.topics.targets import Target
    from sowctl.engine.views.instant import ViewInstant

OPENER_MODULES = {
    "View": "sowctl.engine.views.view",
    "ConflatedTopic": "sowctl.engine.views.conflation.conflated_source",
    "Queue": "sowctl.engine.queues.queue_source",
    "LocalQueue": "sowctl.engine.queues.queue_source",
    "GroupLocalQueue": "sowctl.engine.queues.queue_source",
}
"""The module of each readable kind of entry."""


def open_target(
    instance: Instance,
    target: Target,
    at: int | None,
    *,
    fresh: bool = False,
    memory: int | None = None,
    must_exist: bool = False,
) -> Source:
    """Open the state of a target now, or as of ``at`` (microseconds UTC). Close it after use.

    ``fresh``: compute derived entries from their topics, and rebuild their caches (call :func:`check_fresh` first).

    ``memory``: bytes that groups may use before they spill to files. A topic without any publish is empty, with a note;
    with ``must_exist`` it raises MissingError ``SOW-ENG-010``.

    Raises the errors of opening its topics, and UsageError ``SOW-ENG-031`` for entries that cannot be read.
    """
    topic = target.topic
    # The modules of views are loaded only for derived entries.
    if topic is None or topic.derived is None:
        try:
            return open_source(instance, target, at)
        except MissingError as error:
            if must_exist or topic is None or error.code != NO_STORE_CODE:
                raise
            return open_empty_source(instance, topic, error)
    from sowctl.engine.sources.logical_topics import narrow_source
    from sowctl.engine.views.instant import run_at_instant

    entry = topic.derived
    # A conflated topic reads the log itself, not the state of its topics.
    states = entry.kind == "View"
    found = run_at_instant(
        instance,
        entry,
        at,
        open_derived_entry,
        lambda moment: open_derived_entry(moment, entry),
        fresh=fresh,
        memory=memory,
        states=states,
    )
    return narrow_source(found, topic)


def has_known_state(instance: Instance, topic: TopicConfig) -> bool:
    """Return whether the state of a topic is known. Without a journal, a conflated topic has only its stored state."""
    entry = topic.derived
    if entry is None or entry.kind != "ConflatedTopic":
        return True
    from sowctl.config.derived_entries import ConflatedTopic
    from sowctl.engine.views.cache import find_cache_path
    from sowctl.engine.views.conflation.state_tables import is_recorded

    assert isinstance(entry, ConflatedTopic)
    path = find_cache_path(instance, entry)
    return is_recorded(instance, entry) or (path is not None and path.exists())


def open_filtered_target(instance: Instance, target: Target, at: int | None, filter: str | None) -> Source:
    """Like :func:`open_target`, with only the records that match ``filter``; all of them without a filter.

    Also raises the errors of compiling the filter.
    """
    source = open_target(instance, target, at)
    if filter is None or not filter.strip():
        return source
    from sowctl.engine.extensions.functions import load_functions
    from sowctl.engine.search.filter_notes import note_filter
    from sowctl.engine.search.matcher import FilteredSource, Matcher, build_environment

    try:
        matcher = Matcher(
            filter,
            instance.find_message_type(source.message_type),
            source.topic,
            build_environment(instance),
            seen=source.definition.key_mode == "fields",
            functions=load_functions(instance),
        )
        note_filter(instance, filter)
        return FilteredSource(source, matcher)
    except BaseException:
        source.close()
        raise


def check_fresh(instance: Instance, targets: Sequence[Target]) -> None:
    """Raise UsageError ``SOW-QRY-019`` unless every target is derived from topics and can be recomputed."""
    for target in targets:
        topic = target.topic
        entry = topic.derived if topic is not None else None
        if topic is None or entry is None or entry.kind not in ("View", "ConflatedTopic"):
            what = "a file" if topic is None else f"{topic.label!r}, a {entry.kind if entry is not None else 'Topic'},"
            hint = "use --fresh only with views and conflated topics"
            raise UsageError("SOW-QRY-019", f"{what} is not computed from topics", hint=hint)
        if entry.kind == "ConflatedTopic":
            from sowctl.config.derived_entries import ConflatedTopic
            from sowctl.engine.views.conflation.state_tables import is_recorded

            assert isinstance(entry, ConflatedTopic)
            if not is_recorded(instance, entry):
                raise UsageError(
                    "SOW-QRY-019",
                    f"{entry.name!r} cannot be recomputed: its source has no journal",
                    hint="remove --fresh: only the state saved by sowctl conflate is available",
                    topic=entry.name,
                )


def open_derived_entry(moment: ViewInstant, entry: OtherEntry) -> Source:
    """Open the source of a derived entry of any kind as of a moment; it stays open after the moment is closed."""
    module = OPENER_MODULES.get(entry.kind)
    if module is None:
        from sowctl.engine.topics.derived_topics import make_not_topic_error

        raise make_not_topic_error(entry)
    source: Source = import_module(module).open_entry(moment, entry)
    return source
