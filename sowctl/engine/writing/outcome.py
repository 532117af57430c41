"""The outcome of each message: too old, a duplicate, inserted, updated, unchanged, or refused; when it was, how long it
lives.

This is the one home of these decisions. They are functions over columns of plain values and know no store, lock or
message type: publishing calls them for each batch (:mod:`sowctl.engine.writing.entries`), a bulk write for each part of
the key space (:mod:`sowctl.engine.bulk.outcomes`), so that both say the same of the same messages. Ruled by
``behaviour`` 1, ``sow-store(5)``, SOW key and Records, and for duplicates ``behaviour`` 6.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, compress, repeat
from typing import Final, Literal, NamedTuple, TypeAlias

from sowctl.engine.topics.expiration import NO_EXPIRATION
from sowctl.journal.format import INSERTED_FLAG
from sowctl.store.codec import (
    HEADER_SIZE,
    KEY_CHECK_SLICE,
    PLAIN_PREFIX,
    VALUE_OVERHEAD_BYTES,
    has_content,
    has_payload,
)
from sowctl.values.times import MICROS_PER_SECOND, Micros, compute_expiry, format_time

Status = Literal["inserted", "updated", "unchanged", "deleted", "missing", "collided"]
"""What a message is to its key. The names of messages that are written are those of the counts in reports; ``missing``
is a deletion of a key without a record, ``collided`` a message whose key belongs to a record with other key values."""
WRITTEN_STATUSES: Final = ("inserted", "updated", "unchanged")
"""The outcomes of publishes that are written."""

Reason: TypeAlias = tuple[str, str]
"""Code and words of a refusal."""
NO_RECORD_REASON: Reason = ("SOW-PUB-018", "there is no record to update")
"""For a delta that may only update."""


def is_duplicate(sequence: int, highest: int) -> bool:
    """Return whether a ``sequence`` number was published before; ``highest`` is the publisher's highest so far."""
    # Numbers of a publisher only rise, and gaps are allowed: so one number says of each other whether it was seen.
    return sequence <= highest


def assign_times(
    own: Sequence[Micros | None] | None, count: int, now: Micros, last: Micros
) -> tuple[list[Micros], list[int]]:
    """The times of ``count`` messages, and the indexes of those that are refused as too old.

    ``own`` are the times that messages bring, None for the clock's. Time never goes back within a topic, whose latest
    time is ``last``: a message without a time of its own gets the topic's if the clock is behind it, one with a time
    that is past is refused. The times of messages that are refused for any other reason count for those behind them:
    it is not known yet which these are, and times must not depend on it.
    """
    if own is None:
        return [max(now, last)] * count, []
    # ``running[n]`` is the topic's time before message n. The maximum makes times monotonic even if the clock went back
    # (behaviour 11.41); the fold by time and the retention rule rest on that.
    running = list(accumulate((now if time is None else time for time in own), max, initial=last))
    older = [index for index, time in enumerate(own) if time is not None and time < running[index]]
    return running[1:], older


class ExpirationInstant(NamedTuple):
    """The end of a message that its publisher gave as an instant."""

    at: Micros


Lifetime: TypeAlias = Micros | ExpirationInstant | None
"""How long a message lives: microseconds (0 for ever), an instant, or None for what is usual in its topic."""


def compute_expiration(time: Micros, lifetime: Lifetime, usual: Micros | None) -> Micros:
    """Return when a message published at ``time`` expires, ``NO_EXPIRATION`` if it does not; ``usual`` None is for
    ever."""
    if isinstance(lifetime, ExpirationInstant):
        return lifetime.at
    chosen = usual if lifetime is None else lifetime
    # A lifetime of 0 is for ever (behaviour 1.5); the end is cut to the last time that there is.
    return compute_expiry(time, chosen) if chosen else NO_EXPIRATION


