"""A topic as it was at an instant: from retained versions, or from the journal where that is provably complete.

With History the retained versions answer (:mod:`sowctl.engine.sources.versions`), within the window (``semantics`` 2).
Without, the journal's entries up to the instant are folded (``semantics`` 11.34); where older journals are gone, what
is left still proves the state from some instant on, and an earlier request is refused with that instant in the message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.engine.sources.current import CurrentSource, open_current, open_file
from sowctl.engine.sources.recovery import reaches, recovery_start
from sowctl.engine.sources.source import Pairs, Source
from sowctl.engine.sources.versions import VersionsSource, grouped
from sowctl.engine.topics.expiration import expires, is_expired
from sowctl.engine.topics.positions import open_log, refuse_unlogged_past
from sowctl.errors import MissingError, RefusedError
from sowctl.journal.format import INSERTED, UNKEYED
from sowctl.store.codec import expiration_of, stamps
from sowctl.tuples import NamedTuple
from sowctl.values.times import format_time

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.reader import Journal
    from sowctl.store.meta import Definition


class Nothing(Source):
    """The state before a topic's window: empty (``semantics`` 2.1, rule 6)."""

    def __init__(self, definition: Definition) -> None:
        self.topic, self.message_type = definition.topic, definition.message_type
        self._definition = definition

    @property
    def definition(self) -> Definition:
        """See :class:`~sowctl.engine.sources.source.Source`."""
        return self._definition

    def part(self, size: int, start: bytes | None = None, stop: bytes | None = None) -> Iterator[Pairs]:
        """No records."""
        return iter(())

    def lookup(self, keys: Sequence[bytes]) -> Pairs:
        """No records."""
        return [], []

    def close(self) -> None:
        """Nothing to let go of."""


def open_at(instance: Instance, topic: TopicConfig, at: int) -> Source:
    """A configured topic as of ``at`` (microseconds UTC, inclusive); an instant in the future is the present.

    Instant 0 is EPOCH: with History the oldest state within the window (``semantics`` 3.6).

    Raises MissingError ``SOW-ENG-050``, with the first instant that can be answered, and what reading raises.
    """
    now = instance.now
    if topic.history is not None:
        base = open_current(instance, topic, now=now)
        # what was removed at a later clock stays outside the window when the clock is set back
        oldest = max(now, base.meta.removal_mark) - topic.history.window_us
        if 0 < at < min(oldest, now):
            base.close()
            return Nothing(base.definition)
        return VersionsSource(base, topic, at or oldest)
    current = open_current(instance, topic, now=min(at, now))
    with ExitStack() as stack:
        stack.callback(current.close)
        way = way_at(instance, topic, current, at, stack)
        if way is None:
            stack.pop_all()
            return current
        if way.reaches:
            return _folded(instance, topic, way.log, at, way.after)
        return _pieced(instance, topic, way.log, at, current, stack)


class Way(NamedTuple):
    """The journal's entries behind ``after`` make up a state of the past; ``reaches``: they are all there."""

    log: Journal
    after: int
    reaches: bool


def way_at(instance: Instance, topic: TopicConfig, current: CurrentSource, at: int, stack: ExitStack) -> Way | None:
    """How the state of a topic without History at ``at`` (microseconds UTC) is found, here and on executors alike.

    None: nothing was changed since, so that ``current``, the present state, is the answer. Else by a fold of the
    journal, which ``stack`` closes: of all that stands in it, or of a transient topic behind its RecoveryPoint, where
    every state of such a topic begins. Raises MissingError ``SOW-ENG-050`` where the journal cannot tell.
    """
    settled = max(current.meta.last_time, current.overlay.last_time if current.overlay is not None else 0)
    first = max(settled, current.meta.removal_mark)
    if at >= first:
        return None
    if not topic.journalled:
        raise _too_early(topic, first, "it keeps no history and has no journal")
    log = stack.enter_context(open_log(instance, whole=True))
    try:
        refuse_unlogged_past(topic, current.meta, log)
    except RefusedError as error:
        why = "the journal does not hold what was published before the topic was journalled"
        raise _too_early(topic, first, why) from error
    start = 0 if topic.file is not None else recovery_start(topic, log, instance)
    return Way(log, start, reaches(topic, log, start))


