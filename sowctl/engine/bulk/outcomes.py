"""The outcomes of the messages of a staged run, found part by part of the key space, before anything is written.

The columns of all segments are read once for each part, so memory holds one part's columns and one byte per message,
however large the run is. What is decided here is only which messages are looked at together: the decisions themselves
are those of :mod:`sowctl.engine.writing.outcome`, which publishing asks too. Called by :mod:`sowctl.engine.bulk.commit`
and the modules that it starts.
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
"""One byte for each outcome: the commit keeps that of every message of the run."""
OUTCOME_NAMES: dict[int, str] = {code: name for name, code in OUTCOME_CODES.items() if code != REFUSED}
BUCKET_ENTRIES = 1 << 21
"""Messages whose columns are held at once: about 100 bytes each while they are sorted."""

ReadBlocks = Callable[[], Iterator[StagedBatch]]
"""Gives the blocks of all segments in the order of the input, once more each time."""


class Outcomes(DescribedStruct):
    """One code per message in input order; for a deletion the check word of the record that it removes.

    ``reasons`` are code and words for the refused messages.
    """

    codes: numpy.ndarray[Any, Any]
    checks: numpy.ndarray[Any, Any] | None
    reasons: dict[int, Reason] = field(default_factory=dict)


def build_empty_outcomes() -> Outcomes:
    """The outcomes of no messages."""
    import numpy as np

    return Outcomes(np.zeros(0, dtype=np.uint8), None)


def decide_run(read: ReadBlocks, count: int, writer: TopicWriter, now: int, bucket: int = BUCKET_ENTRIES) -> Outcomes:
    """The outcomes of ``count`` messages over what the topic holds at ``now``; the topic's locks are held."""
    import numpy as np

    # One byte for each message is all that is kept of the whole run.
    found = Outcomes(np.zeros(count, dtype=np.uint8), None)
    # Times first, and over the whole run in input order: whether a message is too old depends on those before it, in
    # whatever part of the key space they lie. Everything behind this looks at one key at a time.
    if _refuse_too_old(read, writer, now, found):
        # Check words of removed records are kept only where the run has deletions: eight bytes for each message.
        found.checks = np.zeros(count, dtype=np.uint64)
    # Keys are hashes: equal parts of the key space hold about equally many of the messages.
    buckets = -(-count // bucket)
    for number in range(buckets):
        # All messages of a key lie in one part, so each part can be decided by itself.
        messages = _read_bucket_messages(read, number, buckets, found)
        _decide_bucket(messages, writer, now, found, _hash_stored_payload)
        _confirm_unchanged(messages, read, writer, now, found)
    return found


def mask_bucket(keys: Any, number: int, buckets: int) -> Any:
    """Mask the keys (64-bit numbers) that lie in one of ``buckets`` equal parts of the key space."""
    # The cut of spill files, too: one function says which part a key is in.
    return find_parts(keys, buckets) == number


def assign_block_times(batch: StagedBatch, now: int, last: int) -> tuple[list[int], list[int]]:
    """The times of a block's messages, and the indexes of those that are too old, behind the topic's time ``last``."""
    own = None
    if (batch.marks & HAS_TIME).any():
        marked = zip(batch.entries.list_numbers("times"), batch.marks.tolist(), strict=True)
        own = [time if mark & HAS_TIME else None for time, mark in marked]
    return outcome.assign_times(own, len(batch), now, last)


def _refuse_too_old(read: ReadBlocks, writer: TopicWriter, now: int, found: Outcomes) -> bool:
    """Refuse messages whose own time lies before the topic's last one; returns whether there are deletions."""
    at, last, deletes = 0, writer.last_time, False
    for batch in read():
        deletes = deletes or bool((batch.arrays.operations == DELETE).any())
        times, older = assign_block_times(batch, now, last)
        for index in older:
            found.codes[at + index] = REFUSED
            found.reasons[at + index] = describe_too_old(times[index])
        # The topic's time goes on from block to block, as in one long batch.
        at, last = at + len(batch), times[-1]
    return deletes


class _SortedMessages(DescribedStruct):
    """Messages by columns, sorted by key and within a key in the order of the input.

    ``contents`` stand for their payloads: equal payloads have equal ones. ``indexes`` are places in the input.
    """

    keys: numpy.ndarray[Any, Any]
    checks: numpy.ndarray[Any, Any]
    contents: numpy.ndarray[Any, Any]
    deletes: numpy.ndarray[Any, Any]
    indexes: numpy.ndarray[Any, Any]

    def find_key_starts(self) -> Any:
        """Find the places at which the messages of each key begin."""
        import numpy as np

        return np.concatenate(([True], self.keys[1:] != self.keys[:-1])).nonzero()[0]


def _read_bucket_messages(read: ReadBlocks, number: int, buckets: int, found: Outcomes) -> _SortedMessages:
    """The messages of one part of the key space that are not refused yet; their contents are the staged hashes."""
    import numpy as np

    parts: list[list[Any]] = [[] for _ in range(5)]
    at = 0
    for batch in read():
        columns = batch.arrays
        # A message that is too old is nothing to its key, so those behind it do not meet it.
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
    # Stable, so that messages of one key stay in input order: their outcomes follow from one another.
    order = keys.argsort(kind="stable")
    return _SortedMessages(keys[order], checks[order], hashes[order], deletes[order], indexes[order])


def _decide_bucket(
    messages: _SortedMessages, writer: TopicWriter, now: int, found: Outcomes, content_of: Callable[[bytes], object]
) -> None:
    """Note the outcomes of messages; ``content_of`` makes of a stored payload what ``contents`` are of theirs.

    All messages of a key are decided together, with those of some thousand other keys: as many as lists of plain values
    should hold at once.
    """
    if not len(messages.keys):
        return
    # Cut between keys, never within one: the messages of a key are decided in one call.
    starts = [*messages.find_key_starts().tolist(), len(messages.keys)]
    step = BULK_LIMITS.decided_keys_per_part
    for first in range(0, len(starts) - 1, step):
        some = slice(starts[first], starts[min(first + step, len(starts) - 1)])
        numbers = messages.keys[some]
        again = ((numbers[1:] == numbers[:-1]).nonzero()[0] + 1).tolist()
        keys, checks = read_words(numbers.astype(">u8")), read_words(messages.checks[some].astype(">u8"))
        contents, deletes = messages.contents[some].tolist(), messages.deletes[some].tolist()
        # Read under the topic's lock, as publishing does: no other process changes a record between this and the
        # commit.
        stored = writer.read_live_values(keys, now)
        befores, same = list(map(stored.get, keys)), None
        if stored:
            # Stored payloads are made into the same kind of content as the staged ones, hash or digest, so that they
            # compare.
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
    """Decide once more about keys with unchanged messages, by contents that are equal for equal payloads alone.

    The staged hashes have 64 bits: two payloads with one hash can be made on purpose, and a message that differs from
    its record must not count as unchanged. SHA-256 is taken for the payload itself. Payloads are read only here, and
    only a digest of each is held.
    """
    import numpy as np

    # A hash that differs proves that payloads differ, so inserted and updated are certain. Only "unchanged" may be
    # wrong.
    if not (found.codes[messages.indexes] == UNCHANGED).any():
        return
    starts = messages.find_key_starts()
    group = np.zeros(len(messages.keys), dtype=np.int64)
    group[starts[1:]] = 1
    group = group.cumsum()
    unsure = np.zeros(len(starts), dtype=bool)
    # All messages of such a key are decided anew: what one of them is depends on those before it.
    unsure[group[found.codes[messages.indexes] == UNCHANGED]] = True
    chosen = unsure[group].nonzero()[0]
    indexes = messages.indexes[chosen]
    order = indexes.argsort()
    contents = np.empty(len(indexes), dtype="V32")
    contents[order] = np.frombuffer(_hash_payloads(blocks, indexes[order]), dtype="V32")
    again = _SortedMessages(messages.keys[chosen], messages.checks[chosen], contents, messages.deletes[chosen], indexes)
    # They are refused once more below, with their reasons: these must not be there twice.
    for index in indexes[found.codes[indexes] == REFUSED].tolist():
        del found.reasons[index]
    _decide_bucket(again, writer, now, found, lambda payload: sha256(payload).digest())


def _hash_payloads(blocks: ReadBlocks, places: Any) -> bytes:
    """SHA-256 of the payloads at these places of the input, which ascend, one behind the other."""
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
    """Hash a stored payload as segments do."""
    import xxhash

    return xxhash.xxh3_64_intdigest(payload)
