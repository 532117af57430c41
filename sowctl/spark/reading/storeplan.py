"""In how many partitions a topic's state is read, and what each of them opens (sowctl-spark(7), PARTITIONS).

Called by the reader of :mod:`sowctl.spark.reading.storereader`, where Spark plans.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress

from msgspec.structs import replace

from sowctl.engine.sources.past import StateOrigin, plan_past_state
from sowctl.engine.topics.positions import has_log, open_log
from sowctl.errors import MissingError, StorageError
from sowctl.remote.place import require_local
from sowctl.spark.origin import Origin
from sowctl.spark.reading.limits import PARTITION_LIMITS
from sowctl.spark.reading.pinned_state import pin_state
from sowctl.spark.reading.positions import PlannedState, plan_position
from sowctl.spark.writing.staging import find_staging
from sowctl.structs import DescribedStruct


class StorePlan(DescribedStruct, frozen=True):
    """Every partition reads a range of keys of ``origin`` as of ``at`` (None: of the state ``planned``).

    ``seen``: the store or entries of a journal were there where this was planned.
    """

    origin: Origin
    at: int | None
    planned: PlannedState | None
    count: int
    seen: bool = True


def plan_store(origin: Origin, at: int | None, partitions: int | None) -> StorePlan:
    """The plan for the state ``at`` an instant (microseconds UTC; None: now), in so many partitions if that is said.

    A state that has to be built first is built here and once, as a file that all tasks read, unless it is so small that
    one of them may build it. Raises what reading raises.
    """
    planned = plan_position(origin)
    if planned is None:
        entries = _entries(origin)
        # Where nothing was published yet, a task says just that.
        seen = entries > 0 and origin.topic is not None and origin.topic.journalled
        return replace(_plan_copy(origin, at, partitions, entries), seen=seen)
    count = partitions or planned.records // PARTITION_LIMITS.records_per_partition + 1
    if origin.topic is None or at is None or count == 1:
        return StorePlan(origin, at, planned, count)
    with ExitStack() as held:
        # The same decision that each task makes when it opens the state.
        way = plan_past_state(origin.build_instance(), origin.topic.whole_topic, at, held)
        if way.means is StateOrigin.PRESENT and at >= origin.now:
            # What is the future here is the present, and that may change before the last task has read it.
            return StorePlan(origin, None, planned, count)
        if way.means in (StateOrigin.PRESENT, StateOrigin.VERSIONS):
            return StorePlan(origin, at, planned, count)
        if way.means is StateOrigin.EMPTY:
            return StorePlan(origin, at, planned, 1)
    return _plan_copy(origin, at, partitions, planned.records)


def _plan_copy(origin: Origin, at: int | None, partitions: int | None, records: int) -> StorePlan:
    """A copy of the state in the staging place, which goes when the driver has ended; the same one for every reading of
    this state by this driver."""
    count = partitions or records // PARTITION_LIMITS.records_per_partition + 1
    if count > 1 and origin.topic is not None:
        name = f"state of {origin.topic.label} at {at} of {_last(origin) if at is None else 0}"
        # Where nothing may be written, one task builds the state for itself.
        with suppress(StorageError):
            directory = require_local(find_staging(origin, name, None).open())
            copy = pin_state(origin, at, directory / "state.sow")
            return StorePlan(copy, None, plan_position(copy), count)
    return StorePlan(origin, at, None, 1)


def _entries(origin: Origin) -> int:
    """Return the number of entries in the journal, of all topics: a topic has no more records."""
    instance = origin.build_instance()
    try:
        if not has_log(instance):
            return 0
        with open_log(instance) as log:
            return log.read_last_txid() - log.first_txid + 1
    except MissingError:
        return 0


def _last(origin: Origin) -> int:
    with open_log(origin.build_instance()) as log:
        return log.read_last_txid()
