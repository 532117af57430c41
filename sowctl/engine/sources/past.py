"""A topic as it was at an instant: from retained versions, or from the journal if that is provably complete.

With History, the state comes from the retained versions (:mod:`sowctl.engine.sources.versions`), within the window
(``behaviour`` 2). Without, the journal's entries up to the instant are folded (``behaviour`` 11.34); if older journals
were removed, the remaining ones prove the state from some instant on, and an earlier request is refused with that
instant in the message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING

from sowctl.engine.fold.blocks import find_entry_places
from sowctl.engine.sources.current import CurrentSource, open_current_source, open_file_source
from sowctl.engine.sources.logical_topics import narrow_source
from sowctl.engine.sources.merge import group_by_key
from sowctl.engine.sources.recovery import find_recovery_start, has_all_entries
from sowctl.engine.sources.source import Pairs, Source
from sowctl.engine.sources.versions import VersionsSource
from sowctl.engine.topics.expiration import can_expire, is_expired
from sowctl.engine.topics.positions import open_log, open_whole_log, refuse_unlogged_past
from sowctl.errors import MissingError, RefusedError
from sowctl.journal.format import INSERTED_FLAG, UNKEYED_FLAG
from sowctl.store.codec import read_expiration, read_stamps
from sowctl.structs import DescribedStruct
from sowctl.values.times import find_last_txid, format_time

if TYPE_CHECKING:
    from pathlib import Path

    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.reader import Journal
    from sowctl.store.meta import Definition
    from sowctl.values.topicref import TopicRef

UNKNOWN_STATE_CODE = "SOW-ENG-050"
"""The code of the error for a past state that is no longer known."""


class EmptySource(Source):
    """The state before a topic's window: empty (``behaviour`` 2.1, rule 6)."""

    def __init__(self, definition: Definition) -> None:
        self.topic, self.message_type = definition.topic, definition.message_type
        self._definition = definition

    @property
    def definition(self) -> Definition:
        """Message type and keys of the records, as the store defines them."""
        return self._definition

    def read_part(self, size: int, start: bytes | None = None, stop: bytes | None = None) -> Iterator[Pairs]:
        """Yield no records."""
        return iter(())

    def find_records(self, keys: Sequence[bytes]) -> Pairs:
        """Return no records."""
        return [], []

    def close(self) -> None:
        """Do nothing."""


class StateOrigin(Enum):
    """The data from which a past state is computed."""

    PRESENT = "present"
    """The current state: nothing has changed since."""
    EMPTY = "empty"
    """No data: the instant is before the topic's window."""
    VERSIONS = "versions"
    """The retained versions of a topic with History."""
    FOLD = "fold"
    """The journal's entries up to the instant, which are complete."""
    PIECES = "pieces"
    """The store for records without an entry in the remaining journal; a fold of the remaining journal for all
    others."""


class PastStatePlan(DescribedStruct, frozen=True):
    """The plan for the state of a topic at the instant ``at``.

    ``current`` is its current state, opened for this. ``log`` is the journal, for :attr:`StateOrigin.FOLD` and
    :attr:`StateOrigin.PIECES`; a fold uses the entries after the txid ``after`` and, for an
    :class:`~sowctl.values.times.EntryInstant`, up to its txid instead of its time. Expiration is evaluated at
    ``clock``. For :attr:`StateOrigin.VERSIONS`, ``at`` is the instant itself, never EPOCH.
    """

    means: StateOrigin
    at: int
    clock: int
    current: CurrentSource
    log: Journal | None = None
    after: int = 0


