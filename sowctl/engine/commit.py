"""One batch of prepared messages into journal and overlay, under the locks: the heart of publish.

Duplicates go, times are raised or refused, the stored records are looked up once per key, what depends on them is
finished (:mod:`sowctl.engine.finishing`), collisions are refused, then everything that is left is one group: appended,
synced, and with that acknowledged.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

from sowctl.engine.reports import TopicCounts
from sowctl.journal.format import (
    HAS_CORRELATION_ID,
    HAS_LOGICAL_TOPIC,
    HAS_USER_KEY,
    INSERTED,
    NO_PUBLISHER,
    PUBLISH,
    UNKEYED,
)
from sowctl.journal.group import Group
from sowctl.plain import dataclass, field, replace
from sowctl.store.codec import CHECK, HEADER_SIZE, OVERHEAD, encode, encode_plain, has_payload
from sowctl.values.fields import Refusal

if TYPE_CHECKING:
    from sowctl.engine.chains import Chains
    from sowctl.engine.prepare import Prepared, Preparer
    from sowctl.engine.publishers import Publisher
    from sowctl.engine.writer import TopicWriter

NO_RECORD = "SOW-PUB-018", "there is no record that it could update"
"""Code and words for a delta that may only update."""


@dataclass(slots=True)
class Entries:
    """The entries of one topic in a batch, by columns; filled by :func:`settle`."""

    writer: TopicWriter
    places: list[int] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    checks: list[bytes] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    expirations: list[int] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    user_keys: list[bytes | None] | None = None
    correlation_ids: list[bytes | None] | None = None
    logicals: list[bytes | None] | None = None
    counts: TopicCounts = field(default_factory=lambda: TopicCounts("", ""))
    chains: Chains | None = None

    def __len__(self) -> int:
        return len(self.keys)

    def keep(self, indexes: list[int]) -> None:
        """Forget all entries but these; the counts lose those that go."""
        chosen = set(indexes)
        for index, (status, _) in enumerate(zip(self.statuses, self.keys, strict=True)):
            if index not in chosen:
                setattr(self.counts, status, getattr(self.counts, status) - 1)
        for name in _COLUMNS:
            column = getattr(self, name)
            if column is not None:
                setattr(self, name, [column[index] for index in indexes])


_COLUMNS = (
    "places",
    "payloads",
    "keys",
    "checks",
    "times",
    "expirations",
    "flags",
    "statuses",
    "user_keys",
    "correlation_ids",
    "logicals",
)


def settle(
    writer: TopicWriter, preparer: Preparer, ready: Prepared, now: int, duplicates: set[int]
) -> tuple[Entries, list[Refusal]]:
    """Decide what becomes of ``ready``: entries to write, and refusals (older time, colliding key, no record).

    ``duplicates`` are places of messages that were published before.
    """
    if preparer.topic.key_mode == "none":
        return _logged(writer, preparer, ready, now, duplicates)
    chains = preparer.keys.chains
    if chains is None:
        return _settled(writer, preparer, ready, now, duplicates)
    gone: list[Refusal] = []
    while True:
        attempt = replace(ready, payloads=list(ready.payloads))
        entries, refused = _settled(writer, preparer, attempt, now, duplicates, {refusal.index for refusal in gone})
        linked = chains.linked(refusal.index for refusal in refused)
        if not linked:
            return entries, gone + refused
        # Others may have got the key of a message that is not written after all: once more without it.
        gone += [refusal for refusal in refused if refusal.index in linked]


def _logged(
    writer: TopicWriter, preparer: Preparer, ready: Prepared, now: int, duplicates: set[int]
) -> tuple[Entries, list[Refusal]]:
    """The same for a topic without a SOW: there is no record that a message could meet."""
    entries = Entries(writer, counts=TopicCounts(*writer.ref))
    refused: list[Refusal] = []
    keep = _not_older(writer, ready, now, refused)
    times = _times(writer, ready, now)
    if ready.deltas is not None and preparer.options.update_only:
        gone = [index for index in keep if ready.deltas[index]]
        keep = _without(keep, ready, [Refusal(ready.places[index], *NO_RECORD) for index in gone], refused)
    fresh = [index for index in keep if ready.places[index] not in duplicates]
    entries.counts.duplicates = len(keep) - len(fresh)
    count = entries.counts.journalled = len(fresh)
    entries.places, entries.statuses = [ready.places[index] for index in fresh], ["journalled"] * count
    entries.payloads, entries.times = [ready.payloads[i] for i in fresh], [times[i] for i in fresh]
    entries.keys = entries.checks = [bytes(8)] * count
    entries.expirations = _expirations(preparer, ready, times, fresh, count == len(ready.places))
    entries.flags = [UNKEYED] * count
    if ready.correlation_ids is not None:
        entries.correlation_ids = [ready.correlation_ids[index] for index in fresh]
        entries.flags = [UNKEYED if text is None else UNKEYED | HAS_CORRELATION_ID for text in entries.correlation_ids]
    return entries, refused


def _settled(
    writer: TopicWriter,
    preparer: Preparer,
    ready: Prepared,
    now: int,
    duplicates: set[int],
    without: Set[int] = frozenset(),
) -> tuple[Entries, list[Refusal]]:
    """The same, for the messages that are not ``without``."""
    counts = TopicCounts(*writer.ref)
    entries = Entries(writer, counts=counts)
    refused: list[Refusal] = []
    keep = _not_older(writer, ready, now, refused)
    times = _times(writer, ready, now)
    if without:
        keep = [index for index in keep if ready.places[index] not in without]
    if duplicates:
        fresh = [index for index in keep if ready.places[index] not in duplicates]
        counts.duplicates, keep = len(keep) - len(fresh), fresh
    chains = preparer.keys.chains
    if chains is not None:
        keep = _named(writer, chains, ready, keep, refused)
        entries.chains = chains
    digests = ready.digests
    keys = [digest[:8] for digest in digests]
    checks = [digest[8:] for digest in digests]
    stored = writer.stored(keys, now)
    if ready.deltas is not None or preparer.enrichment is not None:
        from sowctl.engine.finishing import finish

        keep = _without(keep, ready, finish(writer, preparer, ready, keep, times, stored, now), refused)
    statuses = _classify(keys, checks, ready.payloads, keep, stored, refused, ready.places)
    if refused:
        keep = _without(keep, ready, refused)
    whole = len(keep) == len(keys)
    pick = (lambda column: column) if whole else (lambda column: [column[index] for index in keep])
    entries.places, entries.statuses = pick(ready.places), statuses
    entries.payloads, entries.keys, entries.checks = pick(ready.payloads), pick(keys), pick(checks)
    entries.times = pick(times)
    entries.expirations = _expirations(preparer, ready, times, keep, whole)
    for status in _STATUSES:
        setattr(counts, status, statuses.count(status))
    user = HAS_USER_KEY if ready.user_keys is not None else 0
    if ready.logicals is not None:
        entries.logicals = list(pick(ready.logicals))
        user |= HAS_LOGICAL_TOPIC
    entries.flags = [INSERTED | user if status == "inserted" else user for status in statuses]
    if ready.user_keys is not None:
        entries.user_keys = pick(ready.user_keys)
    if ready.correlation_ids is not None:
        entries.correlation_ids = pick(ready.correlation_ids)
        entries.flags = [
            flag | HAS_CORRELATION_ID if text is not None else flag
            for flag, text in zip(entries.flags, entries.correlation_ids, strict=True)
        ]
    return entries, refused


def _without(keep: list[int], ready: Prepared, gone: list[Refusal], refused: list[Refusal] | None = None) -> list[int]:
    """``keep`` without the messages ``gone``, whose refusals are added to ``refused``."""
    if refused is not None:
        refused.extend(gone)
    places = {refusal.index for refusal in gone}
    return [index for index in keep if ready.places[index] not in places] if places else keep


def _named(writer: TopicWriter, chains: Chains, ready: Prepared, keep: list[int], refused: list[Refusal]) -> list[int]:
    """Give the messages the keys of their chains; returns those that got one."""
    assert ready.texts is not None
    chains.catch_up(writer)
    ready.digests, gone = chains.name(ready.texts, ready.places, keep)
    return _without(keep, ready, gone, refused)


def _not_older(writer: TopicWriter, ready: Prepared, now: int, refused: list[Refusal]) -> list[int]:
    """Indexes of messages whose explicit time is not before the topic's last one; the others are refused."""
    if ready.times is None:
        return list(range(len(ready.places)))
    keep, last = [], writer.last_time
    for index, time in enumerate(ready.times):
        if time is not None and time < last:
            refused.append(Refusal(ready.places[index], *too_old(last)))
        else:
            keep.append(index)
            last = max(last, now if time is None else time)
    return keep


