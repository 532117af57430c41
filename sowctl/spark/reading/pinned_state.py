"""Immutable copies of a topic's state for many tasks (sowctl-spark(7), CONSISTENCY).

The option ``pin`` names a file: the first read creates it, later ones read it unchanged, and the user deletes it. Other
copies are temporary. They are created when a query is planned, or by the first task that finds that the store no longer
shows the planned state; for views, conflated topics and queues always. They are removed with the session, or after the
end of their driver.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from sowctl.engine.sources.opener import open_present_source, open_source
from sowctl.engine.sources.source import Source
from sowctl.engine.topics.expiration import can_expire
from sowctl.engine.topics.positions import open_log
from sowctl.engine.topics.targets import Target
from sowctl.engine.verbs.snapshot import write_snapshot, write_source
from sowctl.engine.views.openers import open_target
from sowctl.errors import LockedError, MissingError, RefusedError, StorageError
from sowctl.remote.place import require_local
from sowctl.spark.jvm.machine import STATES_VARIABLE
from sowctl.spark.origin import Origin
from sowctl.spark.reading.positions import PlannedState, open_planned_source, plan_position
from sowctl.spark.writing.staging import Staging, find_staging
from sowctl.values.times import EntryInstant


def pin_state(origin: Origin, at: int | None, path: Path) -> Origin:
    """Write the state of ``origin`` ``at`` an instant (None: now) to ``path`` if that file does not exist; return its
    origin.

    Raises what writing a snapshot raises.
    """
    if not path.exists():
        try:
            # The present of a derived topic has no instant: its cache is always that of the present.
            instant = _latest(origin) if at is None and not origin.is_derived else at
            write_snapshot(origin.build_instance(), origin.target, instant, path)
        except RefusedError as error:
            # Another planner created the same file at the same time.
            if error.code != "SOW-SNP-001":
                raise
    # Keep the configuration, which defines message types and functions of expressions.
    return Origin(origin.config, None, path, None, origin.now)


def find_copy_place(origin: Origin, state: str) -> Staging:
    """Return the directory for the copy of a ``state``: the same one for all reads of that state by this driver."""
    topic = origin.topic
    if topic is not None:
        # The copy depends on the selected logical topic, and on the time because expired records are left out.
        now = origin.now if can_expire(topic.expiration) else None
        state = f"{state} of {topic.logical} at {now}"
    states = os.environ.get(STATES_VARIABLE)
    return find_staging(origin, f"state {state}", None if states is None else Path(states))


@contextmanager
def hold_copy_directory(place: Staging) -> Iterator[Path]:
    """Create the directory of a copy, lock it against other processes during the block, and return it.

    Raises StorageError if it cannot be written to."""
    directory = require_local(place.open())
    try:
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as problem:
        words = f"cannot create a copy of the state: {problem.strerror}"
        raise StorageError("SOW-ENG-044", words, place=str(directory)) from problem
    try:
        # One of many tasks creates the copy. If the file system has no locks, the first tasks do so concurrently.
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield directory
    finally:
        os.close(lock)


def make_copy(origin: Origin, at: int | None, place: Staging) -> Origin:
    """Create a copy of the state ``at`` an instant in ``place``. Raises as :func:`hold_copy_directory`."""
    with hold_copy_directory(place) as directory:
        return pin_state(origin, at, directory / "state.sow")


def copy_derived_state(origin: Origin, at: int | None) -> Origin:
    """Create a copy of the state of a view, conflated topic or queue ``at`` an instant (None: now) for all tasks.

    For the present, the cache is refreshed and copied. Raises as :func:`hold_copy_directory`, and what reading the
    state raises.
    """
    instance = origin.build_instance()
    with closing(open_target(instance, origin.target, at)) as source:
        stored = source.stored_source
        if at is None and stored is not None:
            state = f"{stored.meta.lineage.hex()} {stored.meta.digest:x} {stored.meta.records}"
        else:
            # A past state depends on the clock because of expiration, so each query creates its own copy.
            state = os.urandom(8).hex()
        with hold_copy_directory(find_copy_place(origin, f"derived {state}")) as directory:
            path = directory / "state.sow"
            if not path.exists():
                write_source(instance, origin.target, source, origin.now if at is None else at, path)
    return Origin(origin.config, None, path, None, origin.now)


def open_former_source(origin: Origin, planned: PlannedState, place: Staging | None, moved: LockedError) -> Source:
    """Open the ``planned`` state from the journal, after the store failed to show it with the error ``moved``.

    With ``place``, the first task creates a copy there for all tasks. Raises ``moved`` if the journal does not have the
    state, and what reading raises.
    """
    instance = origin.build_instance()
    if planned.until is None or origin.topic is None:
        raise moved
    with open_log(instance) as log:
        if log.lineage != planned.log_lineage:
            raise moved
    # Apply entries up to the txid of the plan, and expiration at its instant.
    at = EntryInstant(origin.now, planned.until)
    try:
        if place is not None:
            try:
                copy = make_copy(origin, at, place)
                return open_planned_source(copy, plan_position(copy), None)
            except StorageError:
                # The directory is not writable, so each task builds the state itself.
                pass
        return open_source(instance, Target(topic=origin.topic.whole_topic), at)
    except MissingError as error:
        raise moved from error


def _latest(origin: Origin) -> int:
    """Return an instant whose state is the present one: timestamps of records may be in the future."""
    with closing(open_present_source(origin.build_instance(), origin.target)) as source:
        behind = source.memtable.last_time if source.memtable is not None else 0
        return max(origin.now, source.meta.last_time, behind)