def compute_expirations(
    times: Sequence[Micros], lifetimes: Sequence[Lifetime] | None, usual: Micros | None
) -> list[Micros]:
    """Return when messages expire; ``lifetimes`` None where none brings its own. ``times`` never decrease."""
    if lifetimes is not None:
        return [compute_expiration(time, lifetime, usual) for time, lifetime in zip(times, lifetimes, strict=True)]
    if usual is None or not times:
        return [NO_EXPIRATION] * len(times)
    # Times never decrease, so equal ends mean equal times: one addition instead of one for each message.
    if times[0] == times[-1]:
        return [compute_expiry(times[0], usual)] * len(times)
    return [compute_expiry(time, usual) for time in times]


def find_unchanged(befores: Sequence[bytes | None], payloads: Sequence[bytes]) -> list[bool]:
    """Return for each stored value whether its payload equals the message beside it, byte by byte.

    A value without optional parts is compared in place, which spares a copy of the payload for each message.
    """
    return [
        before is not None
        and (
            # The stored value is header, payload and trailer: equal length and an equal beginning make the payloads
            # equal.
            len(before) - len(payload) == VALUE_OVERHEAD_BYTES and before.startswith(payload, HEADER_SIZE)
            if before.startswith(PLAIN_PREFIX)
            else has_payload(before, payload)
        )
        for before, payload in zip(befores, payloads, strict=True)
    ]


class Content(NamedTuple):
    """All that a message makes of its record but the time and the txid: payload, expiration and optional parts, in the
    order of the store's codec."""

    payload: bytes
    expiration: Micros
    parts: tuple[bytes | None, ...] = ()


def find_identical(befores: Sequence[bytes | None], contents: Sequence[Content]) -> list[bool]:
    """Return for each stored value whether the message beside it would change nothing but its time and txid.

    Narrower than :func:`find_unchanged`: a message that would give its record another lifetime or correlation id
    changes it.
    """
    return [
        before is not None and has_content(before, content.payload, content.expiration, *content.parts)
        for before, content in zip(befores, contents, strict=True)
    ]


class Decisions(NamedTuple):
    """The outcomes of messages; ``removed`` is the check word of the record that a deletion removes, by index."""

    statuses: list[Status]
    removed: dict[int, bytes]


def decide_outcomes(
    keys: Sequence[bytes],
    checks: Sequence[bytes],
    contents: Sequence[object],
    befores: Sequence[bytes | None],
    same: Sequence[bool] | None,
    deletes: Sequence[bool] | None = None,
    repeats: Sequence[tuple[int, int]] | None = None,
) -> Decisions:
    """Decide the outcome of every message for its key, in the order of publishing.

    ``befores`` are the stored values that the keys have before all these messages, None for none, and ``same`` says
    whether each has the content of the message beside it (None: there are no stored values). A message whose key came
    before is compared with that one: for it ``contents`` counts, the payload or a digest of it, or all that is to be
    equal. ``deletes`` says which
    messages are deletions, None for none. ``repeats`` are indexes of messages whose key came before, each with the
    index of the last one that had it, where the caller knows them: of sorted keys they are neighbours.
    """
    if repeats is None:
        repeats = _find_repeated_keys(keys)
    # A key is 64 bits of a hash, the check word the next 64 bits: two records with equal keys but other key values are
    # distinguished by it (behaviour 11.5).
    if (
        not deletes
        and has_matching_checks(checks, befores)
        and all(checks[place] == checks[earlier] for place, earlier in repeats)
    ):
        # The usual case: each key belongs to the record with the same key values, so every message is written.
        # No key of the batch has a record: a first load.
        statuses: list[Status] = ["inserted"] * len(keys) if same is None else classify_written(befores, same)
        for place, earlier in repeats:
            # The stored record is no longer what such a message meets: its own batch has replaced it.
            statuses[place] = "unchanged" if contents[place] == contents[earlier] else "updated"
        return Decisions(statuses, {})
    return _decide_one_by_one(keys, checks, contents, befores, same, deletes)


def classify_written(meets: Iterable[object], same: Iterable[bool]) -> list[Status]:
    """Classify messages that are all written, by whether each meets a record of its key with the same content."""
    return [
        "inserted" if not met else "unchanged" if equal else "updated" for met, equal in zip(meets, same, strict=True)
    ]


