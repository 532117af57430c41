"""bookmark: the positions in a bookmark store compared with the journal: their lag, and whether they still exist (9).

A store keeps texts. They are resolved as by a subscription (:mod:`sowctl.engine.subscriptions.spans`), so the report
shows what a subscription would do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.engine.subscriptions.bookmark_stores.place_lock import hold_place_locks
from sowctl.engine.subscriptions.bookmark_stores.protocol import StoredPlace, Subscriber
from sowctl.engine.subscriptions.bookmarks import Bookmark, BookmarkRange, RangeBound, parse_bookmark_range
from sowctl.engine.subscriptions.spans import NotFoundPolicy, resolve_bookmark_range
from sowctl.engine.topics.positions import has_log, open_log
from sowctl.errors import RefusedError, SowError, UsageError
from sowctl.identity.bookmarks import EPOCH
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.subscriptions.bookmark_stores.protocol import BookmarkStore
    from sowctl.journal.reader import Journal
    from sowctl.values.times import Micros
    from sowctl.values.topicref import TopicRef


class SubscriptionSelection(DescribedStruct, frozen=True):
    """A selection of subscriptions: of one client, with one id; None selects any."""

    client: str | None = None
    sub_id: str | None = None

    def includes(self, who: Subscriber) -> bool:
        """Return whether a subscription is selected."""
        return self.client in (None, who.client) and self.sub_id in (None, who.sub_id)


class Lag(DescribedStruct, frozen=True):
    """The lag of a position: number of later entries, bytes of their messages, seconds since the first of them."""

    entries: int
    bytes: int
    seconds: float


class BookmarkStanding(DescribedStruct, frozen=True):
    """A position compared with the journal.

    ``txid``: the subscription resumes after it; ``publisher``: the client of a single bookmark, if the journals know
    it; ``logged``: the time of the entry there. All are None if ``problem`` says why the position does not exist.
    ``missing`` are the members of a list that do not exist, if others do.
    """

    row: StoredPlace
    publisher: str | None = None
    txid: int | None = None
    logged: Micros | None = None
    lag: Lag | None = None
    problem: SowError | None = None
    missing: tuple[str, ...] = ()


def list_standings(
    instance: Instance, store: BookmarkStore, chosen: SubscriptionSelection, topics: Sequence[TopicConfig] | None = None
) -> list[BookmarkStanding]:
    """Return the chosen positions of a store, ordered by client and id; without a journal, only as they are stored.

    A store does not know the topics of its subscriptions: lags are of all topics in the journal, or of ``topics``; for
    a view or conflated topic, of its source topics.
    """
    rows = [row for row in store.list_places() if chosen.includes(row.who)]
    if not rows or not has_log(instance):
        return [BookmarkStanding(row) for row in rows]
    # A missing position is reported with its row; notes about it are left to the subscription.
    quiet = replace(instance, notify=lambda words: None)
    with open_log(instance) as log:
        found = [_locate_place(quiet, log, row) for row in rows]
        wanted = None if topics is None else frozenset(_list_logged_topics(instance, topics))
        lags = _compute_lags(log, {one.txid for one in found if one.txid is not None}, instance.now, wanted)
        return [one if one.txid is None else replace(one, lag=lags[one.txid]) for one in found]


def set_place(instance: Instance, store: BookmarkStore, who: Subscriber, text: str, *, force: bool = False) -> str:
    """Store a position; return it as text. Times are stored as instants, so that they do not change.

    Unless ``force``, raises what resolving it raises: a subscription that resumes there would fail with it. Raises
    LockedError ``SOW-BKM-010`` if the subscription is running: it would overwrite this position with its own.
    """
    wanted = parse_bookmark_range(text, instance.clock)
    if wanted.is_recent:
        raise UsageError("SOW-BKM-007", "'recent' is the stored position itself")
    if not force and has_log(instance):
        with open_log(instance) as log:
            resolve_bookmark_range(instance, log, wanted, not_found=NotFoundPolicy.FAIL)
    with hold_place_locks(store, [who], instance):
        store.set_place(who, str(wanted))
    return str(wanted)


def rewind_places(
    instance: Instance, store: BookmarkStore, chosen: SubscriptionSelection, text: str
) -> list[StoredPlace]:
    """Set the chosen positions back to ``text``; return the new rows, ordered by client and id.

    Raises RefusedError ``SOW-BKM-008`` if one of them would move forward, LockedError ``SOW-BKM-010`` if one of the
    subscriptions is running: then none is changed.
    """
    wanted = parse_bookmark_range(text, instance.clock)
    if wanted.is_recent or wanted.end is not None:
        raise UsageError("SOW-BKM-007", f"{text!r} is not a single position", hint="give a time, a bookmark or a txid")
    quiet = replace(instance, notify=lambda words: None)
    with open_log(instance) as log:
        to = resolve_bookmark_range(instance, log, wanted, not_found=NotFoundPolicy.FAIL).after
        locked = {row.who for row in store.list_places() if chosen.includes(row.who)}
        with hold_place_locks(store, sorted(locked), instance):
            # Read again under the locks: until then another run may have set a position further back, or removed it.
            rows = [row for row in store.list_places() if row.who in locked]
            for row in rows:
                found = _locate_place(quiet, log, row)
                # A position that no longer exists counts as later than all existing ones, so it can be set back.
                if found.txid is not None and found.txid < to:
                    raise RefusedError(
                        "SOW-BKM-008",
                        f"client {row.who.client!r}, subscription {row.who.sub_id!r} is at txid {found.txid}, "
                        f"but {text!r} is at txid {to}: the messages between would be skipped",
                        hint="to move a position forward, use sowctl bookmark set",
                    )
            for row in rows:
                store.set_place(row.who, str(wanted))
            return [row for row in store.list_places() if row.who in locked]


def purge_subscriptions(
    instance: Instance, store: BookmarkStore, chosen: SubscriptionSelection, *, dry_run: bool = False
) -> list[StoredPlace]:
    """Remove the chosen subscriptions; return their rows. Raises LockedError ``SOW-BKM-010`` if one is running."""
    rows = [row for row in store.list_places() if chosen.includes(row.who)]
    if not dry_run:
        with hold_place_locks(store, [row.who for row in rows], instance):
            for row in rows:
                store.remove_place(row.who)
    return rows


def _locate_place(instance: Instance, log: Journal, row: StoredPlace) -> BookmarkStanding:
    """Return the report of a stored position, without the lag."""
    try:
        wanted = parse_bookmark_range(row.bookmark, instance.clock)
        after = resolve_bookmark_range(instance, log, wanted, not_found=None).after
        missing = tuple(_find_missing_members(instance, log, wanted))
        if len(missing) == len(wanted.start.marks):
            resolve_bookmark_range(instance, log, wanted, not_found=NotFoundPolicy.FAIL)
    except SowError as problem:
        return BookmarkStanding(row, problem=problem)
    publisher = None
    if len(wanted.start.marks) == 1 and isinstance(mark := wanted.start.marks[0], Bookmark):
        known: Mapping[int, tuple[str, int]] = log.refresh_state().publishers
        name = instance.config.name if instance.config is not None else None
        publisher = known[mark.publisher][0] if mark.publisher in known else None
        publisher = name if publisher is None and mark.publisher == instance.publisher_id else publisher
    return BookmarkStanding(row, publisher, after, _find_entry_time(log, after), missing=missing)


def _find_missing_members(instance: Instance, log: Journal, wanted: BookmarkRange) -> Iterator[str]:
    """Yield the members of a start that are not in the journals."""
    for mark in wanted.start.marks:
        try:
            resolve_bookmark_range(
                instance, log, BookmarkRange(RangeBound((mark,), wanted.start.inclusive)), not_found=NotFoundPolicy.FAIL
            )
        except SowError:
            yield "0" if mark == EPOCH else str(mark)


def _find_entry_time(log: Journal, txid: int) -> Micros | None:
    """Return the time of the entry with a txid; None without one."""
    for block in log.iter_blocks(after=txid - 1, until=txid):
        if block.first_txid <= txid <= block.last_txid:
            time: Micros = block.decode_columns().times[txid - block.first_txid]
            return time
    return None


def _list_logged_topics(instance: Instance, topics: Iterable[TopicConfig]) -> Iterator[TopicRef]:
    """Yield the topics as journals name them: derived ones by their source topics."""
    from sowctl.engine.views.instant import list_topic_refs

    for topic in topics:
        if topic.derived is None:
            yield topic.ref
        else:
            yield from list_topic_refs(instance, topic.derived)


def _compute_lags(log: Journal, places: Iterable[int], now: Micros, refs: frozenset[TopicRef] | None) -> dict[int, Lag]:
    """Return the lag of each position, computed in one pass over the block headers after the first of them.

    A block is read if a position is within it, or if it has entries of unwanted topics, too.
    """
    waiting = sorted(places, reverse=True)
    entries = size = 0
    # For each position: entries and bytes between the first position and it, and the time of the next entry.
    before: dict[int, tuple[int, int, Micros]] = {}
    untimed: list[int] = []
    for ref in log.iter_block_refs(after=waiting[-1] if waiting else 0):
        header = ref.header
        inner = []
        while waiting and waiting[-1] < header.last_txid:
            inner.append(waiting.pop())
        named = [row.topic for row in ref.read_map().topic_rows] if refs is not None else []
        if refs is not None and refs.isdisjoint(named):
            before.update((place, (entries, size, 0)) for place in inner)
            untimed += inner
            continue
        mixed = refs is not None and not refs.issuperset(named)
        if not (inner or untimed or mixed):
            entries, size = entries + header.count, size + header.payloads_raw
            continue
        columns = ref.load().decode_columns()
        own = [at for at in range(header.count) if refs is None or named[columns.topic_indexes[at]] in refs]
        for place in inner:
            # A position before the block is after the previous block, since there are no entries between.
            passed = [at for at in own if header.first_txid + at <= place]
            before[place] = entries + len(passed), size + sum(columns.lengths[at] for at in passed), 0
        untimed += inner
        for place in list(untimed):
            first = next((at for at in own if header.first_txid + at > place), None)
            if first is not None:
                before[place] = *before[place][:2], columns.times[first]
                untimed.remove(place)
        entries, size = entries + len(own), size + sum(columns.lengths[at] for at in own)
    return {
        place: Lag(entries - before[place][0], size - before[place][1], max(now - before[place][2], 0) / 1e6)
        if place in before and entries > before[place][0]
        else Lag(0, 0, 0.0)
        for place in places
    }