def plan_past_state(
    instance: Instance, topic: TopicConfig, at: int, stack: ExitStack, *, by_versions: bool = False
) -> PastStatePlan:
    """Plan how the state of ``topic`` (all of a Pattern topic) as of ``at`` is computed, both here and on executors.

    ``at`` in microseconds UTC, inclusive; an instant in the future is the present, and instant 0 is EPOCH: with History
    the oldest state within the window (``behaviour`` 3.6). An :class:`~sowctl.values.times.EntryInstant` is the state
    after its entry: with all entries up to its txid, and no others; ``by_versions``: do not check retained versions for
    dropped versions in between. ``stack`` closes what this opens.

    Raises MissingError ``SOW-ENG-050``, with the first available instant, and what reading raises.
    """
    now = instance.now
    if not topic.journalled:
        # Records of such a topic have no txids of the log.
        at = int(at)
    if topic.history is not None:
        base = stack.enter_context(open_current_source(instance, topic, now=now))
        # versions removed at a later clock stay outside the window when the clock is set back
        oldest = max(now, base.meta.removal_mark) - topic.history.window_us
        means = StateOrigin.EMPTY if 0 < at < min(oldest, now) else StateOrigin.VERSIONS
        if means is StateOrigin.VERSIONS and find_last_txid(at) is not None and not by_versions:
            source = VersionsSource(base, topic, at)
            log = _open_complete_log(instance, topic, stack) if source.lacks_versions() else None
            if log is not None:
                return PastStatePlan(StateOrigin.FOLD, at, now, base, log)
        return PastStatePlan(means, at or oldest, now, base)
    clock = min(at, now)
    # Expiration is evaluated at the instant: a record that has expired since existed then (behaviour 11.15).
    current = stack.enter_context(open_current_source(instance, topic, now=clock))
    settled = max(current.meta.last_time, current.memtable.last_time if current.memtable is not None else 0)
    # before the removal mark, records existed that have been removed from the store since
    first = max(settled, current.meta.removal_mark)
    last = find_last_txid(at)
    if last is not None:
        unchanged = clock >= current.meta.removal_mark and not _has_entries_after(instance, topic, last)
    else:
        unchanged = at >= first
    # Nothing has changed since, so the current state is that of the instant, with expiration evaluated at it.
    if unchanged:
        return PastStatePlan(StateOrigin.PRESENT, at, clock, current)
    if not topic.journalled:
        raise _make_too_early_error(topic, first, "it has no History and no journal")
    # The whole journal is checked, including its end: folding a journal that lost its end would give a wrong state.
    log = stack.enter_context(open_whole_log(instance))
    try:
        # A journal that started after the topic's first records has all entries that it knows of, and still not the
        # past.
        refuse_unlogged_past(topic, current.meta, log)
    except RefusedError as error:
        why = "the journal does not have the records published before the topic was added to it"
        raise _make_too_early_error(topic, first, why) from error
    # Every state of a transient topic starts after its RecoveryPoint; that of a store starts with the journal.
    after = 0 if topic.file is not None else find_recovery_start(topic, log, instance)
    # The files on which the plan is based must still exist when it is executed: without the first entries of a key, a
    # fold would treat its record as one that never existed.
    log.require_files_after(after)
    return PastStatePlan(
        StateOrigin.FOLD if has_all_entries(topic, log, after) else StateOrigin.PIECES, at, clock, current, log, after
    )


def _open_complete_log(instance: Instance, topic: TopicConfig, stack: ExitStack) -> Journal | None:
    """Return the journal if it has all entries of a topic, to be closed by ``stack``; else None, with a note."""
    log = stack.enter_context(open_whole_log(instance))
    if has_all_entries(topic, log, 0):
        return log
    instance.notify_once(
        f"versions of {topic.name}",
        f"{topic.name} is shown as its Granularity has kept it: the journal does not have all of its entries",
    )
    return None


class _EntryStateSource(Source):
    """A topic with History after an entry: by its versions, and by a fold if a required version was dropped."""

    def __init__(self, versions: VersionsSource, instance: Instance, topic: TopicConfig, way: PastStatePlan) -> None:
        self.topic, self.message_type = versions.topic, versions.message_type
        self._versions, self._instance, self._config, self._way = versions, instance, topic, way
        self._exact: Source | None = None
        self._is_examined = False

    @property
    def definition(self) -> Definition:
        """Message type and keys of the records, as the store defines them."""
        return self._versions.definition

    def read_part(self, size: int, start: bytes | None = None, stop: bytes | None = None) -> Iterator[Pairs]:
        """Yield the records after the entry from ``start`` (inclusive) to ``stop`` (exclusive), in key order."""
        if not self._is_examined and self._versions.lacks_versions():
            self._fold()
        self._is_examined = True
        return (self._exact or self._versions).read_part(size, start, stop)

    def find_records(self, keys: Sequence[bytes]) -> Pairs:
        """Return the visible records of ``keys``, in key order."""
        if not self._is_examined and self._versions.lacks_versions(keys):
            self._fold()
        return (self._exact or self._versions).find_records(keys)

    def close(self) -> None:
        """Close the snapshot."""
        if self._exact is not None:
            self._exact.close()
        self._versions.close()

    def _fold(self) -> None:
        self._is_examined = True
        with ExitStack() as stack:
            log = _open_complete_log(self._instance, self._config, stack)
            if log is not None:
                way = self._way
                self._exact = _fold_journal_until(self._instance, self._config, log, 0, way.at, way.clock)


def _has_entries_after(instance: Instance, topic: TopicConfig, txid: int) -> bool:
    """Return whether the log has entries of a topic after a txid."""
    with open_log(instance) as log:
        blocks = log.iter_blocks(after=txid, topic=topic.ref)
        return any(len(find_entry_places(block, topic.ref, after=txid)) > 0 for block in blocks)


