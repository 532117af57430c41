"""The distributed fold: highest txid per key wins, over pieces of the journals (README, principle 1).

Map tasks fold a stretch of the journal each and cut what is left by ranges of the key space; Spark's shuffle brings the
runs of one range together, as few large values rather than as rows; reduce tasks fold those, sort them by key and
leave sorted files in the staging directory. Memory: a stretch in a map task, a range in a reduce task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, groupby, pairwise
from operator import itemgetter
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any

from sowctl.engine.buckets import Pairs, words
from sowctl.engine.history import Retention
from sowctl.engine.overlay import tombstone
from sowctl.engine.timeline import extend, retention, value_of
from sowctl.errors import DamageError, StorageError
from sowctl.journal.format import DELETE, UNKEYED
from sowctl.spark.errors import translated
from sowctl.spark.jobs.tasks import attempt, carried_iterator, describe
from sowctl.store.codec import encode, encode_plain
from sowctl.tuples import NamedTuple

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

    from sowctl.config.model import TopicConfig
    from sowctl.journal.block import Block
    from sowctl.journal.reader import Journal
    from sowctl.journal.stretch import Stretch

STRETCH_BYTES = 8 << 20
LEAST_BYTES = 1 << 20
"""Stored bytes of journal that one map task reads, about: the former, or less so that all processors have work."""
BUCKET_BYTES = 64 << 20
"""Values of one reduce task, about."""
PART = 1000
_NAMES = [
    "key",
    "check",
    "txid",
    "time",
    "expiration",
    "operation",
    "payload",
    "user_key",
    "correlation_id",
    "logical_topic",
]
_HEAD = Struct("<QQ")
"""Before every part of a run or a file: the number of its pairs, and the bytes of its values."""


class Folded(NamedTuple):
    """A file of sorted records (and, of a topic with History, another of versions) that a reduce task left."""

    topic: int
    bucket: int
    records: str
    versions: str
    entries: int
    payload_bytes: int


@dataclass(frozen=True, slots=True)
class Fold:
    """What to fold: topics in order, entries up to a txid and not later than ``at``; ``buckets`` per topic."""

    topics: tuple[tuple[str, str], ...]
    rules: tuple[Retention | None, ...]
    until: int
    at: int | None
    buckets: int
    directory: str


@dataclass(frozen=True, slots=True)
class FoldResult:
    """The files by topic, in key order; per topic entries folded, time and txid of the last one; tasks that ran."""

    files: tuple[tuple[Folded, ...], ...]
    entries: tuple[int, ...]
    latest: tuple[int, ...]
    last_txid: tuple[int, ...]
    partitions: int


def fold(
    spark: SparkSession, log: Journal, topics: Sequence[TopicConfig], directory: Path, *, until: int, at: int | None
) -> FoldResult:
    """Fold the entries of ``topics`` up to ``until`` and ``at``; sorted files in ``directory``."""
    parallel = spark.sparkContext.defaultParallelism
    stored = sum(file.size for file in log.files())
    stretches = list(log.stretches(0, until, max(LEAST_BYTES, min(STRETCH_BYTES, stored // (2 * parallel)))))
    size = sum(stretch.payload_bytes + 96 * stretch.entries for stretch in stretches)
    plan = Fold(
        tuple((topic.name, topic.message_type) for topic in topics),
        tuple(retention(topic.history) for topic in topics),
        until,
        at,
        max(parallel if size > BUCKET_BYTES // 8 else 1, -(-size // BUCKET_BYTES)),
        str(directory),
    )
    if not stretches:
        empty = (0,) * len(topics)
        return FoldResult(((),) * len(topics), empty, empty, empty, 0)
    describe(spark, "fold " + ", ".join(topic.name for topic in topics))
    mapped = spark.sparkContext.parallelize(stretches, len(stretches)).mapPartitions(_Mapper(plan))
    numbers = plan.buckets * len(topics)
    with translated():
        found = mapped.partitionBy(numbers, int).mapPartitionsWithIndex(_Reducer(plan)).collect()
    return _result(plan, found, len(stretches) + numbers)


def _result(plan: Fold, found: list[Any], partitions: int) -> FoldResult:
    files: list[list[Folded]] = [[] for _ in plan.topics]
    entries, latest, last = ([0] * len(plan.topics) for _ in range(3))
    for folded, facts in found:
        topic = folded.topic
        files[topic].append(folded)
        entries[topic] += facts.entries
        latest[topic] = max(latest[topic], facts.latest)
        last[topic] = max(last[topic], facts.last_txid)
    ordered = tuple(tuple(sorted(row, key=lambda one: one.bucket)) for row in files)
    return FoldResult(ordered, tuple(entries), tuple(latest), tuple(last), partitions)


class Facts(NamedTuple):
    """Entries of a run before folding, time and txid of the last one."""

    entries: int
    latest: int
    last_txid: int


class Run(NamedTuple):
    """Entries of one stretch in one bucket, those of a key in txid order: an Arrow stream of :func:`_columns`."""

    first_txid: int
    facts: Facts
    entries: bytes


class _Mapper:
    def __init__(self, plan: Fold) -> None:
        self.plan = plan

    def __call__(self, stretches: Iterable[Stretch]) -> Iterator[tuple[int, Run]]:
        return carried_iterator(run for stretch in stretches for run in self.runs(stretch))

    def runs(self, stretch: Stretch) -> Iterator[tuple[int, Run]]:
        """Every bucket of every topic that the stretch has entries of, with its run."""
        import numpy as np
        import pyarrow as pa

        plan = self.plan
        blocks = list(stretch.blocks())
        for number, (ref, rule) in enumerate(zip(plan.topics, plan.rules, strict=True)):
            batches = [found for block in blocks if (found := _columns(block, ref, plan)) is not None]
            if not batches:
                continue
            table = pa.Table.from_batches(batches).combine_chunks()
            keys = table["key"].to_numpy()
            facts = Facts(len(keys), table["time"][-1].as_py(), table["txid"][-1].as_py())
            chosen = _last_of_each(keys) if rule is None else np.arange(len(keys))
            for bucket, places in _cut(keys[chosen], plan.buckets):
                run = _stream(table.take(pa.array(chosen[places])))
                yield number * plan.buckets + bucket, Run(blocks[0].first_txid, facts, run)
                facts = Facts(0, facts.latest, facts.last_txid)


def _columns(block: Block, ref: tuple[str, str], plan: Fold) -> pyarrow.RecordBatch | None:
    """A block's entries of a topic as an Arrow batch; None where there are none."""
    import numpy as np
    import pyarrow as pa

    if not block.map.has(ref):
        return None
    columns = block.numpy_columns()
    txids = np.arange(block.first_txid, block.last_txid + 1, dtype=np.uint64)
    chosen = None
    if len(block.topics) > 1:
        chosen = columns.topics == block.topics.index(ref)
    if block.last_txid > plan.until:
        chosen = (txids <= plan.until) if chosen is None else chosen & (txids <= plan.until)
    if plan.at is not None and block.header.latest > plan.at:
        chosen = (columns.times <= plan.at) if chosen is None else chosen & (columns.times <= plan.at)
    if (columns.flags & UNKEYED).any():
        keyed = (columns.flags & UNKEYED) == 0
        chosen = keyed if chosen is None else chosen & keyed
    offsets = np.zeros(len(block) + 1, dtype=np.int64)
    columns.lengths.cumsum(dtype=np.int64, out=offsets[1:])
    raw = pa.py_buffer(block.payload_bytes())
    texts = (columns.user_keys, columns.correlation_ids, columns.logical_topics)
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(columns.keys.astype(np.uint64)),
            pa.array(columns.checks.astype(np.uint64)),
            pa.array(txids),
            pa.array(columns.times),
            pa.array(columns.expirations),
            pa.array(columns.operations),
            pa.Array.from_buffers(pa.large_binary(), len(block), [None, pa.py_buffer(offsets), raw]),
            *[pa.nulls(len(block), pa.binary()) if text is None else pa.array(text, pa.binary()) for text in texts],
        ],
        names=_NAMES,
    )
    if chosen is None:
        return batch
    return batch.filter(pa.array(chosen)) if chosen.any() else None


