"""changes: the changes of a topic's records since a position in the journal (sowctl-export(1)).

The rows are those of :mod:`sowctl.engine.fold.changefeed`, with expirations: applied to the records at the position,
they give the current records. The result can be read several times and is the same each time: its end and its clock are
fixed at the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from sowctl.engine.extensions.functions import load_functions
from sowctl.engine.fold.blocks import EntrySpan
from sowctl.engine.fold.changefeed import ChangeRow, Lifetimes, iterate_changes
from sowctl.engine.options import QueryOptions
from sowctl.engine.records import StoredRecord
from sowctl.engine.search.keytext import read_key_options
from sowctl.engine.search.matcher import Matcher, build_environment
from sowctl.engine.search.terms import parse_select_list
from sowctl.engine.sources.logical_topics import build_logical_filter
from sowctl.engine.subscriptions.bookmarks import EPOCH, TxidMark, parse_bookmark_range
from sowctl.engine.subscriptions.replay import parse_not_found_policy
from sowctl.engine.subscriptions.replay_start import find_replay_start
from sowctl.engine.subscriptions.spans import NotFoundPolicy
from sowctl.engine.topics.expiration import can_expire
from sowctl.engine.topics.positions import has_log, open_log
from sowctl.errors import UsageError
from sowctl.identity.bookmarks import Bookmark, build_bookmark
from sowctl.messages.base import find_exact_view, replaces_bytes, select_all
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.subscriptions.bookmarks import BookmarkRange, Mark
    from sowctl.engine.subscriptions.spans import TxidSpan
    from sowctl.engine.topics.targets import Target
    from sowctl.journal.reader import Journal
    from sowctl.messages.base import MessageType
    from sowctl.values.topicref import TopicRef

NO_FEED_CODE = "SOW-EXC-019"


class ChangeRecord:
    """A row of a change feed as an output record: the record before or after the change; txid, time and bookmark of the
    entry. ``owner``: the publisher id of the instance."""

    __slots__ = ("_owner", "_record", "payload", "row")

    def __init__(self, row: ChangeRow, owner: int, payload: bytes) -> None:
        self.row = row
        self.payload = payload
        self._owner = owner
        self._record = None if row.image is None else StoredRecord(row.key, row.image, payload)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.change_type!r}, {self.sow_key}, {self.payload!r})"

    @property
    def change_type(self) -> str:
        """insert, update_preimage, update_postimage or delete."""
        return self.row.kind

    @property
    def reason(self) -> str | None:
        """Of a delete: deleted or expired."""
        return self.row.reason

    @property
    def has_data(self) -> bool:
        """True if the record is known."""
        return self._record is not None

    @property
    def sow_key(self) -> int:
        """The SOW key as a number."""
        return int.from_bytes(self.row.key, "big")

    @property
    def txid(self) -> int | None:
        """The txid of the entry; None for an expiration."""
        return self.row.txid

    @property
    def timestamp(self) -> int:
        """The time of the entry or expiration, microseconds UTC."""
        return self.row.time

    @property
    def expiration(self) -> int:
        """Expiration of the record, microseconds UTC; 0 is never."""
        return 0 if self._record is None else self._record.expiration

    @property
    def bookmark(self) -> str | None:
        """The bookmark of the entry; None for an expiration."""
        row = self.row
        if row.txid is None:
            return None
        publisher = None if row.client is None else row.client[0]
        return str(build_bookmark(publisher, row.sequence or 0, row.txid, self._owner))

    @property
    def correlation_id(self) -> str | None:
        """The correlation id of the record."""
        return None if self._record is None else self._record.correlation_id

    @property
    def extra(self) -> dict[str, object]:
        """Type of the change and reason of a deletion; client and sequence of the entry; publisher's key and logical
        topic of the record."""
        row = self.row
        found: dict[str, object] = {"change_type": row.kind, "reason": row.reason}
        if self._record is not None:
            found |= self._record.extra or {}
        if row.client is not None:
            found |= {"client": row.client[1], "sequence": row.sequence or None}
        return found


class ChangeBatch(DescribedStruct, frozen=True):
    """Rows of one topic, in the order of the journal."""

    topic: str
    kind: MessageType
    records: list[ChangeRecord]
    shown: tuple[str, ...] | None = None

    @property
    def message_type(self) -> str:
        """The name of the message type."""
        return self.kind.name

    @property
    def payloads(self) -> Sequence[bytes]:
        """The payloads of its records; empty for an unknown record."""
        return [record.payload for record in self.records]

    def view(self, payload: bytes) -> bytes:
        """Return a payload as one line of JSON."""
        return self.kind.view(payload) if payload else b"null"

    def members_view(self, payload: bytes) -> bytes:
        """Return a JSON object with the members that columns show."""
        return self.kind.members_view(payload) if payload else b"null"

    @property
    def repeatable(self) -> bool:
        """True if a field with one value may be a list of one (:attr:`MessageType.repeatable`)."""
        return self.kind.repeatable

    @property
    def replaces_bytes(self) -> bool:
        """True if views may have U+FFFD instead of bytes that are not UTF-8."""
        return replaces_bytes(self.kind)

    @property
    def exact_view(self) -> Callable[[bytes], bytes] | None:
        """The function that renders a payload as an object, with words for NaN and infinities; None if the type has
        none."""
        exact = find_exact_view(self.kind)
        return None if exact is None else lambda payload: exact(payload) if payload else b"null"


class ChangesResult:
    """The changes, in batches: iterate for them. ``txid`` is the position after them, ``bookmark`` its bookmark."""

    def __init__(self, instance: Instance, target: Target, options: QueryOptions, span: TxidSpan, last: int) -> None:
        """``last``: the last txid of the journal. Created by :func:`start_changes`."""
        assert target.topic is not None
        self.txid = last if span.until is None else min(span.until, last)
        self.counts: dict[str, int] = {}
        """Number of rows by type of change, of the last iteration."""
        self._instance = instance
        self._topic = topic = target.topic
        self._span = span
        self._now = instance.now
        kind = instance.find_message_type(topic.message_type)
        self._matcher = Matcher(
            options.filter,
            kind,
            topic.name,
            build_environment(instance),
            seen=topic.key_mode == "fields",
            functions=load_functions(instance),
        )
        keys = read_key_options(options, target, None)
        self._keys = None if keys is None else frozenset(keys)
        self._select = parse_select_list(options.select)
        self._meant = None if topic.logical is None else build_logical_filter(topic.logical)

    @property
    def bookmark(self) -> str:
        """The position after these changes, in the format of bookmark stores."""
        return str(Bookmark(self._instance.publisher_id, self.txid))

    def __iter__(self) -> Iterator[ChangeBatch]:
        return self.iterate_again()

    def records(self) -> Iterator[ChangeRecord]:
        """Yield the rows one by one."""
        for batch in self.iterate_again():
            yield from batch.records

    def iterate_again(self) -> Iterator[ChangeBatch]:
        """Yield the changes, starting at the first one."""
        self.counts = {}
        if not has_log(self._instance):
            return
        topic = self._topic
        expires = can_expire(topic.expiration)
        with open_log(self._instance) as log:
            if expires:
                self._note_unknown_lifetimes(log)
            rows = iterate_changes(
                log,
                topic.whole_topic.ref,
                EntrySpan(self._span.after, self.txid),
                Lifetimes(self._now) if expires else None,
                # A feed with an explicit end stops with its last entry.
                None if self._span.is_bounded else self._now,
            )
            for some in rows:
                if chosen := self._choose_rows(some):
                    yield self._build_batch(chosen)

    def _note_unknown_lifetimes(self, log: Journal) -> None:
        if log.find_prior_state(self._topic.whole_topic.ref).last_txid:
            self._instance.notify_once(
                "lifetimes before the journal",
                f"expirations of records published before txid {log.first_txid} are missing, because older journals "
                "were removed",
            )

    def _choose_rows(self, rows: list[ChangeRow]) -> list[ChangeRow]:
        """Return the matching rows; the filter cannot reject an unknown record, so its row is kept."""
        if self._keys is not None:
            rows = [row for row in rows if row.key in self._keys]
        if self._span.since:
            rows = [row for row in rows if row.time >= self._span.since]
        if self._meant is not None:
            takes = self._meant
            rows = [row for row in rows if row.image is None or takes(([row.key], [row.image]))[0]]
        if not self._matcher.is_selective:
            return rows
        known = [place for place, row in enumerate(rows) if row.image is not None]
        images = [row.image for row in rows if row.image is not None]
        found = {known[at] for at in self._matcher.find_matches([rows[place].key for place in known], images)}
        return [row for place, row in enumerate(rows) if row.image is None or place in found]

    def _build_batch(self, rows: list[ChangeRow]) -> ChangeBatch:
        for row in rows:
            self.counts[row.kind] = self.counts.get(row.kind, 0) + 1
        kind, owner = self._matcher.type, self._instance.publisher_id
        payloads = [b"" if row.image is None else StoredRecord(row.key, row.image).payload for row in rows]
        if self._select is not None:
            known = [payload for row, payload in zip(rows, payloads, strict=True) if row.image is not None]
            selected = iter(select_all(kind, known, self._select))
            payloads = [b"" if row.image is None else next(selected) for row in rows]
        records = [ChangeRecord(row, owner, payload) for row, payload in zip(rows, payloads, strict=True)]
        return ChangeBatch(self._topic.name, kind, records)


def start_changes(
    instance: Instance,
    target: Target,
    options: QueryOptions,
    since: str = "0",
    not_found: str | None = None,
) -> ChangesResult:
    """Return the changes of a topic since a position: a bookmark, a txid, a time or a range, as for a subscription.

    Of ``options``, only the selection of records and fields is used: filter, SOW keys, keys, select. Raises UsageError
    ``SOW-EXC-019`` for a target without records in the journal, ``SOW-FOL-022`` for ``recent``, RefusedError
    ``SOW-FOL-021`` for a topic without a journal, MissingError ``SOW-ENG-070`` for a position that is not in the
    journals, unless ``not_found`` says where to start, and what resolving a position raises.
    """
    topic = target.topic
    if topic is None:
        raise _make_no_feed_error(str(target.path), "it is a file", "name a topic with a SOW")
    if topic.derived is not None:
        why = f"it is computed from other topics ({topic.derived.kind})"
        raise _make_no_feed_error(topic.label, why, "name one of these topics; diff compares two states")
    if topic.key_mode == "none":
        raise _make_no_feed_error(topic.label, "it has no SOW", "sowctl journal dump has its messages")
    wanted = parse_bookmark_range(since, instance.clock)
    if wanted.is_recent:
        raise UsageError(
            "SOW-FOL-022", "'recent' is the position in a bookmark store, but no store is given", hint="add --store"
        )
    policy = parse_not_found_policy(not_found)
    # A feed that started now would skip changes that no later run would deliver.
    start = find_replay_start(instance, [topic], wanted, policy, states=False, requires_start=True)
    if has_log(instance):
        _note_removed_changes(instance, topic.whole_topic.ref, wanted, start.span, policy)
    return ChangesResult(instance, target, options, start.span, start.caught_up)


def _note_removed_changes(
    instance: Instance, topic: TopicRef, wanted: BookmarkRange, span: TxidSpan, policy: NotFoundPolicy | None
) -> None:
    """Report wanted changes that were removed with older journals; for the position of an entry that is an error
    already."""
    with open_log(instance) as log:
        gone, first = log.find_prior_state(topic), log.first_txid
    if not gone.last_txid:
        return
    marks = wanted.start.marks
    if span.since:
        # Times never decrease within a topic.
        is_missing = gone.last_time >= span.since
    elif EPOCH in marks:
        is_missing = True
    else:
        known = min((_find_mark_txid(instance, mark) for mark in marks), default=0)
        is_missing = policy is NotFoundPolicy.EPOCH and span.after < first and known < gone.last_txid
    if is_missing:
        instance.notify_once(
            "changes before the journal",
            f"changes before txid {first} are missing, because older journals were removed",
        )


def _find_mark_txid(instance: Instance, mark: Mark) -> int:
    """Return the txid that a mark names; 0 if its bookmark counts the messages of a client."""
    if isinstance(mark, TxidMark):
        return mark.number
    return mark.sequence if isinstance(mark, Bookmark) and mark.publisher == instance.publisher_id else 0


def _make_no_feed_error(name: str, why: str, hint: str) -> UsageError:
    return UsageError(NO_FEED_CODE, f"{name} has no changes of records: {why}", hint=hint)