def open_file_at(instance: Instance, path: Path, at: int) -> Source:
    """A bare store file as of ``at``: from its versions, else only where nothing has changed since."""
    base = open_file(instance, path)
    if base.meta.versions:
        return VersionsSource(base, None, at)
    if at >= base.meta.last_time:
        return base
    last = base.meta.last_time
    base.close()
    raise MissingError(
        "SOW-ENG-050",
        f"the state at {format_time(at)} is not known: the file holds no versions",
        place=str(path),
        hint=f"the first instant that can be answered is {format_time(last)}",
    )


def _folded(instance: Instance, topic: TopicConfig, log: Journal, at: int, after: int = 0) -> Source:
    """The journal's entries behind ``after`` and up to ``at``, as a store in a temporary directory."""
    import tempfile

    from sowctl.engine.fold.rebuild import rebuild

    with ExitStack() as stack:
        place = tempfile.TemporaryDirectory(prefix="sowctl-")
        stack.callback(place.cleanup)
        path = Path(place.name) / "then.sow"
        rebuild(instance, log, [replace(topic, file=path)], after={(topic.name, topic.message_type): after}, at=at)
        base = open_file(instance, path)
        stack.callback(base.close)
        return CurrentSource(stack.pop_all(), base.snapshot, None, topic, at)


def _pieced(
    instance: Instance, topic: TopicConfig, log: Journal, at: int, current: CurrentSource, stack: ExitStack
) -> Source:
    """Journals that do not reach back: untouched records from the store, the others from what is left of the log."""
    ref = topic.name, topic.message_type
    touched: set[bytes] = set()
    # what was replaced or deleted before the oldest file is not in the store any more
    provable = max(log.before(ref).last_time, current.meta.removal_mark if expires(topic.expiration) else 0)
    for block in log.blocks(topic=ref):
        for entry in block.entries():
            if entry.topic == ref and entry.key not in touched and not entry.flags & UNKEYED:
                touched.add(entry.key)
                if not entry.flags & INSERTED:
                    provable = max(provable, entry.time)
    if at < provable:
        raise _too_early(topic, provable, "older journals are gone")
    then = _folded(instance, topic, log, at)
    stack.pop_all()
    return _Pieced(current, then, touched, topic, at)


class _Pieced(Source):
    """Records that the log does not touch, from the store; the others as the log has them."""

    def __init__(self, current: CurrentSource, then: Source, touched: set[bytes], topic: TopicConfig, at: int) -> None:
        self.topic, self.message_type = current.topic, current.message_type
        self._current, self._then, self._touched = current, then, touched
        self._config, self._at = topic, at

    @property
    def definition(self) -> Definition:
        """See :class:`~sowctl.engine.sources.source.Source`."""
        return self._current.definition

    def part(self, size: int, start: bytes | None = None, stop: bytes | None = None) -> Iterator[Pairs]:
        """See :class:`~sowctl.engine.sources.source.Source`."""
        then, now = self._then.part(size, start, stop), self._current.part(size, start, stop)
        for pairs in grouped(then, map(self._untouched, now)):
            yield [pairs[0]], [pairs[1][-1]]

    def lookup(self, keys: Sequence[bytes]) -> Pairs:
        """See :class:`~sowctl.engine.sources.source.Source`."""
        found = dict(zip(*self._then.lookup(keys), strict=True))
        found.update(zip(*self._untouched(self._current.lookup(keys)), strict=True))
        chosen = sorted(found)
        return chosen, [found[key] for key in chosen]

    def close(self) -> None:
        """See :class:`~sowctl.engine.sources.source.Source`."""
        self._then.close()
        self._current.close()

    def _untouched(self, pairs: Pairs) -> Pairs:
        rule = self._config.expiration
        kept = [
            (key, value)
            for key, value in zip(*pairs, strict=True)
            if key not in self._touched
            and stamps(value)[1] <= self._at
            and not is_expired(rule, expiration_of(value), self._at)
        ]
        return [key for key, _ in kept], [value for _, value in kept]


def _too_early(topic: TopicConfig, first: int, why: str) -> MissingError:
    return MissingError(
        "SOW-ENG-050",
        f"the state of topic {topic.name!r} at that instant is not known: {why}",
        hint=f"the first instant that can be answered is {format_time(first)}",
        topic=topic.name,
        first_instant=format_time(first),
    )
