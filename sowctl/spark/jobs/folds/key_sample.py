"""Records of a fold whose keys are checked: those that a replay of the same entries checks.

A replay looks at some records of every block that has records left, or, where a topic keeps History, at those of some
noted entries that are records in the end (:mod:`sowctl.engine.fold.journal_fold`). A task knows blocks or records,
never both: those that read the journal tell where blocks begin and which entries are noted, those that fold which
entries are left, and the driver, through whose hands all records go, chooses and looks. It refuses what a replay
refuses, with the same error.

Everything is held as one bit for each entry of the journal, however large its blocks and many its keys are.
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
    """A set of txids from ``first`` to ``last``: a bit for each."""

    def __init__(self, first: int, last: int) -> None:
        import numpy as np

        self._first = first
        self._bits = np.zeros(max(0, last - first + 1) + 7 >> 3, dtype=np.uint8)

    def add(self, txids: Any) -> None:
        """Take in a numpy array of txids (u64) within the bounds, none of them twice."""
        import numpy as np

        places = txids - np.uint64(self._first)
        bits = places & np.uint64(7)
        for bit in range(8):
            # Txids are distinct, so among those of one bit no byte comes twice, and no assignment is lost.
            self._bits[places[bits == bit] >> np.uint64(3)] |= np.uint8(1 << bit)

    def mask_members(self, txids: Any) -> Any:
        """Of a numpy array of txids (u64) within the bounds: whether each is in the set."""
        import numpy as np

        places = txids - np.uint64(self._first)
        return self._bits[places >> np.uint64(3)] >> (places & np.uint64(7)).astype(np.uint8) & np.uint8(1)

    def iterate_windows(self) -> Iterator[Any]:
        """All of it, ascending, as an array of those in each row of ``window_txids`` txids."""
        import numpy as np

        for start in range(0, len(self._bits), JOB_LIMITS.window_txids >> 3):
            some = self._bits[start : start + (JOB_LIMITS.window_txids >> 3)]
            # Of a topic that has few of a journal's entries most bytes are zero.
            where = some.nonzero()[0]
            rows, bits = np.unpackbits(some[where], bitorder="little").reshape(-1, 8).nonzero()
            yield (start + where[rows]).astype(np.uint64) * np.uint64(8) + (bits + self._first).astype(np.uint64)


class TxidMarks(Struct, frozen=True):
    """Txids of a topic, ascending, that a task which reads the journal reports. Where the topic keeps no History they
    are the first ones of its blocks, else those of noted entries."""

    topic: int
    packed: bytes

    @classmethod
    def from_array(cls, topic: int, txids: Any) -> TxidMarks:
        """Those of a numpy array (u64)."""
        import numpy as np

        # Blocks are about equally large, so that the steps between them take few bytes.
        return cls(topic, compress(np.diff(txids, prepend=np.uint64(0)).tobytes(), 1))

    def to_array(self) -> Any:
        """The array."""
        import numpy as np

        return np.frombuffer(decompress(self.packed), dtype=np.uint64).cumsum(dtype=np.uint64)


class _MarksParam(AccumulatorParam[Any]):
    """Puts together what tasks tell."""

    def zero(self, value: list[TxidMarks]) -> list[TxidMarks]:
        """Nothing."""
        return []

    def addInPlace(self, value1: list[TxidMarks], value2: list[TxidMarks]) -> list[TxidMarks]:  # noqa: N802 - Spark's name
        """Return the marks of both lists."""
        # In place: tens of thousands of tasks tell something.
        value1 += value2
        return value1


def create_mark_accumulator(spark: SparkSession) -> Accumulator[Any]:
    """Create the accumulator to which tasks add lists of :class:`TxidMarks`."""
    return spark.sparkContext.accumulator([], _MarksParam())


def select_history_txids(txids: Any) -> Any:
    """Return the txids that a replay notes, of a block's entries of a topic with History."""
    return txids[:: -(-len(txids) // FOLD_LIMITS.compared_key_entries)]


def read_txids(values: Sequence[bytes]) -> Any:
    """The txids of stored values as a numpy array (u64)."""
    import numpy as np

    return np.frombuffer(extract_raw_stamps(values), STAMP_DTYPE)["txid"].astype(np.uint64)


def record_txids(parts: Iterable[Pairs], file: PairFile) -> Iterator[Pairs]:
    """Yield parts of records unchanged; their txids go into a file, which :func:`read_winners` reads."""
    for keys, values in parts:
        file.add(([_ANY_KEY], [read_txids(values).astype("<u8").tobytes()]))
        yield keys, values


def read_winners(places: Iterable[Place]) -> Iterator[Any]:
    """The txids that :func:`record_txids` has left in files. Raises what :func:`read_pairs` raises."""
    import numpy as np

    for place in places:
        for _, chunks in read_pairs(place):
            for chunk in chunks:
                yield np.frombuffer(chunk, dtype="<u8").astype(np.uint64)


def choose_sample(sample: TxidSet, starts: TxidSet, winners: TxidSet) -> None:
    """Take into ``sample`` those of a topic's ``winners`` that a replay looks at; ``starts`` are the first txids of all
    blocks that have any."""
    import numpy as np

    # What stands behind the last start of a window may go on in the next one: it is held until another start is seen.
    first, left = np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.uint64)
    for begun, won in zip(starts.iterate_windows(), winners.iterate_windows(), strict=True):
        first, left = np.concatenate((first, begun)), np.concatenate((left, won))
        if len(begun):
            cut = left.searchsorted(first[-1])
            sample.add(_select_spread(first[:-1], left[:cut]))
            first, left = first[-1:], left[cut:]
    sample.add(_select_spread(first, left))


def _select_spread(starts: Any, winners: Any) -> Any:
    """Of the winners of whole blocks, up to :data:`SAMPLE_RECORDS` of each, at the places where a replay takes them."""
    import numpy as np

    begins = winners.searchsorted(starts)
    counts = np.diff(begins, append=len(winners))
    # Every winner came from a block that was told of; else a block would be passed over unseen.
    assert counts.sum() == len(winners)
    steps = np.maximum(-(-counts // SAMPLE_RECORDS), 1)
    places = np.arange(len(winners)) - begins.repeat(counts)
    return winners[places % steps.repeat(counts) == 0]


class KeySampler:
    """Looks at the records of a sample among those that go into a new store, in key order.

    Raises the RefusedError ``SOW-RPL-010`` that a replay raises: of the record with the lowest txid, because it goes
    through the journal; where the topic keeps History, of the one with the lowest key.
    """

    def __init__(self, instance: Instance, topic: TopicConfig, sample: TxidSet) -> None:
        self._present = PresentKeys(instance, topic)
        self._sample = sample
        self._keys: list[bytes] = []
        self._values: list[bytes] = []
        self._found: tuple[int, bytes] | None = None

    def sample_records(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Look at those of the sample."""
        if not self._present.known or not keys:
            return
        places = self._sample.mask_members(read_txids(values)).nonzero()[0].tolist()
        self._keys += [keys[place] for place in places]
        self._values += [values[place] for place in places]
        if len(self._keys) >= KEY_LIMITS.check_batch_records:
            self._compare()

    def watch_parts(self, parts: Iterable[Pairs]) -> Iterator[Pairs]:
        """``parts`` as they come, looked at."""
        for keys, values in parts:
            self.sample_records(keys, values)
            yield keys, values

    def finish(self) -> None:
        """Compare the sampled keys, and raise the errors found."""
        self._compare()
        if self._found is not None:
            raise make_other_keys_error(self._present.topic, int.from_bytes(self._found[1], "big"))

    def _compare(self) -> None:
        keys, values = self._keys, self._values
        self._keys, self._values = [], []
        others = self._present.find_misplaced(keys, values)
        txids = read_txids([values[place] for place in others]).tolist()
        # Records come in key order: with History the first one found is the one with the lowest key.
        earliest = self._present.topic.history is None
        for place, txid in zip(others, txids, strict=True):
            if self._found is None or (earliest and txid < self._found[0]):
                self._found = txid, keys[place]
