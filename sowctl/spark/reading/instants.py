"""Reading many past states of a topic together (option ``at`` with several times; sowctl-spark(7), SEVERAL INSTANTS).

Each version of a key is read once, with the instants at which it was current: a message that did not change for a month
is decoded once, not once per day. A topic with History has versions in its store. For other topics, one fold of the
journal writes the versions that were current at any of the instants to files, one per partition.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import InputPartition

from sowctl.engine.fold.journal_fold import fold_instants
from sowctl.engine.sources.current import open_current_source
from sowctl.engine.sources.recovery import has_all_entries
from sowctl.engine.sources.versions import VersionsSource
from sowctl.engine.topics.expiration import can_expire
from sowctl.engine.topics.positions import has_log, open_store, open_whole_log, refuse_unlogged_past
from sowctl.engine.topics.retention import Version
from sowctl.errors import UsageError
from sowctl.identity.keyspace import KeyBounds, iterate_parts
from sowctl.spark.pairfiles import PairFile, read_pairs, translate_write_errors
from sowctl.spark.reading.limits import PARTITION_LIMITS
from sowctl.spark.reading.pinned_state import find_copy_place, hold_copy_directory
from sowctl.store.codec import HEADER_DTYPE, TOMBSTONE_FLAG, extract_headers, read_expiration
from sowctl.structs import DescribedStruct
from sowctl.values.times import Micros, format_time

if TYPE_CHECKING:
    from sowctl.engine.sources.source import Pairs
    from sowctl.spark.origin import Origin

SCAN_RECORDS = 4096
"""Records that are read from a store at a time."""


class InstantsPlan(DescribedStruct, frozen=True):
    """Plan in which every partition reads a range of keys as of all ``instants`` (ascending, microseconds UTC).

    ``versions`` is the directory with the files of versions, None if the topic's store has them. The first ``empty``
    instants are before the History window, so they have no records.
    """

    origin: Origin
    instants: tuple[Micros, ...]
    versions: Path | None
    empty: int
    count: int


class InstantsRange(InputPartition):
    """One partition: the keys within ``bounds``, which are those of the part with index ``number``."""

    def __init__(self, number: int, bounds: KeyBounds, plan: InstantsPlan) -> None:
        self.number = number
        self.bounds = bounds
        self.plan = plan


class VersionSpans(NamedTuple):
    """Versions ordered by key and time. Each was current at the instants with indexes from ``starts`` to before
    ``stops``, which are arrays."""

    keys: list[bytes]
    values: list[bytes]
    starts: Any
    stops: Any

    def take(self, places: Sequence[int]) -> VersionSpans:
        """Return the versions at these indexes."""
        keys, values = [self.keys[place] for place in places], [self.values[place] for place in places]
        return VersionSpans(keys, values, self.starts[places], self.stops[places])


def require_instants(origin: Origin, instants: Sequence[Micros]) -> None:
    """Raise UsageError ``SOW-SPK-172`` if a topic cannot be read as of several instants."""
    topic = origin.topic
    if topic is None:
        raise _build_error("a store file has no journal", "give config and topic, or one instant")
    if topic.derived is not None:
        raise _build_error(f"{topic.name!r} is a {topic.derived.kind}", "give one instant, or read its topic")
    if topic.logical is not None:
        raise _build_error("a logical topic shares its store", "read the Pattern topic, or one instant")
    if topic.history is None and (not topic.journalled or topic.file is None):
        raise _build_error(f"topic {topic.name!r} has neither History nor a journal and a file", "give one instant")
    if instants[-1] > origin.now:
        raise _build_error(f"{format_time(instants[-1])} is in the future", "give times up to now")


def plan_instants(origin: Origin, instants: tuple[Micros, ...], partitions: int | None) -> InstantsPlan | None:
    """Return the plan for the states at ``instants``, in ``partitions`` partitions (None: by the number of records);
    None for a topic without entries.

    Raises UsageError ``SOW-SPK-172`` if the journal does not have all entries of the topic, and what reading past
    states raises.
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
        state = f"versions {instants} in {partitions} parts of {lineage.hex()} {last_txid}"
        with hold_copy_directory(find_copy_place(origin, state)) as directory:
            # Written last, so if it exists, the other files are complete.
            total = directory / "count"
            if not total.exists():
                with fold_instants(log, topic.ref, instants, last_txid, directory) as (versions, parts):
                    count = partitions or _count_partitions(versions)
                    _write_versions(directory, parts, count)
                with translate_write_errors(total):
                    total.write_text(str(count))
            count = int(total.read_text())
    return InstantsPlan(origin, instants, directory, 0, count)


