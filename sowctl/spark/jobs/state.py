"""The state of a topic, now or at an instant, in parts that separate tasks read (for the jobs).

:func:`sowctl.engine.sources.past.plan_past_state` chooses the source of a past state: the store if nothing has changed
since, retained versions, or a fold of the journals, which runs on Spark. The current state of a topic without a store
file is folded from the journals, too. The parts in order contain the records in key order.

Tasks read a store in place, without a copy. If it changes before all of them have read their part, the work is repeated
from a copy (:func:`read_one_state`).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from xxhash import xxh3_64_hexdigest

from sowctl.engine.sources.logical_topics import build_logical_filter
from sowctl.engine.sources.past import StateOrigin, plan_past_state
from sowctl.engine.sources.recovery import find_rebuild_start
from sowctl.engine.sources.source import Pairs
from sowctl.engine.topics.expiration import can_expire, find_unexpired
from sowctl.engine.topics.positions import has_log, open_log
from sowctl.engine.topics.targets import Target
from sowctl.engine.verbs.snapshot import write_snapshot
from sowctl.errors import LockedError
from sowctl.identity.keyspace import compute_part_bounds
from sowctl.remote.place import Place
from sowctl.spark.jobs.folds.distributed_fold import Fold, prepare_fold
from sowctl.spark.jobs.limits import JOB_LIMITS
from sowctl.spark.jobs.visibility import FileVisibility
from sowctl.spark.origin import Origin
from sowctl.spark.pairfiles import read_pairs, write_pairs
from sowctl.spark.reading.journalplan import warn_unsplittable
from sowctl.spark.reading.positions import PlannedState, open_planned_source, plan_position, read_range
from sowctl.store.limits import STORE_LIMITS
from sowctl.structs import DescribedStruct
from sowctl.values.times import find_last_txid

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

    from sowctl.config.model import Expiration, Logical, TopicConfig
    from sowctl.engine.instance import Instance

MAX_PARTS = 1000
"""Maximum parts of a store; in larger stores, parts have more records. A view combines all parts in a shuffle."""
ALL_VISIBLE = FileVisibility()
T = TypeVar("T")


class RangePart(Struct, frozen=True):
    """The records of a key range, read from the store and the journal entries after it."""

    origin: Origin
    position: PlannedState | None
    at: int | None
    low: bytes | None
    high: bytes | None

    def iterate_pairs(self) -> Iterator[Pairs]:
        """Yield keys and stored values in key order. Raises what reading raises, and LockedError if the topic has
        changed since the plan."""
        with closing(open_planned_source(self.origin, self.position, self.at)) as source:
            yield from read_range(source, self.origin, STORE_LIMITS.read_batch_records, self.low, self.high)


class FoldSelection(DescribedStruct, frozen=True):
    """Selection of a fold's records: those not expired at ``at``, and of a Pattern topic only ``logical``."""

    expiration: Expiration
    at: int
    logical: Logical | None = None

    def filter_pairs(self, parts: Iterable[Pairs]) -> Iterator[Pairs]:
        """Yield keys and stored values of the selected records."""
        choose = build_logical_filter(self.logical) if self.logical is not None else None
        for keys, values in parts:
            if choose is not None:
                keys, values = choose((keys, values))
            if can_expire(self.expiration):
                kept = find_unexpired(values, self.at)
                keys, values = [keys[place] for place in kept], [values[place] for place in kept]
            if keys:
                yield keys, values


class FoldedPart(Struct, frozen=True):
    """The records of a key range that ``shown`` selects (None: all), in a file that a fold or the driver has
    written."""

    place: Place
    shown: FoldSelection | None

    def iterate_pairs(self) -> Iterator[Pairs]:
        """Yield keys and stored values in key order."""
        found = read_pairs(self.place)
        return found if self.shown is None else self.shown.filter_pairs(found)


class PairsPart(Struct, frozen=True):
    """Records that are passed from a fold to their reader in memory; ``shown`` selects among them."""

    shown: FoldSelection
    held: Pairs

    def iterate_pairs(self) -> Iterator[Pairs]:
        """Yield keys and stored values in key order."""
        return self.shown.filter_pairs([self.held])


Part = RangePart | FoldedPart


class FoldedState(DescribedStruct):
    """A state that is folded from the journals on Spark when a result is first requested.

    The fold includes all logical topics of a Pattern topic, and expired records; each part filters them when it is
    read.
    """

    fold: Fold
    shown: FoldSelection

    def write_files(self, directory: Place) -> list[FoldedPart]:
        """Write the records to files in ``directory``, and return parts that may be read several times."""
        found = self.fold.write_files(directory)
        return [FoldedPart(directory / one.records, self.shown) for one in found.files[0]]

    def stream_parts(self) -> RDD[PairsPart] | None:
        """Return parts in key order without writing files; None if the journals have no entry."""
        return self.fold.map_records(partial(PairsPart, self.shown))

    def report_gaps(self) -> None:
        """Report the gaps that the fold has found."""
        self.fold.report_gaps()


def read_one_state(instance: Instance, work: Callable[[bool], T]) -> T:
    """Call ``work`` with False; if a store changes while tasks read it (LockedError ``SOW-SPK-020``), with True.

    ``work`` passes the flag to :func:`plan_state` or :func:`list_parts` as ``copied``, and must remove its output if it
    fails. Raises what ``work`` raises.
    """
    try:
        return work(False)
    except LockedError as error:
        if error.code != "SOW-SPK-020":
            raise
        instance.notify(f"{error.place} changed while tasks read it; the job starts again from a copy")
        return work(True)


