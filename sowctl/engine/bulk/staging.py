"""Staging: files that the tasks of a bulk write pass to the commit of its driver (``sowctl-pipeline(1)``, STAGING).

Each run has a separate directory next to the journal or store, with a lock file that its driver holds. Tasks write
segments to it, each attempt under a unique name (:mod:`sowctl.engine.bulk.task`). The driver commits those of the
successful attempts (:mod:`sowctl.engine.bulk.commit`) and removes the directory. If the lock of a directory is free,
its driver has died, and the next run removes it. If tasks do not share a file system with the driver, they stage at a
URL (:mod:`sowctl.engine.bulk.remoteruns`), and the driver downloads their files to a local directory.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from msgspec import Struct

from sowctl.directories import make_directories
from sowctl.engine.bulk.segments import SegmentInfo
from sowctl.engine.instance import Instance
from sowctl.engine.options import PublishOptions
from sowctl.engine.reports import Rejected
from sowctl.engine.writing.prepare import Preparer
from sowctl.errors import DamageError, MissingError, SowError, StorageError, UsageError
from sowctl.remote.place import Place, RemotePath
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from sowctl.config.model import InstanceConfig, TopicConfig

Operation = Literal["publish", "delta", "delete"]
OPERATIONS = get_args(Operation)
_GATE, _LOCK, _RUN = "gate", "lock", "run-"


class StagePlan(DescribedStruct, frozen=True):
    """The plan by which tasks stage messages of one topic; sent to the executors.

    ``place`` is the run's directory, which they share with the driver. ``now`` is the time of all tasks in microseconds
    UTC. ``keep_rejects``: write all rejected messages to files. ``stop``: a task stops at the first rejected message,
    because the run will publish nothing.
    """

    place: Place
    config: InstanceConfig
    topic: TopicConfig
    options: PublishOptions
    operation: Operation
    now: int
    keep_rejects: bool = False
    stop: bool = False


class StagedAttempt(Struct, frozen=True):
    """The result of one staging attempt of a task. ``samples`` are the first few rejected messages.

    ``first`` is the position of its first message, rejected or not, in the input order.
    """

    attempt: str
    segments: tuple[SegmentInfo, ...] = ()
    messages: int = 0
    blank: int = 0
    refused: int = 0
    samples: tuple[Rejected, ...] = ()
    rejects: str | None = None
    deltas: bool = False
    first: tuple[int, int] = (-1, -1)


def require_loadable_topic(topic: TopicConfig) -> None:
    """Raise UsageError ``SOW-ENG-047`` for a Pattern topic or a topic in it, which cannot be loaded in bulk."""
    if topic.pattern is not None:
        raise UsageError(
            "SOW-ENG-047",
            f"topic {topic.name!r} is a Pattern topic or one of its logical topics; bulk loads "
            "require a topic with its own store",
            hint="use sowctl publish for the topics of a Pattern",
        )


class StagingArea(DescribedStruct):
    """The staging directory of a run, locked by the driver. Created by :func:`hold_staging_area`.

    ``shared`` is the directory at a URL that tasks use instead; ``directory`` is then used only by the driver.
    """

    directory: Path
    topic: TopicConfig
    instance: Instance
    shared: RemotePath | None = None

    @property
    def place(self) -> Place:
        """The directory or URL that tasks use."""
        return self.directory if self.shared is None else self.shared

    def fetch_attempts(self, staged: Iterable[StagedAttempt]) -> None:
        """Download the segments and rejected messages of these attempts from the URL, if any, to the directory.

        Raises DamageError ``SOW-ENG-041`` if a file is missing, and what reading at a URL raises.
        """
        if self.shared is None:
            return
        from sowctl.remote import remote_files

        for one in staged:
            for name in [info.name for info in one.segments] + ([one.rejects] if one.rejects is not None else []):
                try:
                    remote_files.download_file(self.shared / name, self.directory / name)
                except MissingError as error:
                    if error.code != "SOW-RMT-002":
                        raise
                    raise DamageError(
                        "SOW-ENG-041",
                        "a staged segment is missing, although its task wrote it",
                        place=str(self.shared / name),
                        hint="nothing was published; run the job again, and check whether another program removes "
                        "files",
                    ) from error

    def build_plan(
        self,
        options: PublishOptions,
        *,
        operation: Operation = "publish",
        keep_rejects: bool = False,
        now: int | None = None,
    ) -> StagePlan:
        """Build the plan that is sent to the tasks. Raises UsageError if the topic or its options do not allow it."""
        if operation not in OPERATIONS:
            raise UsageError("SOW-ENG-043", f"unknown operation {operation!r}", hint="use publish, delta or delete")
        require_loadable_topic(self.topic)
        # Tasks run concurrently and do not see messages of other tasks, but chains depend on the order of all messages.
        if Preparer(self.instance, self.topic, options).keys.chains is not None:
            raise UsageError(
                "SOW-ENG-046",
                f"topic {self.topic.name!r} has keys from chains: each key depends on earlier messages",
                hint="use sowctl publish",
            )
        config = self.instance.config
        assert config is not None
        moment = self.instance.now if now is None else now
        stop = options.on_error != "skip"
        return StagePlan(self.place, config, self.topic, options, operation, moment, keep_rejects, stop)


@contextmanager
def hold_staging_area(
    instance: Instance, topic: TopicConfig, *, directory: Place | None = None
) -> Iterator[StagingArea]:
    """Create a staging directory for one run, lock it, and remove it at the end; first remove those of dead drivers.

    ``directory``, a path or URL, replaces the default parent directory next to the instance's files; executors must be
    able to write to it. Raises StorageError ``SOW-ENG-044``, and what reading and writing at a URL raises.
    """
    if isinstance(directory, RemotePath):
        with _open_remote_directory(directory, instance) as (shared, own):
            yield StagingArea(own, topic, instance, shared)
        return
    root = directory if directory is not None else find_staging_path(instance, topic)
    with ExitStack() as held:
        try:
            run = held.enter_context(_open_locked_directory(root, instance))
        except OSError as problem:
            raise StorageError(
                "SOW-ENG-044", f"cannot create a staging directory: {problem.strerror or problem}", place=str(root)
            ) from problem
        yield StagingArea(run, topic, instance)


def find_staging_path(instance: Instance, topic: TopicConfig) -> Path:
    """Return the parent of staging directories: in the journal's directory, otherwise next to the topic's store.

    Raises MissingError ``SOW-ENG-045`` if the topic has neither a journal nor a file."""
    assert instance.config is not None
    name = f"{instance.config.name}.staging"
    if topic.journalled and instance.log is not None:
        return instance.log.directory / name
    if topic.file is None:
        raise MissingError(
            "SOW-ENG-045",
            f"topic {topic.name!r} has neither a file nor a journal as a location for staged messages",
            hint="give a staging directory",
        )
    return topic.file.parent / name


@contextmanager
def _open_remote_directory(root: RemotePath, instance: Instance) -> Iterator[tuple[RemotePath, Path]]:
    """Create a directory at a URL with this process as owner, and a local one; remove both at the end."""
    from sowctl.engine.bulk import remoteruns
    from sowctl.engine.bulk.owner import describe_driver

    remoteruns.remove_ended_runs(root)
    run = root / f"{_RUN}{instance.random(8).hex()}"
    with create_own_directory(instance) as own:
        remoteruns.create_run(run, describe_driver())
        try:
            yield run, own
        finally:
            # If this fails, the next run removes the directory; the result does not depend on it.
            with suppress(SowError):
                remoteruns.remove_run(run)


@contextmanager
def create_own_directory(instance: Instance) -> Iterator[Path]:
    """Create a temporary directory for this process; first remove those of dead processes. Raises OSError."""
    # As for local staging, a lock that ends with the process protects the directory from other processes.
    with _open_locked_directory(Path(tempfile.gettempdir()) / f"sowctl-{os.getuid()}.staging", instance) as own:
        yield own


@contextmanager
def _open_locked_directory(root: Path, instance: Instance) -> Iterator[Path]:
    """Create and lock a directory in ``root``; at the end remove it, and also ``root`` if it was the last one."""
    with ExitStack() as held:
        run = _create_locked_directory(root, instance, held)
        try:
            yield run
        finally:
            shutil.rmtree(run, ignore_errors=True)
            held.close()
            with suppress(OSError), _hold_gate(root) as gate:
                # Under the gate, so that no run starts in a directory that is being removed.
                if all(entry.name == _GATE for entry in root.iterdir()):
                    gate.unlink()
                    root.rmdir()


def _create_locked_directory(root: Path, instance: Instance, held: ExitStack) -> Path:
    """Remove stale directories, then create a directory and lock it until ``held`` is closed."""
    with _hold_gate(root, instance):
        # Directories of living drivers are locked, so only those of dead drivers are removed. Directory and lock are
        # created under the gate, because in between the directory looks like that of a dead driver.
        remove_stale_runs(root)
        while True:
            run = root / f"{_RUN}{instance.random(8).hex()}"
            try:
                run.mkdir(mode=0o750)
                break
            except FileExistsError:
                continue
        # O_CLOEXEC, because a child process that outlives the driver would otherwise hold its lock.
        lock = os.open(run / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        held.callback(os.close, lock)
        # The kernel releases the lock when the driver dies, so no timeout or process id is needed.
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(lock, f"{instance.holder} {os.getpid()}\n".encode())
        return run


@contextmanager
def _hold_gate(root: Path, instance: Instance | None = None) -> Iterator[Path]:
    """Lock the gate file of a staging root, so that no other run removes a directory that is being created."""
    path = root / _GATE
    while True:
        if instance is not None:
            make_directories(root, instance.seam)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            # The last run removes the gate file. A lock on an unlinked file excludes no other process, so try again.
            if path.exists() and path.stat().st_ino == os.fstat(fd).st_ino:
                yield path
                return
        finally:
            os.close(fd)


def remove_stale_runs(root: Path) -> list[Path]:
    """Remove the runs of dead drivers and return their directories. The caller holds the gate."""
    gone = []
    for run in sorted(root.glob(f"{_RUN}*")):
        try:
            # O_CREAT, because a driver may have died between creating the directory and its lock file.
            fd = os.open(run / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError:
            continue
        try:
            # If this fails, the driver is alive, and its directory remains.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(run, ignore_errors=True)
            gone.append(run)
        except OSError:
            pass
        finally:
            os.close(fd)
    return gone
