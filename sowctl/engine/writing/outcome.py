"""The outcome of each message: too old, duplicate, inserted, updated, unchanged, or refused; its time and its lifetime.

These decisions are made only here. They are functions over columns of plain values, independent of stores, locks and
message types. Publishing calls them for each batch (:mod:`sowctl.engine.writing.entries`), a bulk write for each part
of the key space (:mod:`sowctl.engine.bulk.outcomes`), so both decide alike. Specified in ``behaviour`` 1,
``sow-store(5)``, SOW key and Records, and for duplicates ``behaviour`` 6.4.
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
"""The effect of a message on its key. Outcomes of written messages have the names of the counts in reports; ``missing``
is a deletion of a key without a record, ``collided`` a message whose key belongs to a record with other key values."""
WRITTEN_STATUSES: Final = ("inserted", "updated", "unchanged")
"""The outcomes of publishes that are written."""

Reason: TypeAlias = tuple[str, str]
"""Code and message of a refusal."""
NO_RECORD_REASON: Reason = ("SOW-PUB-018", "there is no record to update")
"""The reason for a delta that may only update."""


def is_duplicate(sequence: int, highest: int) -> bool:
    """Return whether a ``sequence`` number was published before; ``highest`` is the publisher's highest so far."""
    # Sequence numbers of a publisher only rise, and gaps are allowed, so the highest one decides for all others.
    return sequence <= highest


def assign_times(
    own: Sequence[Micros | None] | None, count: int, now: Micros, last: Micros
) -> tuple[list[Micros], list[int]]:
    """Return the times of ``count`` messages, and the indexes of those that are refused as too old.

    ``own`` are the messages' own times, None for the time of the clock. Times within a topic, whose latest one is
    ``last``, never decrease: a message without its own time gets the topic's latest time if the clock lags it, and a
    message with an earlier time is refused. The times of messages that are refused for other reasons count for later
    messages: those refusals are not known yet, and times must not depend on them.
    """
    if own is None:
        return [max(now, last)] * count, []
    # ``running[n]`` is the topic's time before message n. The maximum keeps times monotonic even if the clock went back
    # (behaviour 11.41); the fold by time and the retention rule depend on that.
    running = list(accumulate((now if time is None else time for time in own), max, initial=last))
    older = [index for index, time in enumerate(own) if time is not None and time < running[index]]
    return running[1:], older


class ExpirationInstant(NamedTuple):
    """The expiration of a message as an instant set by its publisher."""

    at: Micros


Lifetime: TypeAlias = Micros | ExpirationInstant | None
"""The lifetime of a message: microseconds (0: it does not expire), an instant, or None for the topic's default."""


def compute_expiration(time: Micros, lifetime: Lifetime, usual: Micros | None) -> Micros:
    """Return when a message published at ``time`` expires, ``NO_EXPIRATION`` if it does not. ``usual`` is the default
    lifetime; None: no expiration."""
    if isinstance(lifetime, ExpirationInstant):
        return lifetime.at
    chosen = usual if lifetime is None else lifetime
    # A lifetime of 0 means no expiration (behaviour 1.5); the result is at most the maximum time.
    return compute_expiry(time, chosen) if chosen else NO_EXPIRATION


def compute_expirations(
    times: Sequence[Micros], lifetimes: Sequence[Lifetime] | None, usual: Micros | None
) -> list[Micros]:
    """Return when messages expire; ``lifetimes`` is None if no message has its own. ``times`` never decrease."""
    if lifetimes is not None:
        return [compute_expiration(time, lifetime, usual) for time, lifetime in zip(times, lifetimes, strict=True)]
    if usual is None or not times:
        return [NO_EXPIRATION] * len(times)
    # Times never decrease: if the first and the last are equal, all are, and one addition is enough.
    if times[0] == times[-1]:
        return [compute_expiry(times[0], usual)] * len(times)
    return [compute_expiry(time, usual) for time in times]


def find_unchanged(befores: Sequence[bytes | None], payloads: Sequence[bytes]) -> list[bool]:
    """Return for each stored value whether its payload equals the one at the same index of ``payloads``, byte by byte.

    A value without optional parts is compared in place, without a copy of its payload.
    """
    return [
        before is not None
        and (
            # The stored value is header, payload and trailer: payloads of equal length with an equal beginning are
            # equal.
            len(before) - len(payload) == VALUE_OVERHEAD_BYTES and before.startswith(payload, HEADER_SIZE)
            if before.startswith(PLAIN_PREFIX)
            else has_payload(before, payload)
        )
        for before, payload in zip(befores, payloads, strict=True)
    ]


class Content(NamedTuple):
    """The parts of the record that a message writes, except time and txid: payload, expiration and optional parts, in
    the order of the store's codec."""

    payload: bytes
    expiration: Micros
    parts: tuple[bytes | None, ...] = ()


def find_identical(befores: Sequence[bytes | None], contents: Sequence[Content]) -> list[bool]:
    """Return for each stored value whether the message at the same index would change only its time and txid.

    Stricter than :func:`find_unchanged`: another lifetime or correlation id is a change.
    """
    return [
        before is not None and has_content(before, content.payload, content.expiration, *content.parts)
        for before, content in zip(befores, contents, strict=True)
    ]


