"""Resolving a bookmark, a list or a range to entries of a journal (``behaviour`` 4.6, 6.4, 11.59).

Called by replays and subscriptions. Positions are ordered as in the log, never by the numbers of bookmarks. The
checkpoints of files show which files are before a position; in the remaining file headers and maps of blocks do, so the
messages before it are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any

from sowctl.engine.subscriptions.bookmarks import (
    EPOCH,
    NOW,
    Bookmark,
    BookmarkRange,
    Mark,
    RangeBound,
    TimeMark,
    TxidMark,
)
from sowctl.engine.topics.histories import find_undoing_history, make_maybe_undone_error, make_undone_place_error
from sowctl.engine.topics.positions import open_log
from sowctl.errors import MissingError
from sowctl.identity.bookmarks import build_bookmark
from sowctl.structs import DescribedStruct
from sowctl.values.times import format_time

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.journal.entries import Entry
    from sowctl.journal.reader import Journal
    from sowctl.journal.state import JournalState
    from sowctl.values.times import Micros
    from sowctl.values.topicref import TopicRef

_BOOKMARK_TOO_OLD = "SOW-ENG-071"


class NotFoundPolicy(Enum):
    """The start of a subscription whose bookmark is not in the journals."""

    FAIL = "fail"
    EPOCH = "epoch"
    NOW = "now"


class TxidSpan(DescribedStruct, frozen=True):
    """The entries after the txid ``after``, up to the txid ``until`` if set.

    ``since`` excludes older entries. ``before`` is an end that the log has not reached: the span ends before the first
    entry at or after this time, and at this instant at the latest. Times in microseconds UTC.
    """

    after: int
    until: int | None = None
    since: Micros = 0
    before: Micros | None = None

    def contains_entry(self, txid: int, time: Micros) -> bool:
        """Return whether an entry belongs to the span."""
        return txid > self.after and time >= self.since and not self.ends_before(txid, time)

    def ends_before(self, txid: int, time: Micros) -> bool:
        """Return whether an entry is after the span's end. So are all later ones of the requested topics."""
        return (self.until is not None and txid > self.until) or (self.before is not None and time >= self.before)

    @property
    def is_bounded(self) -> bool:
        """True if the span has an end."""
        return self.until is not None or self.before is not None


class _MarkPosition(DescribedStruct, frozen=True):
    """The txids of the first and the last entry of a mark; a time is after ``last`` = ``first``.

    ``time`` is set for a time, ``ahead`` if the log has no entry at or after it yet.
    """

    first: int
    last: int
    time: Micros | None = None
    ahead: bool = False


def resolve_bookmark_range(
    instance: Instance,
    log: Journal,
    wanted: BookmarkRange,
    refs: frozenset[TopicRef] | None = None,
    not_found: NotFoundPolicy | None = None,
    *,
    requires_start: bool = False,
) -> TxidSpan:
    """Return the entries of ``log`` that ``wanted`` means; ``refs`` None stands for all topics.

    A start that is not in the journals follows ``not_found``. Without that policy, a start that never existed begins
    now, with a call of ``instance.notify``, or is an error with ``requires_start``; a start that was removed with older
    files is an error, because starting elsewhere would silently lose entries. Of a list, only the members that exist
    count.

    Raises MissingError ``SOW-ENG-070`` (no such entry; always for an end), ``SOW-ENG-071`` (older than the retained
    entries; names the first retained entry) and ``SOW-ENG-072`` (undone by a restore; names both histories), and what
    reading the journals raises.
    """
    if wanted.is_recent:
        raise ValueError("'recent' must be resolved in a bookmark store first")
    places = _MarkResolver(instance, log, refs)
    start = places.resolve_start(wanted.start, not_found, requires_start=requires_start)
    return start if wanted.end is None else places.resolve_end(start, wanted.end)


