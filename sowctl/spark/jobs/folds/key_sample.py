"""Select and check the keys of a sample of a fold's records, the same as in a replay of the entries.

A replay checks some records of every block that has records left. For topics with History, it checks those noted
entries that become records (:mod:`sowctl.engine.fold.journal_fold`). No task knows both blocks and records: map tasks
report the starts of blocks and the noted entries, reduce tasks report the remaining entries. The driver, which writes
all records, selects the sample and checks it. It raises the same error as a replay.

Sets of txids use one bit per entry of the journal, independent of the number of keys and the size of blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from zlib import compress, decompress

from msgspec import Struct
from pyspark.accumulators import AccumulatorParam

from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.engine.fold.spill import Pairs
from sowctl.engine.keys.limits import KEY_LIMITS
from sowctl.engine.keys.presentkeys import SAMPLE_RECORDS, PresentKeys
from sowctl.engine.topics.positions import make_other_keys_error
from sowctl.spark.jobs.limits import JOB_LIMITS
from sowctl.spark.pairfiles import PairFile, read_pairs
from sowctl.store.codec import STAMP_DTYPE, extract_raw_stamps

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession

    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.remote.place import Place

_ANY_KEY = bytes(8)


class TxidSet:
    """A set of txids from ``first`` to ``last``, as a bitmap."""

    def __init__(self, first: int, last: int) -> None:
        import numpy as np

        self._first = first
        self._bits = np.zeros(max(0, last - first + 1) + 7 >> 3, dtype=np.uint8)

    def add(self, txids: Any) -> None:
        """Add a numpy array of distinct txids (u64) within the bounds."""
        import numpy as np

        places = txids - np.uint64(self._first)
        bits = places & np.uint64(7)
        for bit in range(8):
            # Txids are distinct, so those with the same bit are in distinct bytes, and no assignment is lost.
            self._bits[places[bits == bit] >> np.uint64(3)] |= np.uint8(1 << bit)

    def mask_members(self, txids: Any) -> Any:
        """Return an array with 1 for each of the txids (numpy, u64, within the bounds) in the set, otherwise 0."""
        import numpy as np

        places = txids - np.uint64(self._first)
        return self._bits[places >> np.uint64(3)] >> (places & np.uint64(7)).astype(np.uint8) & np.uint8(1)

    def iterate_windows(self) -> Iterator[Any]:
        """Yield all members in ascending order, as one array for each window of ``window_txids`` txids."""
        import numpy as np

        for start in range(0, len(self._bits), JOB_LIMITS.window_txids >> 3):
            some = self._bits[start : start + (JOB_LIMITS.window_txids >> 3)]
            # Skip zero bytes: most are zero if the topic has few of the journal's entries.
            where = some.nonzero()[0]
            rows, bits = np.unpackbits(some[where], bitorder="little").reshape(-1, 8).nonzero()
            yield (start + where[rows]).astype(np.uint64) * np.uint64(8) + (bits + self._first).astype(np.uint64)


class TxidMarks(Struct, frozen=True):
    """Txids of a topic, ascending, that a map task reports: the first txid of each block, or for a topic with History
    the txids of noted entries."""

    topic: int
    packed: bytes

    @classmethod
    def from_array(cls, topic: int, txids: Any) -> TxidMarks:
        """Pack a numpy array (u64)."""
        import numpy as np

        # Blocks have similar sizes, so the differences compress well.
        return cls(topic, compress(np.diff(txids, prepend=np.uint64(0)).tobytes(), 1))

    def to_array(self) -> Any:
        """Return the txids as a numpy array (u64)."""
        import numpy as np

        return np.frombuffer(decompress(self.packed), dtype=np.uint64).cumsum(dtype=np.uint64)


class _MarksParam(AccumulatorParam[Any]):
    """Collects the marks of tasks."""

    def zero(self, value: list[TxidMarks]) -> list[TxidMarks]:
        """Return an empty list."""
        return []

    def addInPlace(self, value1: list[TxidMarks], value2: list[TxidMarks]) -> list[TxidMarks]:  # noqa: N802 - Spark's name
        """Return the marks of both lists."""
        # In place, because tens of thousands of tasks add marks.
        value1 += value2
        return value1


def create_mark_accumulator(spark: SparkSession) -> Accumulator[Any]:
    """Create the accumulator to which tasks add lists of :class:`TxidMarks`."""
    return spark.sparkContext.accumulator([], _MarksParam())


def select_history_txids(txids: Any) -> Any:
    """Return the txids that a replay notes among a block's entries of a topic with History."""
    return txids[:: -(-len(txids) // FOLD_LIMITS.compared_key_entries)]


def read_txids(values: Sequence[bytes]) -> Any:
    """Return the txids of stored values as a numpy array (u64)."""
    import numpy as np

    return np.frombuffer(extract_raw_stamps(values), STAMP_DTYPE)["txid"].astype(np.uint64)


def record_txids(parts: Iterable[Pairs], file: PairFile) -> Iterator[Pairs]:
    """Yield parts of records unchanged, and write their txids to a file for :func:`read_winners`."""
    for keys, values in parts:
        file.add(([_ANY_KEY], [read_txids(values).astype("<u8").tobytes()]))
        yield keys, values


def read_winners(places: Iterable[Place]) -> Iterator[Any]:
    """Yield the txids that :func:`record_txids` has written to files. Raises what :func:`read_pairs` raises."""
    import numpy as np

    for place in places:
        for _, chunks in read_pairs(place):
            for chunk in chunks:
                yield np.frombuffer(chunk, dtype="<u8").astype(np.uint64)


def choose_sample(sample: TxidSet, starts: TxidSet, winners: TxidSet) -> None:
    """Add to ``sample`` those of a topic's ``winners`` that a replay checks; ``starts`` are the first txids of all
    blocks with winners, and possibly others."""
    import numpy as np

    # The last block of a window may continue in the next one, so its winners are held until the next start.
    first, left = np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.uint64)
    for begun, won in zip(starts.iterate_windows(), winners.iterate_windows(), strict=True):
        first, left = np.concatenate((first, begun)), np.concatenate((left, won))
        if len(begun):
            cut = left.searchsorted(first[-1])
            sample.add(_select_spread(first[:-1], left[:cut]))
            first, left = first[-1:], left[cut:]
    sample.add(_select_spread(first, left))


def _select_spread(starts: Any, winners: Any) -> Any:
    """Select up to :data:`SAMPLE_RECORDS` winners of each complete block, at the same positions as a replay."""
    import numpy as np

    begins = winners.searchsorted(starts)
    counts = np.diff(begins, append=len(winners))
    # Every winner belongs to a reported block; otherwise a block would not be checked.
    assert counts.sum() == len(winners)
    steps = np.maximum(-(-counts // SAMPLE_RECORDS), 1)
    places = np.arange(len(winners)) - begins.repeat(counts)
    return winners[places % steps.repeat(counts) == 0]


class KeySampler:
    """Checks the records of a sample while all records are written to a new store in key order.

    :meth:`finish` raises the same RefusedError ``SOW-RPL-010`` as a replay: for the record with the lowest txid,
    because a replay reads the journal in order; for a topic with History, for the one with the lowest key.
    """

    def __init__(self, instance: Instance, topic: TopicConfig, sample: TxidSet) -> None:
        self._present = PresentKeys(instance, topic)
        self._sample = sample
        self._keys: list[bytes] = []
        self._values: list[bytes] = []
        self._found: tuple[int, bytes] | None = None

    def sample_records(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Check the given records that belong to the sample."""
        if not self._present.known or not keys:
            return
        places = self._sample.mask_members(read_txids(values)).nonzero()[0].tolist()
        self._keys += [keys[place] for place in places]
        self._values += [values[place] for place in places]
        if len(self._keys) >= KEY_LIMITS.check_batch_records:
            self._compare()

    def watch_parts(self, parts: Iterable[Pairs]) -> Iterator[Pairs]:
        """Yield ``parts`` unchanged, and check the records of the sample."""
        for keys, values in parts:
            self.sample_records(keys, values)
            yield keys, values

    def finish(self) -> None:
        """Check the remaining records, and raise RefusedError ``SOW-RPL-010`` if a key was wrong."""
        self._compare()
        if self._found is not None:
            raise make_other_keys_error(self._present.topic, int.from_bytes(self._found[1], "big"))

    def _compare(self) -> None:
        keys, values = self._keys, self._values
        self._keys, self._values = [], []
        others = self._present.find_misplaced(keys, values)
        txids = read_txids([values[place] for place in others]).tolist()
        # Records arrive in key order, so with History the first one found has the lowest key.
        earliest = self._present.topic.history is None
        for place, txid in zip(others, txids, strict=True):
            if self._found is None or (earliest and txid < self._found[0]):
                self._found = txid, keys[place]