def open_past_source(instance: Instance, topic: TopicConfig, at: int) -> Source:
    """Open a configured topic as of ``at`` (microseconds UTC), as :func:`plan_past_state` plans; raises the same
    errors."""
    with ExitStack() as stack:
        way = plan_past_state(instance, topic, at, stack, by_versions=True)
        if way.means is StateOrigin.EMPTY:
            return EmptySource(way.current.definition)
        if way.means is StateOrigin.FOLD:
            assert way.log is not None
            return _fold_journal_until(instance, topic, way.log, way.after, way.at, way.clock)
        if way.means is StateOrigin.PIECES:
            made: Source = _open_pieced_source(instance, topic, way)
            assert way.log is not None
            way.log.close()
        else:
            made = way.current
            if way.means is StateOrigin.VERSIONS:
                versions = VersionsSource(way.current, topic, way.at)
                made = versions if find_last_txid(way.at) is None else _EntryStateSource(versions, instance, topic, way)
        stack.pop_all()  # the current state is part of the returned source, and is closed with it
        return made


def open_range_source(instance: Instance, topic: TopicConfig, since: int, until: int | None) -> Source:
    """Open the changes by entries after the instant ``since``, up to ``until``, of the keys of these entries.

    Both in microseconds UTC, ``until`` None for now; of an :class:`~sowctl.values.times.EntryInstant` its txid counts.
    A key whose last entry there is a deletion has no record. Raises MissingError ``SOW-QRY-021`` if no journal records
    the topic, and what opening it raises.
    """
    if not topic.journalled:
        raise MissingError("SOW-QRY-021", f"{topic.name!r} has no journal", hint="give one instant instead of a range")
    whole = topic.whole_topic
    with ExitStack() as stack:
        log = stack.enter_context(open_whole_log(instance))
        ref = whole.ref
        last = find_last_txid(since)
        after = last or 0
        # Times never decrease within a topic: its last entry at the instant is before all later ones.
        for block in log.iter_blocks(topic=ref) if last is None else ():
            if block.header.earliest > since:
                break
            places = find_entry_places(block, ref, at=since, unkeyed=True)
            after = block.first_txid + places[-1] if places else after
        clock = instance.now if until is None else min(until, instance.now)
        return narrow_source(_fold_journal_until(instance, whole, log, after, until, clock), topic)


def open_past_file(instance: Instance, path: Path, at: int) -> Source:
    """Open a bare store file as of ``at``: from its versions, else only if nothing has changed since."""
    base = open_file_source(instance, path)
    if base.meta.versions:
        return VersionsSource(base, None, at)
    # The file follows no journal here: it has the state at the instant only if it has nothing later.
    txid = find_last_txid(at)
    if at >= base.meta.last_time if txid is None or not base.meta.has_journal else txid >= base.meta.applied:
        return base
    last = base.meta.last_time
    base.close()
    raise MissingError(
        UNKNOWN_STATE_CODE,
        f"the state at {format_time(at)} is unknown: the file has no versions",
        place=str(path),
        hint=f"the earliest available instant is {format_time(last)}",
    )


def _fold_journal_until(
    instance: Instance, topic: TopicConfig, log: Journal, after: int, at: int | None, clock: int
) -> CurrentSource:
    """Fold the journal's entries after a txid and up to an instant into a store in a temporary directory."""
    from sowctl.engine.fold.rebuild import rebuild_stores
    from sowctl.engine.fold.tempstore import open_temporary_topic

    with ExitStack() as stack:
        then = stack.enter_context(open_temporary_topic(topic, "then"))
        assert then.file is not None
        last = find_last_txid(at)
        rebuild_stores(instance, log, [then], after={topic.ref: after}, until=last, at=at if last is None else None)
        # Opened as a bare file, without the journal: entries after the instant must not be folded in.
        base = stack.enter_context(open_file_source(instance, then.file))
        return CurrentSource(stack.pop_all(), base.snapshot, None, topic, clock)


def _open_pieced_source(instance: Instance, topic: TopicConfig, way: PastStatePlan) -> Source:
    """Open a past state if journals do not reach back: untouched records from the store, the others from the remaining
    log.

    The state can be proven from the last entry on that replaced or deleted a record without an entry in the log: before
    that entry the record was current, but neither store nor log has it.
    """
    assert way.log is not None
    ref = topic.ref
    # records replaced or deleted before the oldest file are no longer in the store
    expires = can_expire(topic.expiration)
    removed = way.current.meta.removal_mark if expires else 0
    start = find_provable_start(way.log, ref, max(way.log.find_prior_state(ref).last_time, removed), expires=expires)
    provable, touched, last = start.time, start.keys, find_last_txid(way.at)
    if way.clock < removed or (way.at < provable if last is None else last < start.txid):
        txid = start.txid if last is not None and way.clock >= removed else None
        raise _make_too_early_error(topic, provable, "older journals were removed", txid)
    then = _fold_journal_until(instance, topic, way.log, way.after, way.at, way.clock)
    return _PiecedSource(way.current, then, touched, topic, way)


