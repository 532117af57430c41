"""A sample of the records of a result: those whose keys have the lowest hashes, so that every run samples the same
ones.

All records are read; but hashing a key costs a hundredth of decoding its message.

Called by the verbs ``schema`` and ``stats``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappush, heappushpop

import xxhash
from msgspec import Struct

from sowctl.engine.records import RecordBatch
from sowctl.errors import UsageError
from sowctl.store.limits import STORE_LIMITS
from sowctl.values.units import parse_whole_number

MAX_BATCH_BYTES = 4 << 20
"""Bytes of payloads per batch. The statistics of each path are updated once per batch, so with 1,000 paths a few
payloads cost as much as many; as trees they use about ten times as much memory."""
_HASH_RANGE = 1 << 64


class SampleShare(Struct, frozen=True):
    """The size of a sample: ``most`` records, or each with the probability ``part``; None, None: all."""

    most: int | None = None
    part: float | None = None

    @property
    def is_all(self) -> bool:
        """True if the sample includes all records."""
        return self.most is None and self.part is None


def parse_sample(text: str | None, name: str = "--sample") -> SampleShare:
    """Parse the size of a sample, a number of records or a percentage; None: all records.

    Raises UsageError ``SOW-STA-002``.
    """
    if text is None:
        return SampleShare()
    part = text.strip().removesuffix("%")
    try:
        if part != text.strip():
            share = float(part) / 100
            if 0 < share <= 1:
                return SampleShare(part=share)
        elif most := parse_whole_number(part):
            return SampleShare(most=most)
    except ValueError:
        pass
    raise UsageError(
        "SOW-STA-002", f"{name} {text!r} is neither a number nor a percentage", hint="use for example 10000 or 5%"
    )


class PayloadSample:
    """Iterate for the payloads of a sample of one topic's ``batches``, about ``most`` or :data:`MAX_BATCH_BYTES` at a
    time; ``seen`` and ``taken`` count records meanwhile."""

    def __init__(self, batches: Iterable[RecordBatch], share: SampleShare, most: int | None = None) -> None:
        self.seen = 0
        self.taken = 0
        self._batches = batches
        self._share = share
        self._most = most

    def __iter__(self) -> Iterator[list[bytes]]:
        found = self._iterate_lowest(self._share.most) if self._share.most is not None else self._iterate_share()
        held: list[bytes] = []
        size = 0
        for payloads in found:
            self.taken += len(payloads)
            held += payloads
            size += sum(map(len, payloads))
            if size > MAX_BATCH_BYTES or (self._most is not None and len(held) >= self._most):
                yield held
                held, size = [], 0
        if held:
            yield held

    def _iterate_share(self) -> Iterator[list[bytes]]:
        limit = _HASH_RANGE if self._share.part is None else int(self._share.part * _HASH_RANGE)
        for batch in self._batches:
            self.seen += len(batch)
            if limit == _HASH_RANGE:
                yield list(batch.payloads)
                continue
            places = [at for at, key in enumerate(batch.keys) if _hash_key(key) < limit]
            if places:
                # Payloads are decoded from the stored values when accessed: only those of the sample are.
                payloads = batch.payloads
                yield [payloads[at] for at in places]

    def _iterate_lowest(self, most: int) -> Iterator[list[bytes]]:
        # A heap with the highest hash on top. The second number is the unique position in the result.
        kept: list[tuple[int, int, bytes]] = []
        for batch in self._batches:
            payloads = batch.payloads
            for at, key in enumerate(batch.keys, self.seen):
                rank = -_hash_key(key)
                if len(kept) < most:
                    heappush(kept, (rank, at, payloads[at - self.seen]))
                elif kept and rank > kept[0][0]:
                    heappushpop(kept, (rank, at, payloads[at - self.seen]))
            self.seen += len(batch)
        kept.sort(key=lambda one: one[1])
        for start in range(0, len(kept), STORE_LIMITS.read_batch_records):
            yield [payload for _, _, payload in kept[start : start + STORE_LIMITS.read_batch_records]]


def _hash_key(key: bytes) -> int:
    return xxhash.xxh3_64_intdigest(key)