def resolve_without_journal(
    instance: Instance, wanted: BookmarkRange, not_found: NotFoundPolicy | None = None
) -> TxidSpan:
    """Resolve a range without a journal: all of its entries are in the future."""
    unknown = [mark for mark in wanted.start.marks if not isinstance(mark, TimeMark) and mark not in (EPOCH, NOW)]
    if len(unknown) == len(wanted.start.marks) and not_found is NotFoundPolicy.FAIL:
        raise _make_no_journal_error(wanted.start)
    if len(unknown) == len(wanted.start.marks) and not_found is None:
        instance.notify(
            f"{_format_marks(wanted.start)} does not exist yet, because the journal is empty: starting with it"
        )
    times = [mark.time + (wanted.start.inclusive is False) for mark in wanted.start.marks if isinstance(mark, TimeMark)]
    since = min(times) if times and len(times) + len(unknown) == len(wanted.start.marks) else 0
    if wanted.end is None:
        return TxidSpan(0, since=since)
    ends = [mark.time + bool(wanted.end.inclusive) for mark in wanted.end.marks if isinstance(mark, TimeMark)]
    if ends:
        return TxidSpan(0, since=since, before=max(ends))
    if EPOCH in wanted.end.marks or NOW in wanted.end.marks:
        return TxidSpan(0, 0)
    raise _make_no_journal_error(wanted.end)


def find_last_txid_at(instance: Instance, log: Journal, time: Micros, refs: frozenset[TopicRef]) -> int:
    """Return the txid before the first entry of ``refs`` that is newer than ``time``; the last txid without one."""
    return _MarkResolver(instance, log, refs).find_txid_before(time + 1)


def _make_no_journal_error(side: RangeBound) -> MissingError:
    hint = "publish a message first; sowctl journal dump shows the bookmarks of all entries"
    return MissingError("SOW-ENG-070", f"{_format_marks(side)} does not exist: the journal is empty", hint=hint)