class Decisions(NamedTuple):
    """The outcomes of messages; ``removed`` are the check words of records that deletions remove, by message index."""

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

    ``befores`` are the stored values of the keys before all these messages, None if there is none; ``same`` says
    whether each has the content of its message (None: there are no stored values). A message whose key occurred earlier
    is compared with that earlier message by ``contents``: payloads, digests of them, or all parts that must be equal.
    ``deletes`` marks deletions (None: there are none). ``repeats`` are indexes of messages whose key occurred earlier,
    each with the index of the last earlier one; a caller with sorted keys passes them, because they are neighbours.
    """
    if repeats is None:
        repeats = _find_repeated_keys(keys)
    # A key is 64 bits of a hash, the check word the next 64 bits: it distinguishes records with equal keys but
    # different key values (behaviour 11.5).
    if (
        not deletes
        and has_matching_checks(checks, befores)
        and all(checks[place] == checks[earlier] for place, earlier in repeats)
    ):
        # The usual case: each key belongs to the record with the same key values, so every message is written.
        # Without stored values, as in a first load, all keys are new.
        statuses: list[Status] = ["inserted"] * len(keys) if same is None else classify_written(befores, same)
        for place, earlier in repeats:
            # This message meets an earlier one of its batch, which has replaced the stored record.
            statuses[place] = "unchanged" if contents[place] == contents[earlier] else "updated"
        return Decisions(statuses, {})
    return _decide_one_by_one(keys, checks, contents, befores, same, deletes)


def classify_written(meets: Iterable[object], same: Iterable[bool]) -> list[Status]:
    """Classify messages that are all written, by whether each meets a record of its key, and one of equal content."""
    return [
        "inserted" if not met else "unchanged" if equal else "updated" for met, equal in zip(meets, same, strict=True)
    ]


def has_matching_checks(checks: Sequence[bytes], befores: Sequence[bytes | None]) -> bool:
    """Return whether every stored value has the check word at the same index of ``checks``."""
    return all(map(bytes.startswith, filter(None, befores), compress(checks, befores), repeat(KEY_CHECK_SLICE.start)))


def _find_repeated_keys(keys: Sequence[bytes]) -> list[tuple[int, int]]:
    """Return indexes of messages whose key occurred earlier, each with the index of the last earlier one."""
    last = dict(zip(keys, range(len(keys)), strict=True))
    # Most batches return here: their keys are distinct.
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
    """Decide the general case: with deletions, or with a key that belongs to a record with other key values."""
    # The record of each key after the messages so far: check word and content, or None after a deletion. Keys not in
    # here still have their stored record.
    known: dict[bytes, tuple[bytes, object] | None] = {}
    statuses: list[Status] = []
    removed: dict[int, bytes] = {}
    for index, (key, check, before) in enumerate(zip(keys, checks, befores, strict=True)):
        # The effect of earlier messages on the key takes precedence over the stored record.
        if key in known:
            record = known[key]
            owner = record[0] if record is not None else None
            equal = record is not None and record[1] == contents[index]
        else:
            owner = before[KEY_CHECK_SLICE] if before is not None else None
            equal = same is not None and same[index]
        if deletes and deletes[index]:
            # A deletion has only a SOW key, so it removes the record whatever its key values are.
            statuses.append("missing" if owner is None else "deleted")
            if owner is not None:
                removed[index] = owner
            # The key is free from here on: a message after the deletion inserts, and may have other key values.
            known[key] = None
        elif owner is None or owner == check:
            statuses.append("inserted" if owner is None else "unchanged" if equal else "updated")
            known[key] = check, contents[index]
        else:
            # The record stays unchanged, so the next message of this key meets the same owner.
            statuses.append("collided")
    return Decisions(statuses, removed)


def compute_entry_flags(statuses: Sequence[str]) -> list[int]:
    """Return the journal flags of entries, which mark new keys."""
    # Needed to read a journal whose first files were removed: an entry without this flag replaced an earlier record.
    return [INSERTED_FLAG if status == "inserted" else 0 for status in statuses]


def describe_collision(sow_key: int) -> Reason:
    """Return the reason for refusing a message whose key belongs to a record with other key values."""
    return "SOW-PUB-007", f"its SOW key {sow_key} belongs to a record with other key values"


def describe_too_old(last: Micros) -> Reason:
    """Return the reason for refusing a message whose own time is before ``last``, the topic's last time, 0 if the topic
    has none."""
    if last == 0:
        return "SOW-PUB-006", f"its time is before {format_time(0)}, the minimum"
    text = f"its time is before the last time of the topic ({format_time(last)}); times within a topic never decrease"
    return "SOW-PUB-006", text


def is_ahead_of_clock(last: Micros, now: Micros) -> bool:
    """Return whether a topic's last time is so far ahead of the clock that it must be wrong.

    Clocks differ by seconds, and local time mistaken for UTC by at most 14 hours: more than a day means a wrong year or
    unit. The topic keeps that time until the clock passes it.
    """
    return last > now + 86_400 * MICROS_PER_SECOND


def format_clock_warning(topic: str, last: Micros) -> str:
    """Format the warning about a topic's last time that is far ahead of the clock."""
    return (
        f"the last time of topic {topic!r}, {format_time(last)}, is more than a day ahead of "
        "the clock: until then, all messages get that time, their lifetimes start there, and "
        "messages with an earlier time are rejected"
    )
