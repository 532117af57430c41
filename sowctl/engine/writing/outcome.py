"""What becomes of the prepared messages of one batch, under the locks: entries to write, and refusals.

Duplicates go, times are raised or refused, the stored records are looked up once per key, what depends on them is
finished (:mod:`sowctl.engine.writing.finish`), collisions are refused. Called by :mod:`sowctl.engine.verbs.publish`,
whose entries :mod:`sowctl.engine.writing.commit` writes. Ruled by ``semantics`` 1.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from sowctl.engine.reports import TopicCounts
from sowctl.engine.writing.statuses import STATUSES, classify
from sowctl.journal.format import HAS_CORRELATION_ID, HAS_LOGICAL_TOPIC, HAS_USER_KEY, INSERTED, UNKEYED
from sowctl.values.fields import Refusal
from sowctl.values.times import SECOND

if TYPE_CHECKING:
    from sowctl.engine.keys.keymaker import ChainKeeper
    from sowctl.engine.writing.prepare import Prepared, Preparer
    from sowctl.engine.writing.topicwriter import TopicWriter

NO_RECORD = "SOW-PUB-018", "there is no record that it could update"
"""Code and words for a delta that may only update."""


class Entries(Struct):
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
    chains: ChainKeeper | None = None

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
        from sowctl.engine.writing.finish import finish

        keep = _without(keep, ready, finish(writer, preparer, ready, keep, times, stored, now), refused)
    statuses = classify(keys, checks, ready.payloads, keep, stored, refused, ready.places)
    if refused:
        keep = _without(keep, ready, refused)
    whole = len(keep) == len(keys)
    pick = (lambda column: column) if whole else (lambda column: [column[index] for index in keep])
    entries.places, entries.statuses = pick(ready.places), statuses
    entries.payloads, entries.keys, entries.checks = pick(ready.payloads), pick(keys), pick(checks)
    entries.times = pick(times)
    entries.expirations = _expirations(preparer, ready, times, keep, whole)
    for status in STATUSES:
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


def _named(
    writer: TopicWriter, chains: ChainKeeper, ready: Prepared, keep: list[int], refused: list[Refusal]
) -> list[int]:
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


def is_ahead(last: int, now: int) -> bool:
    """Whether a topic's last time is so far ahead of the clock that no clock explains it.

    Clocks differ by seconds, and a local time taken for UTC by 14 hours at most: beyond a day it is a wrong year, or
    a wrong unit, and the topic keeps it until then.
    """
    return last > now + 86_400 * SECOND


def ahead(topic: str, last: int) -> str:
    """What to tell of such a time."""
    from sowctl.values.times import format_time

    return (
        f"the last time of topic {topic!r}, {format_time(last)}, is more than a day ahead of the clock: until then "
        "every message gets that time, its lifetime counts from there, and an earlier time of its own refuses it"
    )


def too_old(last: int) -> tuple[str, str]:
    """Code and words for a message whose own time lies before ``last``, the topic's last one."""
    from sowctl.values.times import format_time

    text = f"its time lies before the topic's last one ({format_time(last)}); time never goes back within a topic"
    return "SOW-PUB-006", text
