"""A page of an ordered result, kept up to date: its subscriber sees only the page (``behaviour`` 4.4).

All matching records are held in order (:mod:`~sowctl.engine.subscriptions.feeds.order`), with their bodies outside
memory (:mod:`~sowctl.engine.subscriptions.held_values`). Most changes are after the last record of a full page and do
not affect it. Any other change moves the page by at most one record at each end, or concerns a record on it. So nothing
is sorted again, and the page is read from the order only if a change may have moved it. Of the events of one change,
records that leave come first, then those that enter (behaviour 4.4); each has the bookmark of the entry that caused it
and its own time (decision 56). Rows of a view change together, and records may expire together: the page is read once
after all of them, so that no record leaves and returns in between.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from sowctl.engine.search.sorter import FieldRanks
from sowctl.engine.subscriptions.feeds.focus import FocusEvent, FocusFeed
from sowctl.engine.subscriptions.feeds.order import OrderedItems
from sowctl.store.codec import read_stamps

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import MatchedPairs, Source
    from sowctl.engine.subscriptions.changes import TopicChanges
    from sowctl.engine.subscriptions.events import Delivery, EventReason
    from sowctl.engine.subscriptions.feeds.feed import DeliveredFinder
    from sowctl.engine.subscriptions.interest import Interest

RankedItem = tuple[Any, ...]
"""The parts of a sort key, then the SOW key: ties are ordered by key (``behaviour`` 11.6)."""
PAGE_PART_RECORDS = 1000


class FeedChange(NamedTuple):
    """A change of a record: its value, the previous one, or the reason of its removal, with the stamps of the event."""

    value: bytes
    before: bytes | None
    reason: EventReason | None
    txid: int
    time: int
    place: int | None


class PageFeed(FocusFeed):
    """The page of ``top_n`` records after the first ``skip_n``."""

    def __init__(self, instance: Instance, wanted: Interest) -> None:
        super().__init__(instance, wanted)
        self._skip, self._size = wanted.options.skip_n or 0, wanted.options.top_n or 0
        self._mixed = [False] * len(wanted.order)
        self._ranks = self._make_field_ranks()
        self._items: dict[bytes, RankedItem] = {}
        self._order = OrderedItems()
        self._page: list[RankedItem] = []
        self._fresh: dict[bytes, RankedItem] = {}
        self._moved = False
        # The changes of the current instant; None if each change is an instant of its own.
        self._step: dict[bytes, FeedChange] | None = None

    def preload_records(self, source: Source | None) -> None:
        """Read all matching records."""
        while source is not None and not self._load_all_records(source):
            # A number occurred in a field sorted as text: read everything again with the sort keys of numbers.
            self._held.clear()
            self._items, self._ends = {}, []
        self._order = OrderedItems(self._items.values())
        self._page = self._order.slice_items(self._skip, self._size)

    def deliver_records(
        self, source: Source | None, *, shown: bool, told: DeliveredFinder | None = None
    ) -> Iterator[Delivery]:
        """Deliver the page; call :meth:`preload_records` first."""
        keys = [item[-1] for item in self._page]
        if shown and keys:
            yield from self._report_records(keys, [self._get_value(key) for key in keys], told)

    def find_result_places(self, keys: Sequence[bytes], values: Sequence[bytes]) -> Collection[int]:
        """Return the indexes of the records that are on the page."""
        shown = {item[-1] for item in self._page}
        return [place for place, key in enumerate(keys) if key in shown]

    def read_result(self, source: Source) -> Iterator[MatchedPairs]:
        """Yield the page."""
        keys = [item[-1] for item in self._page]
        yield keys, [self._get_value(key) for key in keys]

    def _load_all_records(self, source: Source) -> bool:
        self._ranks = self._make_field_ranks()
        for keys, values in super()._find_matching(source):
            ranked = self._rank_values(values)
            if ranked is None:
                return False
            self._items.update(zip(keys, _make_ranked_items(keys, ranked), strict=True))
        return True

    def _make_field_ranks(self) -> FieldRanks | None:
        if not self.wanted.order:
            return None
        ranks = FieldRanks(self.wanted.order, self._mixed)
        ranks.set_type(self.wanted.kind)
        return ranks

    def _rank_values(self, values: Sequence[bytes]) -> Sequence[Any] | None:
        """Return the sort keys of values; without an order only SOW keys decide."""
        return [()] * len(values) if self._ranks is None else self._ranks.compute_ranks(values)

    def _preload_changes(self, changes: TopicChanges, matching: frozenset[int]) -> None:
        places = sorted(matching)
        keys, values = [changes.keys[place] for place in places], [changes.values[place] for place in places]
        ranked = self._rank_values(values)
        if ranked is None:
            self._rerank_records()
            ranked = self._rank_values(values)
            assert ranked is not None
        self._fresh = dict(zip(values, _make_ranked_items(keys, ranked), strict=True))

    def _rerank_records(self) -> None:
        """Recompute the sort keys of all records after a number has occurred in a field sorted as text."""
        self._ranks = self._make_field_ranks()
        keys = list(self._items)
        for start in range(0, len(keys), PAGE_PART_RECORDS):
            some = keys[start : start + PAGE_PART_RECORDS]
            ranked = self._rank_values([self._get_value(key) for key in some])
            assert ranked is not None
            self._items.update(zip(some, _make_ranked_items(some, ranked), strict=True))
        self._order = OrderedItems(self._items.values())
        self._moved = True

    def _get_value(self, key: bytes) -> bytes:
        value = self._held.get(key)
        assert value is not None
        return value

    def _drop_record(self, key: bytes) -> None:
        super()._drop_record(key)
        self._order.remove(self._items[key])
        self._was = self._items.pop(key)

    def _build_focus_events(self, changes: TopicChanges, matching: frozenset[int]) -> list[FocusEvent]:
        """Return the events of changes; those of one instant are applied before the page is read again."""
        if changes.publishers is not None:
            return super()._build_focus_events(changes, matching)
        rows: list[FocusEvent] = []
        for step in group_places_by_instant(changes):
            if len(step) == 1:
                rows += super()._build_focus_events(
                    changes.select(step), frozenset({0}) if step[0] in matching else frozenset()
                )
                continue
            txid, time = max(read_stamps(changes.values[place]) for place in step)
            if self._ends and self._ends[0][0] <= time:
                rows += self._expire_at(time)
            self._step = {}
            for place in step:
                value = changes.values[place]
                self._process_change(changes.keys[place], value, *read_stamps(value), place, matches=place in matching)
            changed, self._step = self._step, None
            if self._moved:
                rows += self._report_page_changes(changed, txid, step[-1])
        return rows

    def _expire_at(self, time: int) -> list[FocusEvent]:
        """Expire all records whose lifetimes end at one instant in one step, so that no record enters the page and
        leaves it at the same time."""
        rows: list[FocusEvent] = []
        while self._ends and self._ends[0][0] <= time:
            self._step = {}
            super()._expire_at(self._ends[0][0])
            changed, self._step = self._step, None
            if self._moved:
                rows += self._report_page_changes(changed, 0, None)
        return rows

    def _process_publish(
        self, key: bytes, value: bytes, before: bytes | None, txid: int, time: int, place: int | None
    ) -> Sequence[FocusEvent]:
        was, item = self._items.get(key), self._fresh[value]
        if was == item and not self._moved and self._step is None:
            # The record keeps its position: no other record moves.
            return super()._process_publish(key, value, before, txid, time, place) if self._is_on_page(item) else ()
        if was is not None:
            self._order.remove(was)
        self._order.add(item)
        self._items[key] = item
        touched = self._can_move_page(was) or self._can_move_page(item)
        return self._apply_change(
            key, FeedChange(value, before, None, txid, read_stamps(value)[1], place), touched=touched
        )

    def _process_removal(
        self, reason: EventReason, key: bytes, value: bytes, txid: int, time: int, place: int | None
    ) -> Sequence[FocusEvent]:
        return self._apply_change(
            key, FeedChange(value, None, reason, txid, time, place), touched=self._can_move_page(self._was)
        )

    def _can_move_page(self, item: RankedItem | None) -> bool:
        """Return whether a change at this position of the order can change the page."""
        if item is None or not self._size:
            return False
        return self._moved or len(self._page) < self._size or item <= self._page[-1]

    def _is_on_page(self, item: RankedItem) -> bool:
        return bool(self._page) and self._page[0] <= item <= self._page[-1]

    def _apply_change(self, key: bytes, change: FeedChange, *, touched: bool) -> Sequence[FocusEvent]:
        """Return the events of a change; none yet while other changes of its instant are pending."""
        if self._step is not None:
            self._step[key] = change
            self._moved = self._moved or touched
            return ()
        return self._report_page_changes({key: change}, change.txid, change.place) if touched else ()

    def _report_page_changes(
        self, changed: Mapping[bytes, FeedChange], txid: int, place: int | None
    ) -> Sequence[FocusEvent]:
        """Read the page after the changes of one instant, and return its events; ``place`` is that of the last
        change."""
        old, self._page = self._page, self._order.slice_items(self._skip, self._size)
        self._moved = False
        shown, shows = {item[-1] for item in old}, {item[-1] for item in self._page}
        rows: list[FocusEvent] = []
        # Records that leave come first, so that the subscriber never holds more than a page.
        for one in (item[-1] for item in old if item[-1] not in shows):
            change = changed.get(one)
            if change is not None:
                reason = change.reason or "match"
                rows += super()._process_removal(reason, one, change.value, change.txid, change.time, change.place)
            else:
                rows += super()._process_removal(
                    "match", one, other := self._get_value(one), txid, read_stamps(other)[1], place
                )
        for one in (item[-1] for item in self._page if item[-1] not in shown or item[-1] in changed):
            change = changed.get(one)
            if change is not None:
                known = change.before if one in shown else None
                rows += super()._process_publish(one, change.value, known, change.txid, change.time, change.place)
            else:
                other = self._get_value(one)
                rows += super()._process_publish(one, other, None, txid, read_stamps(other)[1], place)
        return rows


def group_places_by_instant(changes: TopicChanges) -> Iterator[Sequence[int]]:
    """Yield the indexes of changes of one instant together: all rows of a view, else those with one txid."""
    if changes.at_once:
        yield range(len(changes))
        return
    txids = [read_stamps(value)[0] for value in changes.values]
    for _, run in groupby(range(len(txids)), key=txids.__getitem__):
        yield list(run)


def _make_ranked_items(keys: Sequence[bytes], ranked: Sequence[Any]) -> Sequence[RankedItem]:
    """Return flat sort keys with their SOW keys: parts of one kind have one length, so flat ones compare alike."""
    if ranked and len(ranked[0]) == 1:
        return [(*rank[0], key) for rank, key in zip(ranked, keys, strict=True)]
    return [(*chain.from_iterable(rank), key) for rank, key in zip(ranked, keys, strict=True)]