def has_matching_checks(checks: Sequence[bytes], befores: Sequence[bytes | None]) -> bool:
    """Return whether every stored value has the check word of the message beside it."""
    return all(map(bytes.startswith, filter(None, befores), compress(checks, befores), repeat(KEY_CHECK_SLICE.start)))


def _find_repeated_keys(keys: Sequence[bytes]) -> list[tuple[int, int]]:
    """Indexes of messages whose key came before, each with the index of the last one that had it."""
    last = dict(zip(keys, range(len(keys)), strict=True))
    # The usual batch ends here: no key comes twice.
    if len(last) == len(keys):
        return []
    twice = {key for place, key in enumerate(keys) if last[key] != place}
    seen: dict[bytes, int] = {}
    found = []
    for place, key in enumerate(keys):
        if key in twice:
            if key in seen:
                found.append((place, seen[key]))
            seen[key] = place
    return found


def _decide_one_by_one(
    keys: Sequence[bytes],
    checks: Sequence[bytes],
    contents: Sequence[object],
    befores: Sequence[bytes | None],
    same: Sequence[bool] | None,
    deletes: Sequence[bool] | None,
) -> Decisions:
    """The general case: deletions among the messages, or a key that belongs to a record with other key values."""
    # What each key holds after the messages so far: check word and content, or None after a deletion. A key that is not
    # in here still holds what the store has.
    known: dict[bytes, tuple[bytes, object] | None] = {}
    statuses: list[Status] = []
    removed: dict[int, bytes] = {}
    for index, (key, check, before) in enumerate(zip(keys, checks, befores, strict=True)):
        # What this run did to the key comes before what the store says of it.
        if key in known:
            record = known[key]
            owner = record[0] if record is not None else None
            equal = record is not None and record[1] == contents[index]
        else:
            owner = before[KEY_CHECK_SLICE] if before is not None else None
            equal = same is not None and same[index]
        if deletes and deletes[index]:
            # A deletion names a SOW key alone, so it removes the record whatever its key values are.
            statuses.append("missing" if owner is None else "deleted")
            if owner is not None:
                removed[index] = owner
            # The key is free from here on: a message behind the deletion inserts, and may have other key values.
            known[key] = None
        elif owner is None or owner == check:
            statuses.append("inserted" if owner is None else "unchanged" if equal else "updated")
            known[key] = check, contents[index]
        else:
            # The record stays as it is, so the next message of this key meets the same owner.
            statuses.append("collided")
    return Decisions(statuses, removed)


def compute_entry_flags(statuses: Sequence[str]) -> list[int]:
    """The journal's flags of entries: whether a key is new."""
    # A journal whose beginning is gone is read by this flag: an entry without it replaced a record that stood before.
    return [INSERTED_FLAG if status == "inserted" else 0 for status in statuses]


def describe_collision(sow_key: int) -> Reason:
    """Return the reason for refusing a message whose key is that of a record with other key values."""
    return "SOW-PUB-007", f"its SOW key {sow_key} belongs to a record with other key values"


def describe_too_old(last: Micros) -> Reason:
    """Return the reason for refusing a message whose own time is before ``last``, the topic's last one; 0 where it has
    none."""
    if last == 0:
        return "SOW-PUB-006", f"its time is before {format_time(0)}, the minimum"
    text = f"its time is before the last time of the topic ({format_time(last)}); times within a topic never decrease"
    return "SOW-PUB-006", text


def is_ahead_of_clock(last: Micros, now: Micros) -> bool:
    """Return whether a topic's last time is so far ahead of the clock that no clock explains it.

    Clocks differ by seconds, and a local time taken for UTC by 14 hours at most: beyond a day it is a wrong year, or
    a wrong unit, and the topic keeps it until then.
    """
    return last > now + 86_400 * MICROS_PER_SECOND


def format_clock_warning(topic: str, last: Micros) -> str:
    """Format the remark on a topic's last time that is far ahead of the clock."""
    return (
        f"the last time of topic {topic!r}, {format_time(last)}, is more than a day ahead of "
        "the clock: until then, all messages get that time, their lifetimes start there, and "
        "messages with an earlier time are rejected"
    )
