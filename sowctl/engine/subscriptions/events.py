"""The events that subscribers receive; sow-events(5) defines their names and members.

Feeds make :class:`EventBatch`, many events of one kind as columns, because a call per event would dominate the time of
a busy subscription; a program that iterates over events gets :class:`Event`. Specified in ``behaviour`` 4.1 to 4.6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import repeat
from operator import itemgetter, or_
from struct import unpack
from typing import TYPE_CHECKING, Any, Literal

from sowctl.identity.bookmarks import Bookmark
from sowctl.store.codec import (
    CORRELATION_FLAG,
    KEY_SIZE,
    LOGICAL_TOPIC_FLAG,
    OPTIONAL_PART_FLAGS,
    USER_KEY_FLAG,
    decode_record,
    read_all_stamps,
)
from sowctl.structs import DescribedStruct
from sowctl.values.times import to_datetime

if TYPE_CHECKING:
    from datetime import datetime

    from sowctl.messages.base import MessageType
    from sowctl.values.times import Micros

EventCommand = Literal[
    "group_begin", "sow", "group_end", "publish", "delta_publish", "oof", "sow_delete", "progress", "completed"
]
EventReason = Literal["deleted", "expired", "match"]


class Event(DescribedStruct, frozen=True):
    """One event. ``timestamp`` in microseconds UTC; members that do not apply are None.

    ``bookmark``: a subscription can resume after this event with it. ``data``: the bytes of a message of
    ``message_type``. ``reason``: why a record went out of focus or was deleted.
    """

    command: EventCommand
    topic: str | None = None
    message_type: str | None = None
    sow_key: str | None = None
    bookmark: str | None = None
    txid: int | None = None
    timestamp: Micros | None = None
    data: bytes | None = None
    reason: EventReason | None = None
    correlation_id: str | None = None
    query_id: str | None = None
    batch_size: int | None = None

    @property
    def published_at(self) -> datetime | None:
        """``timestamp`` as a datetime in UTC."""
        return None if self.timestamp is None else to_datetime(self.timestamp)


class MarkerEvent(DescribedStruct, frozen=True):
    """An event without a record: group_begin, group_end, progress, completed. ``txid`` is the position it reports."""

    command: EventCommand
    topic: str | None = None
    message_type: str | None = None
    bookmark: str | None = None
    txid: int | None = None
    timestamp: Micros | None = None
    query_id: str | None = None

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[Event]:
        yield Event(
            self.command,
            self.topic,
            self.message_type,
            bookmark=self.bookmark,
            txid=self.txid,
            timestamp=self.timestamp,
            query_id=self.query_id,
        )


class EventBatch(DescribedStruct):
    """Events of one command for records of one topic, in order; the columns run in parallel.

    ``names`` are SOW keys as users see them, None without a SOW. ``txids`` and ``times`` are those of the entries that
    caused the events, 0 without an entry; ``publishers`` and ``sequences`` are their bookmarks, None without bookmarks.
    ``logical`` are the names of logical topics, if any. ``sound``: every payload was parsed when it was published, so
    it is a valid message of its type. ``unknown``: the records are deleted, and their last content is unknown; their
    payloads are empty and have no meaning.
    """

    command: EventCommand
    topic: str
    kind: MessageType
    names: Sequence[str | None]
    txids: Sequence[int]
    times: Sequence[int]
    payloads: Sequence[bytes]
    publishers: Sequence[int] | None = None
    sequences: Sequence[int] | None = None
    correlations: Sequence[str | None] | None = None
    logical: Sequence[str] | None = None
    reason: EventReason | None = None
    query_id: str | None = None
    batch_size: int | None = None
    sound: bool = True
    unknown: bool = False

    @property
    def message_type(self) -> str:
        """The name of the message type."""
        return self.kind.name

    @property
    def view(self) -> Callable[[bytes], bytes]:
        """The function that renders a payload as one line of JSON."""
        return self.kind.view

    def __len__(self) -> int:
        return len(self.txids)

    def take_first(self, count: int) -> EventBatch:
        """Return the first ``count`` events."""
        return self.slice_events(0, count)

    def slice_events(self, start: int, stop: int | None) -> EventBatch:
        """Return the events with indexes from ``start`` to before ``stop``, or to the end."""
        if start == 0 and (stop is None or stop >= len(self)):
            return self
        some = slice(start, stop)
        return self._map_columns(lambda column: column[some])

    def select(self, places: Sequence[int]) -> EventBatch:
        """Return some of the events, by their indexes in ascending order."""
        return self._map_columns(lambda column: [column[place] for place in places])

    def _map_columns(self, some: Callable[[Sequence[Any]], Sequence[Any]]) -> EventBatch:
        """Return a batch with ``some`` applied to every column."""
        return EventBatch(
            self.command,
            self.topic,
            self.kind,
            some(self.names),
            some(self.txids),
            some(self.times),
            some(self.payloads),
            None if self.publishers is None else some(self.publishers),
            None if self.sequences is None else some(self.sequences),
            None if self.correlations is None else some(self.correlations),
            None if self.logical is None else some(self.logical),
            self.reason,
            self.query_id,
            self.batch_size,
            self.sound,
            self.unknown,
        )

    def __iter__(self) -> Iterator[Event]:
        nothing = repeat(None)
        rows = zip(
            self.names,
            self.txids,
            self.times,
            self.payloads,
            nothing if self.publishers is None else self.publishers,
            nothing if self.sequences is None else self.sequences,
            nothing if self.correlations is None else self.correlations,
            nothing if self.logical is None else self.logical,
            strict=False,
        )
        for name, txid, time, payload, publisher, sequence, correlation, logical in rows:
            bookmark = None
            if publisher is not None and sequence is not None:
                bookmark = str(Bookmark(publisher, sequence))
            yield Event(
                self.command,
                logical or self.topic,
                self.kind.name,
                name,
                bookmark,
                txid or None,
                time,
                None if self.unknown else payload,
                self.reason,
                correlation,
                self.query_id,
                self.batch_size,
            )


Delivery = EventBatch | MarkerEvent
"""A unit of delivery of a subscription."""


_GET_FLAGS = itemgetter(0)


def combine_flags(values: Sequence[bytes]) -> int:
    """Return the flags that are set in any of the stored values."""
    return reduce(or_, set(map(_GET_FLAGS, values)), 0)


def format_sow_keys(keys: Sequence[bytes], values: Sequence[bytes], flags: int) -> list[str | None]:
    """Return SOW keys as users see them: decimal numbers, or the keys that publishers chose."""
    names: list[str | None] = list(map(str, unpack(f">{len(keys)}Q", b"".join(keys))))
    # One test for all values: publishers' keys are in the optional parts of values.
    if flags & USER_KEY_FLAG:
        for place, value in enumerate(values):
            if value[0] & USER_KEY_FLAG:
                chosen = decode_record(keys[place], value).user_key
                names[place] = None if chosen is None else chosen.decode("utf-8", "replace")
    return names


def read_correlation_ids(keys: Sequence[bytes], values: Sequence[bytes]) -> list[str | None] | None:
    """Return the correlation ids of values, None if no value has one."""
    if not combine_flags(values) & CORRELATION_FLAG:
        return None
    found = (
        decode_record(key, value).correlation_id if value[0] & CORRELATION_FLAG else None
        for key, value in _iterate_pairs(keys, values)
    )
    return [None if one is None else one.decode("utf-8", "replace") for one in found]


def read_logical_topics(keys: Sequence[bytes], values: Sequence[bytes], topic: str) -> list[str] | None:
    """Return the names of logical topics, None if no value has one."""
    if not combine_flags(values) & LOGICAL_TOPIC_FLAG:
        return None
    found = (
        decode_record(key, value).logical_topic if value[0] & LOGICAL_TOPIC_FLAG else None
        for key, value in _iterate_pairs(keys, values)
    )
    return [topic if one is None else one.decode("utf-8", "replace") for one in found]


def _iterate_pairs(keys: Sequence[bytes], values: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(keys, values, strict=True)


def build_events(
    command: EventCommand,
    topic: str,
    kind: MessageType,
    keys: Sequence[bytes],
    values: Sequence[bytes],
    payloads: Sequence[bytes],
    *,
    publishers: Sequence[int] | None = None,
    sequences: Sequence[int] | None = None,
    key_mode: str = "fields",
    reason: EventReason | None = None,
) -> EventBatch:
    """Return the events of stored values, each with its own stamps; ``key_mode`` is that of the topic, none without a
    SOW."""
    stamped = read_all_stamps(values)
    flags = combine_flags(values)
    plain = not flags & OPTIONAL_PART_FLAGS
    return EventBatch(
        command,
        topic,
        kind,
        format_sow_keys(keys, values, flags) if key_mode != "none" else [None] * len(keys),
        [txid for txid, _ in stamped],
        [time for _, time in stamped],
        payloads,
        publishers,
        sequences,
        None if plain else read_correlation_ids(keys, values),
        None if plain else read_logical_topics(keys, values, topic),
        reason,
        sound=key_mode == "fields",
    )


assert KEY_SIZE == 8  # format_sow_keys reads keys as numbers of eight bytes
