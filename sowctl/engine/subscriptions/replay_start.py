"""The start of a subscription with a bookmark: the entries to replay, and the states before them.

A state is the retained state of each topic at the bookmark's position. Granularity may have dropped the version that
was current then, and a window the earlier ones: the replay starts early enough to deliver these changes again. So
messages may be delivered twice, but none is missing (``behaviour`` 2.2, 4.6). Called by
:mod:`sowctl.engine.subscriptions.subscription`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.engine.fold.blocks import find_entry_places
from sowctl.engine.sources.current import open_current_source
from sowctl.engine.sources.opener import open_source
from sowctl.engine.sources.past import UNKNOWN_STATE_CODE, EmptySource, plan_past_state
from sowctl.engine.sources.versions import VersionsSource
from sowctl.engine.subscriptions.spans import (
    NotFoundPolicy,
    TxidSpan,
    find_last_txid_at,
    resolve_bookmark_range,
    resolve_without_journal,
)
from sowctl.engine.subscriptions.topic_states import TopicStates
from sowctl.engine.topics.positions import NO_STORE_CODE, has_log, open_log
from sowctl.engine.topics.retention import find_version_at
from sowctl.engine.topics.targets import Target
from sowctl.errors import MissingError, RefusedError
from sowctl.store.limits import STORE_LIMITS
from sowctl.structs import DescribedStruct
from sowctl.values.times import EntryInstant

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source
    from sowctl.engine.subscriptions.bookmarks import BookmarkRange
    from sowctl.journal.reader import Journal
    from sowctl.values.times import Micros
    from sowctl.values.topicref import TopicRef


class ReplayStart(DescribedStruct, frozen=True):
    """The resolved bookmark for some topics: the entries, and the journal's end at that time.

    Entries after ``caught_up`` are live, not replayed. ``states``: for each topic with History, the latest instant at
    which its state was the one before the first entry; None: now.
    """

    span: TxidSpan
    caught_up: int
    states: dict[TopicRef, Micros | None]


def find_replay_start(
    instance: Instance,
    topics: Sequence[TopicConfig],
    wanted: BookmarkRange,
    not_found: NotFoundPolicy | None,
    *,
    states: bool,
    requires_start: bool = False,
) -> ReplayStart:
    """Resolve a bookmark for a subscription to ``topics``; ``states``: the records at that position are requested, too;
    ``requires_start``: as in :func:`~sowctl.engine.subscriptions.spans.resolve_bookmark_range`.

    Raises RefusedError ``SOW-FOL-021`` for a topic that is not recorded in the journal, and as
    :func:`~sowctl.engine.subscriptions.spans.resolve_bookmark_range`.
    """
    for topic in topics:
        if not topic.journalled:
            hint = "remove the bookmark, or add the topic to the TransactionLog"
            # The journal has the source topics; adding a derived topic to the TransactionLog would change nothing.
            if topic.derived is not None:
                hint = "remove the bookmark; query --at shows its state at a past time"
            raise RefusedError(
                "SOW-FOL-021",
                f"topic {topic.label!r} has no journal, so it cannot be replayed",
                hint=hint,
                topic=topic.label,
            )
    # References, because the journal lists the Pattern topic, not its logical topics.
    refs = frozenset(topic.ref for topic in topics)
    if not has_log(instance):
        return ReplayStart(resolve_without_journal(instance, wanted, not_found), 0, {})
    with open_log(instance) as log:
        span = resolve_bookmark_range(instance, log, wanted, refs, not_found, requires_start=requires_start)
        kept = frozenset(topic.ref for topic in topics if topic.history is not None)
        if not states or not kept:
            return ReplayStart(span, log.read_last_txid(), {})
        after = span.after
        # The records at an instant are those of a query as of it: they include messages published at that very instant,
        # unless a bracket requests these as messages.
        if span.since and not wanted.start.inclusive and kept == refs:
            after = max(after, find_last_txid_at(instance, log, span.since - (wanted.start.inclusive is False), refs))
        # A record older than the bookmark's time belongs to the state, whatever the bracket says about messages.
        return ReplayStart(
            replace(span, after=after, since=0), log.read_last_txid(), find_instants_before(log, kept, after)
        )


def find_instants_before(log: Journal, refs: frozenset[TopicRef], txid: int) -> dict[TopicRef, Micros | None]:
    """Return for each topic the latest instant at which its state was that after ``txid``; None: it is still current.

    This is just before its next entry, unless that has the same time as the one before it: times never decrease within
    a topic, but may be equal.
    """
    state = log.read_state_before(txid)
    last = {ref: known.last_time for ref in refs if (known := state.topic_states.get(ref)) is not None}
    after: dict[TopicRef, Micros | None] = dict.fromkeys(refs)
    left = set(refs)
    for ref in log.iter_block_refs(after=state.end.txid):
        header, names = ref.header, ref.read_map()
        # Maps have the last entry of every topic in a block; a block is read only if the position is within it.
        if header.last_txid <= txid:
            last |= {row.topic: row.last_time for row in names.topic_rows if row.topic in refs}
        elif any(row.topic in left for row in names.topic_rows):
            for entry in ref.load().iter_entries():
                if entry.txid <= txid and entry.topic in refs:
                    last[entry.topic] = entry.time
                elif entry.topic in left:
                    after[entry.topic] = max(entry.time - 1, last.get(entry.topic, 0))
                    left.discard(entry.topic)
            if not left:
                break
    return after


def open_replay_states(instance: Instance, topics: Sequence[TopicConfig], past: ReplayStart) -> tuple[TopicStates, int]:
    """Return the states before a replay, None for a topic without records; and the txid after which the replay starts.

    Raises MissingError ``SOW-ENG-071`` if the replay would have to start before the oldest journal file.
    """
    after = past.span.after
    with ExitStack() as held:
        sources: list[Source | None] = []
        for topic in topics:
            try:
                source, least = _open_past_state(instance, topic, past.states.get(topic.ref), held)
            except MissingError as error:
                if error.code != NO_STORE_CODE:
                    raise
                source, least = None, None
            sources.append(source)
            if least is not None and least < after:
                _require_entries_after(instance, topic, least)
                after = least
        return TopicStates(past.span.after, instance.now, sources, held.pop_all()), after


def _open_state(instance: Instance, topic: TopicConfig, txid: int, held: ExitStack) -> tuple[Source | None, bool]:
    """Return the state of a topic after an entry (None if it has none), closed by ``held``, and whether it is known."""
    last = _read_last_time(instance, topic, txid)
    if last is None:
        return None, True
    try:
        source = open_source(instance, Target(topic=topic), EntryInstant(last, txid))
    except MissingError as error:
        if error.code not in (NO_STORE_CODE, UNKNOWN_STATE_CODE):
            raise
        return None, error.code == NO_STORE_CODE
    held.callback(source.close)
    # Before the window of its History a topic's state is empty by definition, which is not its actual state then.
    return (None, False) if isinstance(source, EmptySource) else (source, True)


def open_states_before(instance: Instance, topics: Sequence[TopicConfig], txid: int) -> TopicStates:
    """Return the state of each topic after the entry ``txid``, whose records a consumer holds.

    Expiration is evaluated at the time of the topic's last entry up to there: later expirations may not have been
    reported, and are otherwise reported again. A state that the journal no longer proves is unknown, which a note
    reports.
    """
    with ExitStack() as held:
        sources: list[Source | None] = []
        unknown = set()
        for topic in topics:
            source, is_known = _open_state(instance, topic, txid, held)
            if not is_known:
                unknown.add(topic.ref)
            sources.append(source)
        if unknown:
            names = ", ".join(sorted({topic.label for topic in topics if topic.ref in unknown}))
            instance.notify_once(
                "records before a replay",
                f"{names}: the records at txid {txid} are unknown, because older journals were removed: deletions of "
                "these have no message, and their expirations are not printed",
            )
        return TopicStates(txid, instance.now, sources, held.pop_all(), frozenset(unknown))


def _read_last_time(instance: Instance, topic: TopicConfig, txid: int) -> Micros | None:
    """Return the time of the last entry of a topic up to a txid; None without one."""
    if topic.key_mode == "none" or not has_log(instance):
        return None
    ref = topic.whole_topic.ref
    with open_log(instance) as log:
        state = log.read_state_before(txid)
        last = known.last_time if (known := state.topic_states.get(ref)) is not None else None
        # The state is that at the start of a file or a block: the entries from there on are read one by one.
        for block in log.iter_blocks(after=state.end.txid, until=txid, topic=ref):
            places = find_entry_places(block, ref, until=txid, unkeyed=True)
            last = block.decode_columns().times[places[-1]] if places else last
    return last


def _open_past_state(
    instance: Instance, topic: TopicConfig, at: Micros | None, held: ExitStack
) -> tuple[Source | None, int | None]:
    """Return a topic's state, and the txid of its oldest version after which other versions may have been dropped."""
    if topic.key_mode == "none":
        return None, None
    if at is None:
        return held.enter_context(closing(open_current_source(instance, topic, now=instance.now))), None
    assert topic.history is not None
    # Outside the window states are unknown. The oldest state within it has all records that existed before; changes in
    # between are delivered again by the replay.
    oldest = at < instance.now - topic.history.window_us
    way = plan_past_state(instance, topic, 0 if oldest else at, held)
    source = VersionsSource(way.current, topic, way.at)
    # The flags of stored values do not have versions that were dropped from the history alone; the timelines do.
    found = (
        find_version_at(versions, way.at) for _, versions in source.iterate_timelines(STORE_LIMITS.read_batch_records)
    )
    return source, min((version.txid for version in found if version is not None and version.lossy), default=None)


def _require_entries_after(instance: Instance, topic: TopicConfig, txid: int) -> None:
    """Reject a replay after ``txid`` if later entries of the topic were removed."""
    with open_log(instance) as log:
        if txid < log.first_txid - 1 and txid < log.find_prior_state(topic.ref).last_txid:
            raise MissingError(
                "SOW-ENG-071",
                f"topic {topic.label!r} has merged its changes after txid {txid}, because of its "
                f"Granularity, and the journals, which begin at txid {log.first_txid}, no longer have "
                "them",
                place=log.search_locations,
                hint="start at a later position, or with the current state",
                first_txid=log.first_txid,
            )