def _write_versions(directory: Path, parts: Iterable[Pairs], count: int) -> None:
    """Write versions to ``count`` files, one per range of keys."""
    import numpy as np

    with ExitStack() as held:
        # Keys ascend, so only one file is open at a time.
        number, file = 0, held.enter_context(PairFile(_find_versions(directory, 0)))
        for keys, values in parts:
            words = np.frombuffer(b"".join(keys), ">u8").astype("u8")
            for wanted, places in iterate_parts(words, count):
                while number < wanted:
                    held.close()
                    number += 1
                    file = held.enter_context(PairFile(_find_versions(directory, number)))
                first, last = int(places[0]), int(places[-1]) + 1
                file.add((keys[first:last], values[first:last]))
        while number + 1 < count:
            held.close()
            number += 1
            held.enter_context(PairFile(_find_versions(directory, number)))


def _find_versions(directory: Path, number: int) -> Path:
    return directory / f"versions-{number}"


def read_spans(part: InstantsRange) -> Iterator[VersionSpans]:
    """Yield the versions of a partition that were current at an instant, in batches."""
    plan = part.plan
    topic = plan.origin.topic
    assert topic is not None
    expires = can_expire(topic.expiration)
    if plan.versions is not None:
        for keys, values in read_pairs(_find_versions(plan.versions, part.number)):
            yield _select_spans(keys, values, plan.instants, expires=expires)
        return
    # Past versions do not change, so the store may have advanced since the query was planned.
    source = open_current_source(plan.origin.build_instance(), topic, now=plan.origin.now)
    with closing(VersionsSource(source, topic, plan.origin.now)) as versions:
        spans = _iterate_spans(versions, part, expires=expires)
        while some := list(islice(spans, SCAN_RECORDS)):
            yield _build_spans(some)


def _select_spans(keys: list[bytes], values: list[bytes], instants: Sequence[Micros], *, expires: bool) -> VersionSpans:
    """Compute the spans of stored versions and drop versions that were current at no instant.

    All versions of a key must be in the same call."""
    import numpy as np

    heads, words = np.frombuffer(extract_headers(values), HEADER_DTYPE), np.frombuffer(b"".join(keys), "u8")
    moments = np.array(instants, "i8")
    starts = moments.searchsorted(heads["time"])
    # A version ends where the next one of its key begins.
    stops = np.full(len(keys), len(instants))
    is_followed = words[1:] == words[:-1]
    stops[:-1][is_followed] = starts[1:][is_followed]
    if expires:
        ends = moments.searchsorted(heads["expiration"])
        stops = np.where(heads["expiration"] > 0, np.minimum(stops, ends), stops)
    current = ((heads["flags"] & TOMBSTONE_FLAG == 0) & (starts < stops)).nonzero()[0]
    spans = VersionSpans(keys, values, starts, stops)
    return spans if len(current) == len(keys) else spans.take(current.tolist())


def _iterate_spans(
    versions: VersionsSource, part: InstantsRange, *, expires: bool
) -> Iterator[tuple[bytes, bytes, int, int]]:
    plan = part.plan
    for key, timeline in versions.iterate_timelines(SCAN_RECORDS, *part.bounds):
        for version, start, stop in _find_spans(timeline, plan.instants, expires=expires):
            start = max(start, plan.empty)
            if start < stop:
                yield key, version.value, start, stop


def _build_spans(some: Sequence[tuple[bytes, bytes, int, int]]) -> VersionSpans:
    import numpy as np

    keys, values, starts, stops = map(list, zip(*some, strict=True))
    return VersionSpans(keys, values, np.array(starts), np.array(stops))


def _find_spans(
    timeline: Sequence[Version], instants: Sequence[Micros], *, expires: bool
) -> Iterator[tuple[Version, int, int]]:
    """Yield the versions of a key, each with the range of instants at which it was current."""
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