class _MarkResolver:
    """Resolves positions in one journal in its current state."""

    def __init__(self, instance: Instance, log: Journal, refs: frozenset[TopicRef] | None) -> None:
        self._instance = instance
        self._log = log
        self._refs = refs
        self._last = log.read_last_txid()
        self._first = log.first_txid

    def resolve_start(self, side: RangeBound, not_found: NotFoundPolicy | None, *, requires_start: bool) -> TxidSpan:
        """Return the span from a start on, without an end."""
        found = self._find_marks(side)
        known: list[TxidSpan] = []
        for mark, place in found.items():
            if place is not None:
                known.append(self._make_span_from(place, side.inclusive))
            # Of this mark it is only known that it is before the oldest entry: a complete replay from there is
            # impossible, unless no wanted entry has been removed.
            elif self._is_pruned(mark):
                if not side.inclusive and self._is_complete_after(mark):
                    known.append(TxidSpan(self._first - 1))
                elif not_found is None:
                    raise self._make_too_old_error(mark)
        if known:
            earliest = min(known, key=lambda span: (span.after, span.since))
            # Combined with positions of entries, a time only means its position in the log: everything after the
            # earliest position must be delivered, whatever the clock of its publisher was.
            only_times = all(span.since for span in known)
            return earliest if only_times else TxidSpan(earliest.after)
        if not_found is None and (undone := self._make_undone_error(side)) is not None:
            raise undone
        if not_found is NotFoundPolicy.FAIL or (not_found is None and requires_start):
            raise self._make_unknown_error(side)
        if not_found is NotFoundPolicy.EPOCH:
            return TxidSpan(self._first - 1)
        self._instance.notify(f"{_format_marks(side)} is not in the journals: starting now, after txid {self._last}")
        return TxidSpan(self._last)

    def resolve_end(self, start: TxidSpan, side: RangeBound) -> TxidSpan:
        """Return ``start`` with an end."""
        inclusive = bool(side.inclusive)
        known = {mark: place for mark, place in self._find_marks(side).items() if place is not None}
        if not known:
            raise self._make_unknown_error(side)
        ahead = [place.time + inclusive for place in known.values() if place.time is not None and place.ahead]
        if ahead:
            return TxidSpan(start.after, None, start.since, max(ahead))
        # NOW is after the last entry, so an end there excludes nothing, whatever its bracket.
        until = max(self._find_end_txid(place, inclusive or mark == NOW) for mark, place in known.items())
        return TxidSpan(start.after, until, start.since)

    def _make_span_from(self, place: _MarkPosition, inclusive: bool | None) -> TxidSpan:
        if place.time is not None:
            # A time includes its own entries, unless a bracket excludes them (decision 59).
            return TxidSpan(place.last, since=place.time + (inclusive is False))
        return TxidSpan(place.first - 1 if inclusive else place.last)

    def _find_end_txid(self, place: _MarkPosition, inclusive: bool) -> int:
        if place.time is not None:
            return self.find_txid_before(place.time + 1) if inclusive else place.last
        return place.last if inclusive else place.first - 1

    def _find_marks(self, side: RangeBound) -> dict[Mark, _MarkPosition | None]:
        """Return every mark with its position, None if it is not in the journals."""
        places = {mark: self._find_mark(mark) for mark in side.marks}
        sought = [mark for mark in places if isinstance(mark, Bookmark) and places[mark] is None]
        for bookmark, (first, last) in find_publisher_entries(self._log, sought).items():
            places[bookmark] = _MarkPosition(first, last)
        for mark in sought:
            # A client may have the instance's name: its own numbers take precedence; the rest are the instance's txids.
            if places[mark] is None and mark.publisher == self._instance.publisher_id:
                places[mark] = self._find_entry_at(mark.sequence)
        return places

    def _find_mark(self, mark: Mark) -> _MarkPosition | None:
        """Return the position of a mark that needs no search through publishers' entries, else None."""
        if isinstance(mark, TimeMark):
            behind = self.find_txid_before(mark.time)
            return _MarkPosition(behind, behind, max(mark.time, 1), ahead=behind == self._last)
        if mark == EPOCH:
            # No entry has this position, so a bracket makes no difference.
            return _MarkPosition(self._first, self._first - 1)
        if mark == NOW:
            # The last actual entry; the txids of an aborted group after it are used up and are no entries.
            entry = max((state.last_txid for state in self._log.read_topic_states().values()), default=self._last)
            return _MarkPosition(max(entry, self._first), self._last)
        if isinstance(mark, TxidMark):
            number = mark.number
        elif self._is_instance_mark(mark):
            number = mark.sequence
        else:
            return None
        return self._find_entry_at(number)

    def _find_entry_at(self, txid: int) -> _MarkPosition | None:
        # Any used txid is a position, including one between entries; one that a restore has undone is not.
        if not self._first - 1 <= txid <= self._last or find_undoing_history(self._log, txid) is not None:
            return None
        return _MarkPosition(txid, txid)

    def _make_undone_error(self, side: RangeBound) -> MissingError | None:
        """Return the error for missing positions that a restore may have undone, else None."""
        for mark in side.marks:
            if isinstance(mark, TxidMark) or (isinstance(mark, Bookmark) and self._is_instance_mark(mark)):
                number = mark.number if isinstance(mark, TxidMark) else mark.sequence
                if (ended := find_undoing_history(self._log, number)) is not None:
                    return make_undone_place_error(_format_marks(side), ended, self._log)
            elif (
                isinstance(mark, Bookmark)
                and (error := make_maybe_undone_error(_format_marks(side), self._log)) is not None
            ):
                return error
        return None

    def _is_instance_mark(self, mark: Bookmark) -> bool:
        """Return whether a mark counts txids of the instance; a client of its name has its own numbers (decision
        54)."""
        return mark.publisher == self._instance.publisher_id and not self._log.find_highest_sequence(mark.publisher)

    def _is_pruned(self, mark: Mark) -> bool:
        """Return whether a mark that was not found is before the oldest file."""
        if isinstance(mark, TxidMark):
            return mark.number < self._first
        if isinstance(mark, Bookmark):
            if self._is_instance_mark(mark):
                return mark.sequence < self._first
            # A publisher's numbers only increase, so its highest number before the oldest file decides.
            known = self._log.read_beginning_state().publishers.get(mark.publisher)
            return known is not None and mark.sequence <= known[1]
        return False

    def _is_complete_after(self, mark: Mark) -> bool:
        """Return whether no wanted entry was removed between a mark and the oldest file."""
        txid = mark.number if isinstance(mark, TxidMark) else 0
        if isinstance(mark, Bookmark) and self._is_instance_mark(mark):
            txid = mark.sequence
        gone = self._log.read_beginning_state().topic_states
        return all(gone[ref].last_txid <= txid for ref in gone if self._refs is None or ref in self._refs)

    def find_txid_before(self, time: Micros) -> int:
        """Return the txid before the first wanted entry at or after ``time``; the last txid without one."""
        refs = self._refs

        # Times never decrease within a topic, so its last entry before a file decides for all entries before it.
        def reached(state: JournalState) -> bool:
            return any(
                known.last_time >= time for ref, known in state.topic_states.items() if refs is None or ref in refs
            )

        for ref in self._log.iter_block_refs(after=self._log.find_txid_before_file(reached)):
            if ref.header.latest < time or not (refs is None or any(map(ref.read_map().has_topic, refs))):
                continue
            block = ref.load()
            columns, names = block.decode_columns(), block.topic_refs
            for place, (at, topic) in enumerate(zip(columns.times, columns.topic_indexes, strict=True)):
                if at >= time and (refs is None or names[topic] in refs):
                    return block.first_txid + place - 1
        return self._last

    def _make_unknown_error(self, side: RangeBound) -> MissingError:
        return self._make_undone_error(side) or MissingError(
            "SOW-ENG-070",
            f"{_format_marks(side)} is not in the journals, which have txids {self._first} to {self._last}",
            hint="sowctl journal dump shows the bookmarks of all entries",
        )

    def _make_too_old_error(self, mark: Mark) -> MissingError:
        entry = read_first_entry(self._log)
        if entry is None:
            there = f"the journals begin at txid {self._first}"
            facts: dict[str, Any] = {}
        else:
            bookmark = str(build_bookmark(entry.publisher, entry.sequence, entry.txid, self._instance.publisher_id))
            there = f"the first entry has bookmark {bookmark} and txid {entry.txid}, {format_time(entry.time)}"
            facts = {"first_bookmark": bookmark}
        return MissingError(
            _BOOKMARK_TOO_OLD,
            f"{mark} is older than the oldest journal entry: {there}",
            place=self._log.search_locations,
            hint="restore older journals, or start at the oldest entry: --bookmark-not-found epoch",
            first_txid=self._first,
            **facts,
        )