def _times(writer: TopicWriter, ready: Prepared, now: int) -> list[int]:
    at = max(now, writer.last_time)
    if ready.times is None:
        return [at] * len(ready.places)
    times, last = [], writer.last_time
    for time in ready.times:
        last = max(last, now if time is None else time)
        times.append(last)
    return times


def _expirations(preparer: Preparer, ready: Prepared, times: list[int], keep: list[int], whole: bool) -> list[int]:
    lifetimes = ready.lifetimes
    if lifetimes is None and whole and times and times[0] == times[-1]:
        return [preparer.stamp(times[0], None)] * len(times)
    return [preparer.stamp(times[index], lifetimes[index] if lifetimes is not None else None) for index in keep]


_STATUSES = ("inserted", "updated", "unchanged")


def _classify(
    keys: list[bytes],
    checks: list[bytes],
    payloads: list[bytes],
    keep: list[int],
    stored: dict[bytes, bytes],
    refused: list[Refusal],
    places: list[int],
) -> list[str]:
    """What every kept message is to its key; refuses keys that collide with another's, which get no status."""
    if len(keep) < len(keys):
        places = [places[index] for index in keep]
        keys, checks, payloads = ([column[index] for index in keep] for column in (keys, checks, payloads))
    befores = list(map(stored.get, keys))
    repeats = _repeats(keys)
    if not all(b is None or b.startswith(c, CHECK.start) for b, c in zip(befores, checks, strict=True)) or any(
        checks[place] != checks[earlier] for place, earlier in repeats
    ):
        return _classify_collisions(keys, checks, payloads, befores, refused, places)
    statuses = [
        "inserted"
        if b is None
        else "unchanged"
        if len(b) - len(p) == OVERHEAD and b.startswith(p, HEADER_SIZE)
        else _compared(b, p)
        for b, p in zip(befores, payloads, strict=True)
    ]
    for place, earlier in repeats:
        statuses[place] = "unchanged" if payloads[place] == payloads[earlier] else "updated"
    return statuses