def list_parts(
    spark: SparkSession,
    instance: Instance,
    topic: TopicConfig,
    at: int | None,
    directory: Place,
    seen: FileVisibility = ALL_VISIBLE,
    *,
    copied: bool = False,
) -> Sequence[Part]:
    """Return the state of ``topic`` at an instant (microseconds UTC; None: now) in parts.

    ``directory`` is a staging directory. ``copied``: copy a store that writers could change to ``directory`` and read
    the copy. Raises what reading the present or the past raises.
    """
    found = plan_state(spark, instance, topic, at, directory, seen, copied=copied)
    return found.write_files(directory) if isinstance(found, FoldedState) else found


def plan_state(
    spark: SparkSession,
    instance: Instance,
    topic: TopicConfig,
    at: int | None,
    directory: Place,
    seen: FileVisibility = ALL_VISIBLE,
    *,
    copied: bool = False,
) -> Sequence[Part] | FoldedState:
    """Like :func:`list_parts`, but a state that requires a fold is only planned; its results are computed on demand."""
    found = _state(spark, instance, topic, at, directory, seen, copied=copied)
    if isinstance(found, FoldedState) or seen.stores:
        return found
    return _hand_parts(found, directory)


def _state(
    spark: SparkSession,
    instance: Instance,
    topic: TopicConfig,
    at: int | None,
    directory: Place,
    seen: FileVisibility,
    *,
    copied: bool,
) -> Sequence[Part] | FoldedState:
    now = instance.now
    with ExitStack() as held:
        if at is None:
            if _needs_fold(instance, topic):
                return _fold_present(spark, instance, topic, held, seen)
            return _copy_state(instance, topic, at, directory) if copied else _ranges(instance, topic, at, now)
        # The decision is shared with queries in one process, so that both return the same state or raise the same
        # error.
        way = plan_past_state(instance, topic.whole_topic, at, held)
        # The current store equals the state at that instant, so no fold is needed.
        if way.means is StateOrigin.PRESENT and way.current.path is not None and not copied:
            return _ranges(instance, topic, None, way.clock)
        if way.means is StateOrigin.VERSIONS and way.current.path is not None:
            # Retained versions of the store contain the state, and each range can be read separately.
            return _ranges(instance, topic, at, now)
        if way.means is StateOrigin.EMPTY:
            return _ranges(instance, topic, at, now, several=False)
        if way.means is not StateOrigin.FOLD:
            return _copy_state(instance, topic, at, directory)
        assert way.log is not None
        warn_unsplittable(instance, way.log)
        # The end is fixed here, so that all tasks fold the same entries.
        last = find_last_txid(way.at)
        until = way.log.read_last_txid() if last is None else last
        done = prepare_fold(
            spark,
            way.log,
            [topic.whole_topic],
            after=way.after,
            until=until,
            at=way.at if last is None else None,
            seen=seen.journal,
        )
    return FoldedState(done, FoldSelection(topic.expiration, way.clock, topic.logical))


def _copy_state(instance: Instance, topic: TopicConfig, at: int | None, directory: Place) -> Sequence[Part]:
    """Copy a state to a store once, on the driver, and return its ranges: otherwise each task would have to compute all
    of it, or the current state changes while tasks read it."""

    def ranges(path: Path) -> Sequence[Part]:
        # Views of one run that read the same topic share the copy.
        if not path.exists():
            write_snapshot(instance, Target(topic=topic), at, path)
        return _ranges_of(Origin(instance.config, None, path, None, instance.now), None)

    name = f"state-{xxh3_64_hexdigest(f'{topic.message_type} {topic.label}'.encode())}-{at}.sow"
    if isinstance(directory, Path):
        return ranges(directory / name)
    # A store must be a local file to be memory-mapped; its records are then written to the URL.
    with tempfile.TemporaryDirectory(prefix="sowctl-state-") as own:
        return _hand_parts(ranges(Path(own) / name), directory)


def _hand_parts(parts: Sequence[Part], directory: Place) -> Sequence[Part]:
    """Read parts that executors cannot see on the driver, and write them to files that executors can see."""
    handed = []
    for part in parts:
        if isinstance(part, FoldedPart):
            # Already in such a file, as a copied state.
            handed.append(part)
            continue
        place = directory / f"handed-{os.urandom(8).hex()}"
        write_pairs(place, part.iterate_pairs())
        handed.append(FoldedPart(place, None))
    return handed


def _needs_fold(instance: Instance, topic: TopicConfig) -> bool:
    """Return whether the current state must be folded from the journals, because the store is missing."""
    whole = topic.whole_topic
    return not (whole.file is not None and whole.file.exists()) and whole.journalled and has_log(instance)


def _fold_present(
    spark: SparkSession, instance: Instance, topic: TopicConfig, held: ExitStack, seen: FileVisibility
) -> FoldedState:
    """Plan the fold of the current state of a topic whose store is missing, as readers in one process do."""
    whole = topic.whole_topic
    log = held.enter_context(open_log(instance, whole=True))
    warn_unsplittable(instance, log)
    after = find_rebuild_start(instance, whole, log)
    # Without history: versions are not part of the current state.
    done = prepare_fold(
        spark, log, [replace(whole, history=None)], after=after, until=log.read_last_txid(), at=None, seen=seen.journal
    )
    return FoldedState(done, FoldSelection(topic.expiration, instance.now, topic.logical))


def _ranges(
    instance: Instance, topic: TopicConfig, at: int | None, now: int, *, several: bool = True
) -> Sequence[Part]:
    return _ranges_of(Origin(instance.config, topic, None, None, now), at, several=several)


def _ranges_of(origin: Origin, at: int | None, *, several: bool = True) -> Sequence[Part]:
    position = plan_position(origin)
    count = (
        min(position.records // JOB_LIMITS.records_per_part + 1, MAX_PARTS) if position is not None and several else 1
    )
    return [RangePart(origin, position, at, low, high) for low, high in compute_part_bounds(count)]
