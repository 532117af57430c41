"""Copies of a topic's state that many tasks read, and that no writer changes (sowctl-spark(7), CONSISTENCY).

The option ``pin`` names a file: the first reading makes it, every later one reads it as it is, and its user deletes it.
Other copies are made without a name: where a query is planned, or by the first task that finds that the store has moved
on; those of views, conflated topics and queues always. They go with the session, or after the end of their driver.
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
    """The state ``at`` an instant (None: now) of ``origin``, as the file at ``path``; made if it is not there.

    Raises what snapshots raise.
    """
    if not path.exists():
        try:
            # What is derived shows the present at no instant that could be named: its caches are of the present alone.
            instant = _latest(origin) if at is None and not origin.is_derived else at
            write_snapshot(origin.build_instance(), origin.target, instant, path)
        except RefusedError as error:
            # another planner made the same file at the same time
            if error.code != "SOW-SNP-001":
                raise
    # the configuration stays: message types and functions of expressions come from it
    return Origin(origin.config, None, path, None, origin.now)


def find_copy_place(origin: Origin, state: str) -> Staging:
    """The directory of the copy of a ``state``: the same one for every reading of it by this driver."""
    topic = origin.topic
    if topic is not None:
        # A copy holds some logical topics, and has no record that has expired.
        now = origin.now if can_expire(topic.expiration) else None
        state = f"{state} of {topic.logical} at {now}"
    states = os.environ.get(STATES_VARIABLE)
    return find_staging(origin, f"state {state}", None if states is None else Path(states))


@contextmanager
def hold_copy_directory(place: Staging) -> Iterator[Path]:
    """The directory of a copy, while no other process makes one there. Raises StorageError where nothing may be written
    there."""
    directory = require_local(place.open())
    try:
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as problem:
        words = f"cannot create a copy of the state: {problem.strerror}"
        raise StorageError("SOW-ENG-044", words, place=str(directory)) from problem
    try:
        # One of many tasks makes it; without locks on a file system, each of those that came first.
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield directory
    finally:
        os.close(lock)


def make_copy(origin: Origin, at: int | None, place: Staging) -> Origin:
    """The state ``at`` an instant as a file in ``place``. Raises as :func:`hold_copy_directory`."""
    with hold_copy_directory(place) as directory:
        return pin_state(origin, at, directory / "state.sow")


def copy_derived_state(origin: Origin, at: int | None) -> Origin:
    """The state of a view, conflated topic or queue ``at`` an instant (None: now) as a file that all tasks read.

    The present is that of the cache, which is brought up to date first. Raises as :func:`hold_copy_directory`, and what
    reading it raises.
    """
    instance = origin.build_instance()
    with closing(open_target(instance, origin.target, at)) as source:
        stored = source.stored_source
        if at is None and stored is not None:
            state = f"{stored.meta.lineage.hex()} {stored.meta.digest:x} {stored.meta.records}"
        else:
            # A state of the past depends on the clock where lifetimes end; another query makes its own copy.
            state = os.urandom(8).hex()
        with hold_copy_directory(find_copy_place(origin, f"derived {state}")) as directory:
            path = directory / "state.sow"
            if not path.exists():
                write_source(instance, origin.target, source, origin.now if at is None else at, path)
    return Origin(origin.config, None, path, None, origin.now)


def open_former_source(origin: Origin, planned: PlannedState, place: Staging | None, moved: LockedError) -> Source:
    """The ``planned`` state from the journal, where the store does not show it any more, as ``moved`` says.

    With a ``place`` it is made there, once for all tasks. Raises ``moved`` where the journal has not got the state, and
    what reading raises.
    """
    instance = origin.build_instance()
    if planned.until is None or origin.topic is None:
        raise moved
    with open_log(instance) as log:
        if log.lineage != planned.log_lineage:
            raise moved
    # Entries up to the txid of the plan, and lifetimes at its instant.
    at = EntryInstant(origin.now, planned.until)
    try:
        if place is not None:
            try:
                copy = make_copy(origin, at, place)
                return open_planned_source(copy, plan_position(copy), None)
            except StorageError:
                # Where nothing may be written, each task makes the state for itself.
                pass
        return open_source(instance, Target(topic=origin.topic.whole_topic), at)
    except MissingError as error:
        raise moved from error


def _latest(origin: Origin) -> int:
    """An instant that shows the present: stamps may lie in the future."""
    with closing(open_present_source(origin.build_instance(), origin.target)) as source:
        behind = source.memtable.last_time if source.memtable is not None else 0
        return max(origin.now, source.meta.last_time, behind)
