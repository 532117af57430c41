"""Many past states of a topic in one reading (option ``at`` with a list of times; sowctl-spark(7), SEVERAL INSTANTS).

What is read of a key are its versions, each once, with the instants that it was current at: a message that did not
change for a month is decoded once and not for each day. A topic with History has versions in its store. For any other
topic one fold of the journal makes a store with all versions between the first and the last instant, as a copy that all
tasks read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace
from pyspark.sql.datasource import InputPartition

from sowctl.config.model import History
from sowctl.engine.fold.rebuild import rebuild_stores
from sowctl.engine.sources.current import open_current_source, open_file_source
from sowctl.engine.sources.recovery import has_all_entries
from sowctl.engine.sources.versions import VersionsSource
from sowctl.engine.topics.expiration import can_expire
from sowctl.engine.topics.positions import has_log, open_store, open_whole_log, refuse_unlogged_past
from sowctl.engine.topics.retention import Version
from sowctl.errors import UsageError
from sowctl.identity.keyspace import KeyBounds
from sowctl.spark.reading.limits import PARTITION_LIMITS
from sowctl.spark.reading.pinned_state import find_copy_place, hold_copy_directory
from sowctl.store.codec import read_expiration
from sowctl.structs import DescribedStruct
from sowctl.values.times import Micros, format_time

if TYPE_CHECKING:
    from sowctl.spark.origin import Origin

SCAN_RECORDS = 4096
"""Records that are read of a store at a time."""


class InstantsPlan(DescribedStruct, frozen=True):
    """Every partition reads a range of keys, as of each of ``instants``, which ascend (microseconds UTC).

    ``versions`` is the store with the versions, None for that of the topic, which has History. Of the first ``empty``
    instants nothing is known any more: these lie before the window.
    """

    origin: Origin
    instants: tuple[Micros, ...]
    versions: Path | None
    empty: int
    count: int


class InstantsRange(InputPartition):
    """One partition: the keys within ``bounds``."""

    def __init__(self, bounds: KeyBounds, plan: InstantsPlan) -> None:
        self.bounds = bounds
        self.plan = plan


def require_instants(origin: Origin, instants: Sequence[Micros]) -> None:
    """Raise UsageError ``SOW-SPK-172`` for a topic that cannot be read as of several instants."""
    topic = origin.topic
    if topic is None:
        raise _build_error("a store file has no journal", "give config and topic, or one instant")
    if topic.logical is not None:
        raise _build_error("a logical topic shares its store", "read the Pattern topic, or one instant")
    if topic.history is None and (not topic.journalled or topic.file is None):
        raise _build_error(f"topic {topic.name!r} has neither History nor a journal and a file", "give one instant")
    if instants[-1] > origin.now:
        raise _build_error(f"{format_time(instants[-1])} is in the future", "give times up to now")


def plan_instants(origin: Origin, instants: tuple[Micros, ...], partitions: int | None) -> InstantsPlan | None:
    """The plan for the states at ``instants``, in so many partitions if that is said; None for a topic without entries.

    Raises UsageError as :func:`require_instants`, also where the journal does not have all entries of the topic, and
    what reading the past raises.
    """
    topic, instance = origin.topic, origin.build_instance()
    assert topic is not None
    if topic.history is not None:
        with closing(open_current_source(instance, topic, now=origin.now)) as base:
            oldest = max(origin.now, base.meta.removal_mark) - topic.history.window_us
            empty = bisect_left(instants, min(oldest, origin.now))
            records = base.meta.records + base.meta.versions
        return InstantsPlan(origin, instants, None, empty, partitions or _count_partitions(records))
    if not has_log(instance):
        return None
    with open_whole_log(instance) as log:
        if log.find_topic_state(topic.ref).last_txid == 0:
            return None
        assert topic.file is not None
        if topic.file.exists():
            with open_store(instance, topic.file) as store:
                refuse_unlogged_past(topic, store.read_meta(), log)
        if not has_all_entries(topic, log, 0):
            raise _build_error(
                f"the journal does not have all entries of topic {topic.name!r}",
                "give one instant, or an archive with the older files",
            )
        last_txid, lineage = log.read_last_txid(), log.lineage
        place = find_copy_place(origin, f"versions {instants[0]} {instants[-1]} {lineage.hex()} {last_txid}")
        with hold_copy_directory(place) as directory:
            path = directory / "versions.sow"
            if not path.exists():
                # Of a key, what ceased to be current before the first instant is left out.
                window = History(instants[-1] - instants[0], 0)
                rebuild_stores(instance, log, [replace(topic, file=path, history=window)], at=instants[-1])
    with open_store(instance, path) as store:
        meta = store.read_meta()
    return InstantsPlan(origin, instants, path, 0, partitions or _count_partitions(meta.records + meta.versions))


def read_spans(part: InstantsRange) -> Iterator[tuple[bytes, bytes, int, int]]:
    """Key, value, and the range of the instants at which the value was current, in the order of keys and times."""
    plan, instance = part.plan, part.plan.origin.build_instance()
    topic = plan.origin.topic
    assert topic is not None
    if plan.versions is None:
        # Versions of the past stay as they are, however far the store has moved since.
        versions = VersionsSource(open_current_source(instance, topic, now=plan.origin.now), topic, plan.origin.now)
    else:
        versions = VersionsSource(open_file_source(instance, plan.versions), None, plan.origin.now)
    expires = can_expire(topic.expiration)
    with closing(versions):
        for key, timeline in versions.iterate_timelines(SCAN_RECORDS, *part.bounds):
            for version, start, stop in _find_spans(timeline, plan.instants, expires=expires):
                start = max(start, plan.empty)
                if start < stop:
                    yield key, version.value, start, stop


def _find_spans(
    timeline: Sequence[Version], instants: Sequence[Micros], *, expires: bool
) -> Iterator[tuple[Version, int, int]]:
    """The versions of a key that are current at instants, and the range of these."""
    ends = [bisect_left(instants, successor.time) for _, successor in pairwise(timeline)]
    for version, stop in zip(timeline, [*ends, len(instants)], strict=True):
        if version.tombstone:
            continue
        if expires and (expiration := read_expiration(version.value)) > 0:
            stop = min(stop, bisect_left(instants, expiration))
        yield version, bisect_left(instants, version.time), stop


def _count_partitions(records: int) -> int:
    return records // PARTITION_LIMITS.records_per_partition + 1


def _build_error(why: str, hint: str) -> UsageError:
    return UsageError("SOW-SPK-172", f"several instants cannot be read together: {why}", hint=hint)