def find_publisher_entries(log: Journal, sought: Iterable[Bookmark]) -> dict[Bookmark, tuple[int, int]]:
    """Return the txids of the first and the last entry with each bookmark of a publisher, without missing bookmarks.

    Several entries have one bookmark if they are in one atomic group.
    """
    left = {mark for mark in sought if log.find_highest_sequence(mark.publisher) >= mark.sequence}
    found: dict[Bookmark, tuple[int, int]] = {}
    if not left:
        return found
    group = 0
    for ref in log.iter_block_refs(after=min(log.find_txid_before_file(_make_reach_test(mark)) for mark in left)):
        # A bookmark that was found may have further entries up to the end of its group.
        if not left and ref.header.group != group:
            break
        highest = {row.hash: row.sequence for row in ref.read_map().publishers}
        here = [mark for mark in {*left, *found} if highest.get(mark.publisher, -1) >= mark.sequence]
        if not here:
            continue
        block = ref.load()
        columns = block.decode_columns()
        index = {who: place for place, (who, _) in enumerate(block.publishers)}
        for mark in here:
            who = index[mark.publisher]
            for place, (whose, sequence) in enumerate(zip(columns.publisher_indexes, columns.sequences, strict=True)):
                if whose == who and sequence == mark.sequence:
                    txid = block.first_txid + place
                    found[mark] = found.get(mark, (txid, txid))[0], txid
                    left.discard(mark)
                    group = block.header.group
    return found


def is_last_entry(instance: Instance, mark: Bookmark, txid: int) -> bool:
    """Return whether ``txid`` is the last entry with this bookmark."""
    with open_log(instance) as log:
        found = find_publisher_entries(log, [mark]).get(mark)
    # Entries without a publisher are not searched for: the bookmark of each has its own txid.
    return found is None or found[1] <= txid


def _make_reach_test(mark: Bookmark) -> Callable[[JournalState], bool]:
    return lambda state: state.publishers.get(mark.publisher, ("", -1))[1] >= mark.sequence


def read_first_entry(log: Journal) -> Entry | None:
    """Return the first entry of the journals, None without one."""
    return next((entry for block in log.iter_blocks() for entry in block.iter_entries()), None)


def _format_marks(side: RangeBound) -> str:
    return f"bookmark {side}" if len(side.marks) == 1 else f"any of the bookmarks {side}"