def _stream(table: pyarrow.Table) -> bytes:
    """A table as bytes that may be stored anywhere."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _last_of_each(keys: Any) -> Any:
    """The places of the last occurrence of every key, in key order."""
    import numpy as np

    order = keys.argsort()
    ordered = keys[order]
    begins = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return np.maximum.reduceat(order, begins) if len(keys) else order


def _cut(keys: Any, buckets: int) -> Iterator[tuple[int, Any]]:
    """The places of the keys of every bucket that has any, in their order."""
    import numpy as np

    owners = (keys >> np.uint64(32)) * np.uint64(buckets) >> np.uint64(32)
    order = owners.argsort(kind="stable")
    ends = np.searchsorted(owners[order], np.arange(buckets + 1, dtype=np.uint64))
    for bucket, (start, end) in enumerate(pairwise(ends.tolist())):
        if start < end:
            yield bucket, order[start:end]


class _Reducer:
    def __init__(self, plan: Fold) -> None:
        self.plan = plan

    def __call__(self, index: int, runs: Iterable[tuple[int, Run]]) -> Iterator[tuple[Folded, Facts]]:
        return carried_iterator(self.folded(index, [run for _, run in runs]))

    def folded(self, index: int, runs: list[Run]) -> Iterator[tuple[Folded, Facts]]:
        """The file of one bucket; nothing where no run came."""
        plan = self.plan
        if not runs:
            return
        runs.sort()
        facts = Facts(
            sum(run.facts.entries for run in runs),
            max(run.facts.latest for run in runs),
            max(run.facts.last_txid for run in runs),
        )
        topic, bucket = divmod(index, plan.buckets)
        rule = plan.rules[topic]
        name = f"fold-{topic}-{bucket}-{attempt()}"
        directory = Path(plan.directory)
        if rule is None:
            count, size = write_pairs(directory / name, _sorted_latest(runs))
            yield Folded(topic, bucket, name, "", count, size), facts
            return
        versions: list[tuple[bytes, bytes]] = []
        records: list[tuple[bytes, bytes]] = []
        for key, updates in _timelines(runs):
            kept = extend([], updates, rule)
            current = kept[-1]
            versions += [(key, value_of(key, one)) for one in (kept if current.tombstone else kept[:-1])]
            if not current.tombstone:
                records.append((key, current.value))
        count, size = write_pairs(directory / name, _parts(records))
        write_pairs(directory / f"{name}-v", _parts(versions))
        yield Folded(topic, bucket, name, f"{name}-v", count, size), facts


def _joined(runs: list[Run]) -> pyarrow.Table:
    """The entries of runs, those of a key in txid order; the runs are forgotten."""
    import pyarrow as pa

    tables = [pa.ipc.open_stream(run.entries).read_all() for run in runs]
    runs.clear()
    return pa.concat_tables(tables).combine_chunks()


def _sorted_latest(runs: list[Run]) -> Iterator[Pairs]:
    import numpy as np
    import pyarrow as pa

    table = _joined(runs)
    order = _last_of_each(table["key"].to_numpy())
    order = order[table["operation"].to_numpy()[order] != DELETE]
    for places in np.split(order, range(PART, len(order), PART)) if len(order) else ():
        yield _pairs(table.take(pa.array(places)))


def _timelines(runs: list[Run]) -> Iterator[tuple[bytes, list[bytes]]]:
    import numpy as np
    import pyarrow as pa

    table = _joined(runs)
    order = table["key"].to_numpy().argsort(kind="stable")
    parts = (_pairs(table.take(pa.array(places))) for places in np.split(order, range(PART, len(order), PART)))
    pairs = chain.from_iterable(zip(*part, strict=True) for part in parts)
    for key, rows in groupby(pairs, key=itemgetter(0)):
        yield key, [value for _, value in rows]


def _pairs(table: pyarrow.Table) -> Pairs:
    """Keys and stored values of entries; a deletion is a tombstone."""
    import numpy as np

    keys, checks = (words(table[name].to_numpy().astype(">u8")) for name in ("key", "check"))
    txids, times, expirations = (table[name].to_numpy().tolist() for name in ("txid", "time", "expiration"))
    payloads = table["payload"].to_pylist()
    texts = [table[name] for name in _NAMES[-3:]]
    if all(text.null_count == len(keys) for text in texts) and not (table["operation"].to_numpy() == DELETE).any():
        return keys, encode_plain(keys, checks, txids, times, expirations, payloads)
    values = []
    gone = np.equal(table["operation"].to_numpy(), DELETE).tolist()
    rows = zip(gone, keys, checks, txids, times, expirations, payloads, *[t.to_pylist() for t in texts], strict=True)
    for deleted, key, check, txid, time, expiration, payload, *more in rows:
        if deleted:
            values.append(tombstone(key, check, txid, time))
        else:
            values.append(encode(key, check, txid, time, expiration, 0, payload, *more))
    return keys, values


def _parts(pairs: list[tuple[bytes, bytes]]) -> Iterator[Pairs]:
    for start in range(0, len(pairs), PART):
        part = pairs[start : start + PART]
        yield [key for key, _ in part], [value for _, value in part]


def write_pairs(path: Path, parts: Iterator[Pairs]) -> tuple[int, int]:
    """A file of keys and stored values in parts; returns how many pairs and how many bytes of values there are."""
    import numpy as np

    count = total = 0
    try:
        with path.open("wb") as file:
            for keys, values in parts:
                lengths = np.fromiter(map(len, values), dtype="<u4", count=len(values))
                size = int(lengths.sum(dtype=np.uint64))
                file.write(b"".join([_HEAD.pack(len(keys), size), *keys, lengths.tobytes(), *values]))
                count += len(keys)
                total += size
    except OSError as problem:
        raise StorageError(
            "SOW-SPK-060",
            f"a staged file cannot be written: {problem.strerror or problem}",
            place=str(path),
            hint="make room there, or give another --staging directory",
        ) from problem
    return count, total


def read_pairs(path: Path) -> Iterator[Pairs]:
    """What :func:`write_pairs` wrote, part by part. Raises DamageError ``SOW-SPK-061`` for a file that is cut."""
    import numpy as np

    with path.open("rb") as file:
        while head := file.read(_HEAD.size):
            count, size = _HEAD.unpack(head) if len(head) == _HEAD.size else (0, -1)
            keys, lengths, values = file.read(8 * count), file.read(4 * count), file.read(max(size, 0))
            if len(values) != size:
                raise DamageError("SOW-SPK-061", "a staged file is incomplete", place=str(path))
            ends = accumulate(np.frombuffer(lengths, dtype="<u4").tolist(), initial=0)
            yield (
                [keys[at : at + 8] for at in range(0, len(keys), 8)],
                [values[start:end] for start, end in pairwise(ends)],
            )