class ProvableStart(DescribedStruct, frozen=True):
    """The first state that a log proves: its instant, its txid, and the keys of the entries."""

    time: int
    txid: int
    keys: set[bytes]


def find_provable_start(log: Journal, ref: TopicRef, since: int, after: int = 0, *, expires: bool) -> ProvableStart:
    """Return the first state that the entries of a topic after ``after`` prove.

    ``since``: the time of the topic's last entry up to there, or of the last physical removal, if that is later.
    ``expires``: records of the topic may expire.
    """
    touched: set[bytes] = set()
    provable, txid = since, after
    for block in log.iter_blocks(after=after, topic=ref):
        columns, own = block.decode_columns(), block.topic_refs.index(ref)
        keys, skip = bytes(columns.keys), max(0, after + 1 - block.first_txid)
        for place, (topic, flags) in enumerate(zip(columns.topic_indexes, columns.flags, strict=True)):
            if topic != own or place < skip or flags & UNKEYED_FLAG:
                continue
            key = keys[8 * place : 8 * place + 8]
            # Only the first entry of a key matters: the question is what was before it.
            if key in touched:
                continue
            touched.add(key)
            # The first remaining entry of this key replaced or deleted a record, whose entry was in a removed file:
            # before this entry's time the state of the key is unknown. If records expire, an entry may also insert
            # after an expired record, which the states before its expiration have.
            if expires or not flags & INSERTED_FLAG:
                provable, txid = max(provable, columns.times[place]), max(txid, block.first_txid + place)
    return ProvableStart(provable, txid, touched)


class _PiecedSource(Source):
    """Untouched records from the store; the others from the log."""

    def __init__(
        self, current: CurrentSource, then: Source, touched: set[bytes], topic: TopicConfig, way: PastStatePlan
    ) -> None:
        self.topic, self.message_type = current.topic, current.message_type
        self._current, self._then, self._touched = current, then, touched
        self._config, self._at, self._clock = topic, way.at, way.clock

    @property
    def definition(self) -> Definition:
        """Message type and keys of the records, as the store defines them."""
        return self._current.definition

    def read_part(self, size: int, start: bytes | None = None, stop: bytes | None = None) -> Iterator[Pairs]:
        """Yield the visible records from ``start`` (inclusive) to ``stop`` (exclusive), in key order."""
        # A key is either touched or not, so it comes from only one of the two streams.
        then, now = self._then.read_part(size, start, stop), self._current.read_part(size, start, stop)
        untouched = (row for batch in now for row in zip(*self._filter_untouched(batch), strict=True))
        rows = group_by_key((row for batch in then for row in zip(*batch, strict=True)), untouched)
        while some := list(islice(rows, size)):
            yield [key for key, _ in some], [values[-1] for _, values in some]

    def find_records(self, keys: Sequence[bytes]) -> Pairs:
        """Return the visible records of ``keys``, in key order."""
        found = dict(zip(*self._then.find_records(keys), strict=True))
        found.update(zip(*self._filter_untouched(self._current.find_records(keys)), strict=True))
        chosen = sorted(found)
        return chosen, [found[key] for key in chosen]

    def close(self) -> None:
        """Close the snapshots."""
        self._then.close()
        self._current.close()

    def _filter_untouched(self, pairs: Pairs) -> Pairs:
        rule = self._config.expiration
        kept = [
            (key, value)
            for key, value in zip(*pairs, strict=True)
            if key not in self._touched
            # An untouched record was written by an entry before the oldest file; one later than the requested instant
            # is excluded.
            and (find_last_txid(self._at) is not None or read_stamps(value)[1] <= self._at)
            and not is_expired(rule, read_expiration(value), self._clock)
        ]
        return [key for key, _ in kept], [value for _, value in kept]


def _make_too_early_error(topic: TopicConfig, first: int, why: str, txid: int | None = None) -> MissingError:
    place = format_time(first) if txid is None else f"that of txid {txid}"
    return MissingError(
        UNKNOWN_STATE_CODE,
        f"the state of topic {topic.name!r} at that instant is unknown: {why}",
        hint=f"the earliest available instant is {place}",
        topic=topic.name,
        first_instant=format_time(first),
    )
