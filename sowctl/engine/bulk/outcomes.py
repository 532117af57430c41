"""Decide the outcomes of the messages of a staged run, one part of the key space after another, before writing.

The columns of all segments are read once per part, so memory holds the columns of one part and one byte per message.
This module only determines which messages are decided together; :mod:`sowctl.engine.writing.outcome`, which publishing
also uses, decides the outcomes. Called by :mod:`sowctl.engine.bulk.commit` and its helpers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec import field

from sowctl.engine.bulk.limits import BULK_LIMITS
from sowctl.engine.bulk.segments import HAS_TIME, StagedBatch
from sowctl.engine.writing import outcome
from sowctl.engine.writing.outcome import Reason, describe_collision, describe_too_old
from sowctl.identity.keyspace import find_parts, read_words
from sowctl.journal.format import DELETE
from sowctl.store.codec import extract_payloads
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    import numpy

    from sowctl.engine.writing.topicwriter import TopicWriter

INSERTED, UPDATED, UNCHANGED, DELETED, MISSING, REFUSED = 1, 2, 3, 4, 5, 6
OUTCOME_CODES = {
    "inserted": INSERTED,
    "updated": UPDATED,
    "unchanged": UNCHANGED,
    "deleted": DELETED,
    "missing": MISSING,
    "collided": REFUSED,
}
"""Codes of one byte, because the commit keeps the outcome of every message of the run in memory."""
OUTCOME_NAMES: dict[int, str] = {code: name for name, code in OUTCOME_CODES.items() if code != REFUSED}
BUCKET_ENTRIES = 1 << 21
"""Messages whose columns are in memory at the same time: about 100 bytes each during sorting."""

ReadBlocks = Callable[[], Iterator[StagedBatch]]
"""Returns an iterator over the blocks of all segments in input order; may be called repeatedly."""


class Outcomes(DescribedStruct):
    """One code per message in input order, and for deletions the check words of the records that they remove.

    ``checks`` is None if the run has no deletions. ``reasons`` maps rejected messages to error code and text.
    """

    codes: numpy.ndarray[Any, Any]
    checks: numpy.ndarray[Any, Any] | None
    reasons: dict[int, Reason] = field(default_factory=dict)


def build_empty_outcomes() -> Outcomes:
    """Return the outcomes of a run without messages."""
    import numpy as np

    return Outcomes(np.zeros(0, dtype=np.uint8), None)


def decide_run(read: ReadBlocks, count: int, writer: TopicWriter, now: int, bucket: int = BUCKET_ENTRIES) -> Outcomes:
    """Decide the outcomes of ``count`` messages with the topic's records as of ``now``; the topic's locks are held."""
    import numpy as np

    # One byte per message is the only memory that grows with the run.
    found = Outcomes(np.zeros(count, dtype=np.uint8), None)
    # Check times first, for the whole run in input order: whether a message is too old depends on all earlier ones, in
    # any part of the key space. The other decisions depend only on messages with the same key.
    if _refuse_too_old(read, writer, now, found):
        # Check words of removed records, eight bytes per message, are needed only if the run has deletions.
        found.checks = np.zeros(count, dtype=np.uint64)
    # Keys are hashes, so equal parts of the key space have about the same number of messages.
    buckets = -(-count // bucket)
    for number in range(buckets):
        # All messages of a key are in the same part, so each part can be decided separately.
        messages = _read_bucket_messages(read, number, buckets, found)
        _decide_bucket(messages, writer, now, found, _hash_stored_payload)
        _confirm_unchanged(messages, read, writer, now, found)
    return found


def mask_bucket(keys: Any, number: int, buckets: int) -> Any:
    """Return a mask of the keys (64-bit numbers) in part ``number`` of ``buckets`` equal parts of the key space."""
    # Spill files use the same function to assign keys to parts.
    return find_parts(keys, buckets) == number


def assign_block_times(batch: StagedBatch, now: int, last: int) -> tuple[list[int], list[int]]:
    """Return the times of a block's messages, and the indexes of those too old; ``last`` is the topic's time."""
    own = None
    if (batch.marks & HAS_TIME).any():
        marked = zip(batch.entries.list_numbers("times"), batch.marks.tolist(), strict=True)
        own = [time if mark & HAS_TIME else None for time, mark in marked]
    return outcome.assign_times(own, len(batch), now, last)


def _refuse_too_old(read: ReadBlocks, writer: TopicWriter, now: int, found: Outcomes) -> bool:
    """Reject messages whose own time is before the topic's last time; return whether the run has deletions."""
    at, last, deletes = 0, writer.last_time, False
    for batch in read():
        deletes = deletes or bool((batch.arrays.operations == DELETE).any())
        times, older = assign_block_times(batch, now, last)
        for index in older:
            found.codes[at + index] = REFUSED
            found.reasons[at + index] = describe_too_old(times[index])
        # The topic's time continues across blocks, as in one large batch.
        at, last = at + len(batch), times[-1]
    return deletes


class _SortedMessages(DescribedStruct):
    """Columns of messages, sorted by key and, for the same key, in input order.

    ``contents`` are hashes or digests of the payloads. ``indexes`` are positions in the input.
    """

    keys: numpy.ndarray[Any, Any]
    checks: numpy.ndarray[Any, Any]
    contents: numpy.ndarray[Any, Any]
    deletes: numpy.ndarray[Any, Any]
    indexes: numpy.ndarray[Any, Any]

    def find_key_starts(self) -> Any:
        """Return the index of the first message of each key."""
        import numpy as np

        return np.concatenate(([True], self.keys[1:] != self.keys[:-1])).nonzero()[0]