def _compared(value: bytes, payload: bytes) -> str:
    """The general comparison, for values with optional parts too."""
    return "unchanged" if has_payload(value, payload) else "updated"


def _repeats(keys: list[bytes]) -> list[tuple[int, int]]:
    """Places of keys that the batch holds before, each with the place of the one before it."""
    last = dict(zip(keys, range(len(keys)), strict=True))
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


def _classify_collisions(
    keys: list[bytes],
    checks: list[bytes],
    payloads: list[bytes],
    befores: list[bytes | None],
    refused: list[Refusal],
    places: list[int],
) -> list[str]:
    """As :func:`_classify`, one by one, where some key belongs to a record with other key values."""
    owners: dict[bytes, tuple[bytes, bytes]] = {}
    statuses = []
    for key, check, payload, before, place in zip(keys, checks, payloads, befores, places, strict=True):
        owner = owners.get(key, (before[CHECK], before) if before is not None else None)
        if owner is not None and owner[0] != check:
            refused.append(Refusal(place, *collision(int.from_bytes(key, "big"))))
            continue
        if owner is None:
            statuses.append("inserted")
        elif key in owners:
            statuses.append("unchanged" if owner[1] == payload else "updated")
        else:
            assert before is not None
            statuses.append(_compared(before, payload))
        owners[key] = check, payload
    return statuses


