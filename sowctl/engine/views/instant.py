"""Opening several topics as of one instant: every topic that a view reads, directly or through other views.

Journalled topics share one log, and are opened up to the same txid; other topics are opened in immediate succession. A
topic without any publish is empty. Called by the openers of this package. Sources stay open until the moment is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from sowctl.config.model import OtherEntry, TopicConfig
from sowctl.engine.sources.current import open_current_source
from sowctl.engine.sources.opener import open_source
from sowctl.engine.sources.past import EmptySource
from sowctl.engine.topics.derived_topics import refuse_circle
from sowctl.engine.topics.positions import NO_STORE_CODE, build_definition, has_log, open_log
from sowctl.engine.topics.targets import Target
from sowctl.errors import LockedError, MissingError

if TYPE_CHECKING:
    from sowctl.config.model import SowEntry
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source
    from sowctl.store.meta import StoreMeta
    from sowctl.values.topicref import TopicRef

T = TypeVar("T")
MAX_ATTEMPTS = 20
"""Maximum number of attempts to open topics as of one instant while they are written to. Only a fault exhausts them."""

Opener = Callable[["ViewInstant", OtherEntry], "Source"]
"""Opens a derived entry as of a moment; the returned source does not depend on the moment's sources."""


class Moved(Exception):
    """Raised if a source has advanced past the moment: the work is repeated as of a later moment."""


class ViewInstant:
    """The sources as of one instant. ``at``: microseconds UTC, None for the present; ``until``: the last txid of the
    log that it includes, None without a log or for an instant in the past; ``memory``: bytes that a computation may use
    before it spills to files, None for the default. Created by :func:`run_at_instant`."""

    def __init__(
        self,
        instance: Instance,
        at: int | None,
        until: int | None,
        open_entry: Opener,
        *,
        fresh: bool = False,
        memory: int | None = None,
    ) -> None:
        now = instance.now
        # One clock for all sources, so that no record expires between reading two of them.
        self.instance = replace(instance, clock=lambda: now)
        self.now = now
        self.at = at
        self.until = until
        self.fresh = fresh
        self.memory = memory
        self.opener = open_entry
        self._held = ExitStack()
        self._sources: dict[TopicRef, Source] = {}

    def find_source(self, ref: TopicRef) -> Source:
        """Return the source of a reference: a topic or a derived entry, opened on first use.

        Raises MissingError ``SOW-ENG-012`` if the configuration has no such entry, and the errors of opening.
        """
        if ref not in self._sources:
            entry = find_entry(self.instance, ref)
            self._sources[ref] = self._topic(entry) if isinstance(entry, TopicConfig) else self._derived(entry)
        return self._sources[ref]

    def _derived(self, entry: SowEntry) -> Source:
        assert isinstance(entry, OtherEntry)
        source = self.opener(self, entry)
        self._held.callback(source.close)
        return source

    def _topic(self, topic: TopicConfig) -> Source:
        try:
            source = self._open_topic(topic)
        except MissingError as missing:
            # Other topics of a join may have records; and a view of a topic without a store exists and is empty.
            if missing.code != NO_STORE_CODE:
                raise
            assert self.instance.config is not None
            return EmptySource(build_definition(self.instance.config.name, topic))
        self._held.callback(source.close)
        return source

    def _open_topic(self, topic: TopicConfig) -> Source:
        if self.at is not None:
            return open_source(self.instance, Target(topic=topic), self.at)
        if not topic.journalled or self.until is None:
            return open_current_source(self.instance, topic, now=self.now)
        until = self.until

        def admit(meta: StoreMeta) -> None:
            # Entries after the moment that a writer has applied would be visible in this topic but not in others.
            if meta.has_journal and meta.applied > until:
                raise Moved

        return open_current_source(self.instance, topic, now=self.now, until=until, admit=admit)

    def close(self) -> None:
        """Close all sources."""
        self._sources = {}
        self._held.close()


def run_at_instant(
    instance: Instance,
    entry: OtherEntry,
    at: int | None,
    open_entry: Opener,
    work: Callable[[ViewInstant], T],
    *,
    fresh: bool = False,
    memory: int | None = None,
    states: bool = True,
) -> T:
    """Return the result of ``work`` on the topics that an entry reads, all opened as of one instant.

    ``states``: open the topics before ``work``; an entry that reads only the log does not need them.

    Raises ConfigError ``SOW-VIW-004`` for an entry that reads itself, and the errors of :func:`run_with_topics`.
    """
    if instance.config is not None:
        refuse_circle(instance.config, entry)
    refs = list_topic_refs(instance, entry) if states else []
    return run_with_topics(
        instance, refs, at, open_entry, work, what=f"the sources of {entry.name}", fresh=fresh, memory=memory
    )


def run_with_topics(
    instance: Instance,
    refs: Sequence[TopicRef],
    at: int | None,
    open_entry: Opener,
    work: Callable[[ViewInstant], T],
    *,
    what: str,
    fresh: bool = False,
    memory: int | None = None,
) -> T:
    """Return the result of ``work`` on topics, all opened as of one instant.

    Raises LockedError ``SOW-VIW-001`` if they are written to faster than they can be opened together (the message names
    them as ``what``), and the errors of opening and of ``work``.
    """
    for _ in range(MAX_ATTEMPTS):
        # Read before opening sources: they are opened up to this txid, and a source past it raises Moved.
        until = None if at is not None else read_last_txid(instance)
        with (
            closing(ViewInstant(instance, at, until, open_entry, fresh=fresh, memory=memory)) as moment,
            suppress(Moved),
        ):
            for ref in refs:
                moment.find_source(ref)
            return work(moment)
    raise LockedError(
        "SOW-VIW-001",
        f"{what} changed during each attempt to read them at one instant",
        hint="run the command again",
    )


def find_entry(instance: Instance, ref: TopicRef) -> SowEntry:
    """Return the configuration entry of a reference. Raises MissingError ``SOW-ENG-012``."""
    name, message_type = ref
    found = instance.config.find_entries(name, message_type) if instance.config is not None else ()
    if not found:
        raise MissingError("SOW-ENG-012", f"topic {name!r} of type {message_type} does not exist", topic=name)
    return found[0]


def list_topic_refs(instance: Instance, entry: OtherEntry, *, read: bool = False) -> list[TopicRef]:
    """List the topics from which an entry is derived, directly or through other entries, each once, in order.

    ``read``: only topics whose state is read; a conflated topic reads the history of its topics instead.
    """
    found: dict[TopicRef, None] = {}
    waiting, seen = [entry], set()
    while waiting:
        current = waiting.pop()
        # refuse_circle rejects circular definitions; here they only must not cause an endless loop.
        if current in seen:
            continue
        seen.add(current)
        if read and current.kind == "ConflatedTopic":
            continue
        for ref in list_source_refs(instance, current):
            source = find_entry(instance, ref)
            if isinstance(source, OtherEntry):
                waiting.append(source)
            else:
                found[ref] = None
    return list(found)


def list_source_refs(instance: Instance, entry: OtherEntry) -> tuple[TopicRef, ...]:
    """List the topics and entries that an entry reads directly."""
    from sowctl.config.derived_entries import ConflatedTopic, View
    from sowctl.engine.views.definition import build_query

    if isinstance(entry, View):
        return build_query(instance, entry).sources
    return entry.sources if isinstance(entry, ConflatedTopic) else ()


def read_last_txid(instance: Instance) -> int | None:
    if not has_log(instance):
        return None
    with open_log(instance) as log:
        return log.read_last_txid()