def _read_bucket_messages(read: ReadBlocks, number: int, buckets: int, found: Outcomes) -> _SortedMessages:
    """Read the messages of one part of the key space that are not rejected; their contents are the staged hashes."""
    import numpy as np

    parts: list[list[Any]] = [[] for _ in range(5)]
    at = 0
    for batch in read():
        columns = batch.arrays
        # Messages that are too old do not affect later messages of their key.
        chosen = found.codes[at : at + len(columns)] != REFUSED
        keys = columns.keys.astype(np.uint64)
        if buckets > 1:
            chosen &= mask_bucket(keys, number, buckets)
        places = chosen.nonzero()[0]
        mine = keys, columns.checks, batch.hashes, columns.operations == DELETE
        for part, column in zip(parts, mine, strict=False):
            part.append(column[places])
        parts[4].append(places + at)
        at += len(columns)
    keys, checks, hashes, deletes, indexes = (np.concatenate(part) for part in parts)
    # A stable sort keeps messages of a key in input order, on which their outcomes depend.
    order = keys.argsort(kind="stable")
    return _SortedMessages(keys[order], checks[order], hashes[order], deletes[order], indexes[order])


def _decide_bucket(
    messages: _SortedMessages, writer: TopicWriter, now: int, found: Outcomes, content_of: Callable[[bytes], object]
) -> None:
    """Decide and record the outcomes of messages; ``content_of`` computes the content of a stored payload.

    All messages of a key are decided together. Each step decides some thousand keys, which bounds the memory of the
    lists.
    """
    if not len(messages.keys):
        return
    # Divide only between keys, because the messages of a key are decided in one call.
    starts = [*messages.find_key_starts().tolist(), len(messages.keys)]
    step = BULK_LIMITS.decided_keys_per_part
    for first in range(0, len(starts) - 1, step):
        some = slice(starts[first], starts[min(first + step, len(starts) - 1)])
        numbers = messages.keys[some]
        again = ((numbers[1:] == numbers[:-1]).nonzero()[0] + 1).tolist()
        keys, checks = read_words(numbers.astype(">u8")), read_words(messages.checks[some].astype(">u8"))
        contents, deletes = messages.contents[some].tolist(), messages.deletes[some].tolist()
        # As in publishing, the topic's lock is held, so no other process changes a record before the commit.
        stored = writer.read_live_values(keys, now)
        befores, same = list(map(stored.get, keys)), None
        if stored:
            # Convert stored payloads to the kind of content of the staged ones, hash or digest, to compare them.
            kept = dict(zip(stored, map(content_of, extract_payloads(stored.values())), strict=True))
            same = [kept.get(key) == content for key, content in zip(keys, contents, strict=True)]
        statuses, removed = outcome.decide_outcomes(
            keys,
            checks,
            contents,
            befores,
            same,
            deletes if True in deletes else None,
            [(place, place - 1) for place in again],
        )
        indexes = messages.indexes[some]
        found.codes[indexes] = list(map(OUTCOME_CODES.__getitem__, statuses))
        for place, check in removed.items():
            assert found.checks is not None
            found.checks[indexes[place]] = int.from_bytes(check, "big")
        if "collided" in statuses:
            for place, status in enumerate(statuses):
                if status == "collided":
                    found.reasons[int(indexes[place])] = describe_collision(int.from_bytes(keys[place], "big"))


def _confirm_unchanged(
    messages: _SortedMessages, blocks: ReadBlocks, writer: TopicWriter, now: int, found: Outcomes
) -> None:
    """Decide keys with unchanged messages again, by collision-resistant digests of the payloads.

    The staged hashes have 64 bits, for which collisions can be constructed, and a message that differs from its record
    must not count as unchanged. Equal SHA-256 digests count as equal payloads. Payloads are read only here, and only
    their digests are kept.
    """
    import numpy as np

    # Different hashes prove that payloads differ, so only "unchanged" may be wrong.
    if not (found.codes[messages.indexes] == UNCHANGED).any():
        return
    starts = messages.find_key_starts()
    group = np.zeros(len(messages.keys), dtype=np.int64)
    group[starts[1:]] = 1
    group = group.cumsum()
    unsure = np.zeros(len(starts), dtype=bool)
    # Decide all messages of such a key again, because each outcome depends on the earlier messages.
    unsure[group[found.codes[messages.indexes] == UNCHANGED]] = True
    chosen = unsure[group].nonzero()[0]
    indexes = messages.indexes[chosen]
    order = indexes.argsort()
    contents = np.empty(len(indexes), dtype="V32")
    contents[order] = np.frombuffer(_hash_payloads(blocks, indexes[order]), dtype="V32")
    again = _SortedMessages(messages.keys[chosen], messages.checks[chosen], contents, messages.deletes[chosen], indexes)
    # Rejected messages of these keys are rejected again below, which adds their reasons again.
    for index in indexes[found.codes[indexes] == REFUSED].tolist():
        del found.reasons[index]
    _decide_bucket(again, writer, now, found, lambda payload: sha256(payload).digest())


def _hash_payloads(blocks: ReadBlocks, places: Any) -> bytes:
    """Return the concatenated SHA-256 digests of the payloads at these ascending positions of the input."""
    import numpy as np

    parts, at = [], 0
    for batch in blocks():
        low, high = np.searchsorted(places, (at, at + len(batch))).tolist()
        if low < high:
            chosen = batch.arrays.take(places[low:high] - at)
            parts += [sha256(payload).digest() for payload in chosen.payloads]
        at += len(batch)
    return b"".join(parts)


def _hash_stored_payload(payload: bytes) -> int:
    """Return the hash of a stored payload that segments use."""
    import xxhash

    return xxhash.xxh3_64_intdigest(payload)