def group_of(parts: list[Entries], publisher: Publisher | None) -> tuple[Group, list[Sequence[int]]]:
    """One journal group of the entries of a batch in input order, and for every part the ranks of its entries in it."""
    columns: Entries = parts[0]
    topic: list[int] | int = 0
    ranks: list[Sequence[int]] = [range(len(columns))]
    if len(parts) > 1:
        columns, topic, ranks = _merged(parts)
    count = len(columns)
    sequences = array("Q", publisher.sequences(columns.places)) if publisher is not None else None
    group = Group(
        topics=[part.writer.ref for part in parts],
        publishers=[publisher.identity] if publisher is not None else [],
        operations=bytes((PUBLISH,)) * count,
        topic=topic,
        keys=b"".join(columns.keys),
        checks=b"".join(columns.checks),
        times=array("q", columns.times),
        expirations=array("q", columns.expirations),
        publisher=0 if publisher is not None else NO_PUBLISHER,
        sequences=sequences,
        flags=array("H", columns.flags),
        payloads=columns.payloads,
        user_keys=columns.user_keys,
        correlation_ids=columns.correlation_ids,
        logical_topics=columns.logicals,
    )
    return group, ranks


def _merged(parts: list[Entries]) -> tuple[Entries, list[int] | int, list[Sequence[int]]]:
    order = sorted(
        (place, number, index) for number, part in enumerate(parts) for index, place in enumerate(part.places)
    )
    whole = Entries(parts[0].writer)
    for name in ("places", "payloads", "keys", "checks", "times", "expirations", "flags"):
        columns = [getattr(part, name) for part in parts]
        setattr(whole, name, [columns[number][index] for _, number, index in order])
    for name in ("user_keys", "correlation_ids", "logicals"):
        columns = [getattr(part, name) for part in parts]
        if any(column is not None for column in columns):
            full = [[None] * len(p) if column is None else column for p, column in zip(parts, columns, strict=True)]
            setattr(whole, name, [full[number][index] for _, number, index in order])
    ranks: list[list[int]] = [[] for _ in parts]
    for rank, (_, number, _) in enumerate(order):
        ranks[number].append(rank)
    return whole, [number for _, number, _ in order], list(ranks)


def values_from(entries: Entries, txids: Sequence[int]) -> list[bytes]:
    """The stored values of entries under the txids that they got."""
    if entries.user_keys is None and entries.correlation_ids is None and entries.logicals is None:
        stamps = entries.times, entries.expirations
        return encode_plain(entries.keys, entries.checks, txids, *stamps, entries.payloads)
    empty: list[bytes | None] = [None] * len(entries)
    columns = (
        entries.keys,
        entries.checks,
        txids,
        entries.times,
        entries.expirations,
        entries.payloads,
        entries.user_keys or empty,
        entries.correlation_ids or empty,
        entries.logicals or empty,
    )
    return [
        encode(key, check, txid, time, expiration, 0, payload, user_key, correlation, logical)
        for key, check, txid, time, expiration, payload, user_key, correlation, logical in zip(*columns, strict=True)
    ]


def into_overlay(entries: Entries, txids: Sequence[int]) -> None:
    """Make acknowledged entries visible to the rest of the session."""
    writer = entries.writer
    if writer.config.key_mode == "none":
        writer.last_txid, writer.last_time = txids[-1], entries.times[-1]
        return
    writer.overlay.put(entries.keys, values_from(entries, txids))
    writer.last_txid, writer.last_time = writer.overlay.last_txid, writer.overlay.last_time
    if entries.chains is not None:
        entries.chains.learn(entries.places, writer.last_txid)


def collision(sow_key: int) -> tuple[str, str]:
    """Code and words for a message whose key is that of a record with other key values."""
    return "SOW-PUB-007", f"its SOW key {sow_key} belongs to a record with other key values"


def too_old(last: int) -> tuple[str, str]:
    """Code and words for a message whose own time lies before ``last``, the topic's last one."""
    from sowctl.values.times import format_time

    text = f"its time lies before the topic's last one ({format_time(last)}); time never goes back within a topic"
    return "SOW-PUB-006", text
