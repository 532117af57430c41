"""Staging: what the tasks of a bulk write leave for the one commit of its driver (``sowctl-pipeline(1)``, STAGING).

A run has a directory of its own, beside the journal or the store, with a lock file that its driver holds. Tasks write
segments in it, each attempt under its own name (:mod:`sowctl.engine.bulk.task`); the driver commits those of the
attempts that won (:mod:`sowctl.engine.bulk.commit`) and removes the directory. A directory whose lock is free belongs
to a driver that died: the next run removes it. Where tasks share no file system with the driver, what they leave goes
to a URL (:mod:`sowctl.engine.bulk.remoteruns`), and the driver has a directory of its own for what it fetches.
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
    """The plan by which tasks stage messages of one topic; travels to the executors.

    ``place`` is the run's directory, which they share with the driver. ``now`` microseconds UTC, for all tasks.
    ``keep_rejects``: refused messages are written down, all of them. ``stop``: the first refused message ends a task's
    work, because the run will write nothing then.
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
    """The result of one staging attempt of a task. Of the refused messages the first few are in ``samples``.

    ``first`` is the order of its first message, refused or not.
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
    """Raises UsageError for a Pattern topic and the topics in it, which are not loaded in bulk."""
    if topic.pattern is not None:
        raise UsageError(
            "SOW-ENG-047",
            f"topic {topic.name!r} is a Pattern topic or one of its logical topics; bulk loads "
            "require a topic with its own store",
            hint="use sowctl publish for the topics of a Pattern",
        )


class StagingArea(DescribedStruct):
    """A run's staging directory, held by the driver. Made by :func:`hold_staging_area`.

    ``shared`` is the place at a URL where tasks write and read instead; then ``directory`` is the driver's alone.
    """

    directory: Path
    topic: TopicConfig
    instance: Instance
    shared: RemotePath | None = None

    @property
    def place(self) -> Place:
        """The place where tasks write and read."""
        return self.directory if self.shared is None else self.shared

    def fetch_attempts(self, staged: Iterable[StagedAttempt]) -> None:
        """Bring what these attempts have left at a URL into the directory, their refused messages too.

        Raises DamageError ``SOW-ENG-041`` where a file is missing, and what reading at a URL raises.
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
        """Build the plan that is sent to the tasks. Raises UsageError for options that do not fit the topic."""
        if operation not in OPERATIONS:
            raise UsageError("SOW-ENG-043", f"unknown operation {operation!r}", hint="use publish, delta or delete")
        require_loadable_topic(self.topic)
        # Tasks run at once and see no other's messages, and a chain depends on the order of all of them.
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
    """A staging directory for one run; it is removed at the end, and so are those that dead drivers left.

    ``directory`` is where to make it instead of beside the instance's files, a URL perhaps; executors must be able to
    write there. Raises StorageError ``SOW-ENG-044``, and what reading and writing at a URL raises.
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
    """Find the staging directory of an instance: beside its journal, else beside the topic's store."""
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
    """A directory in a URL that names this process as its owner, and one of the driver's own; both go at the end."""
    from sowctl.engine.bulk import remoteruns
    from sowctl.engine.bulk.owner import describe_driver

    remoteruns.remove_ended_runs(root)
    run = root / f"{_RUN}{instance.random(8).hex()}"
    with create_own_directory(instance) as own:
        remoteruns.create_run(run, describe_driver())
        try:
            yield run, own
        finally:
            # The next run removes what this one cannot: the result does not depend on it.
            with suppress(SowError):
                remoteruns.remove_run(run)


@contextmanager
def create_own_directory(instance: Instance) -> Iterator[Path]:
    """A temporary directory of this process; those that dead ones left are removed. Raises OSError."""
    # A lock that ends with the process keeps each from the others, as for staging on this machine.
    with _open_locked_directory(Path(tempfile.gettempdir()) / f"sowctl-{os.getuid()}.staging", instance) as own:
        yield own


@contextmanager
def _open_locked_directory(root: Path, instance: Instance) -> Iterator[Path]:
    """A directory in ``root`` whose lock is held; at the end it goes, and ``root`` with it if it was the last one."""
    with ExitStack() as held:
        run = _create_locked_directory(root, instance, held)
        try:
            yield run
        finally:
            shutil.rmtree(run, ignore_errors=True)
            held.close()
            with suppress(OSError), _hold_gate(root) as gate:
                # Under the gate, so that no run begins in a directory that is being removed.
                if all(entry.name == _GATE for entry in root.iterdir()):
                    gate.unlink()
                    root.rmdir()


def _create_locked_directory(root: Path, instance: Instance, held: ExitStack) -> Path:
    """Under the gate: sweep what is stale, make a directory, and lock it until ``held`` is closed."""
    with _hold_gate(root, instance):
        # The lock of a live driver's directory is held, so only those of dead drivers go. Directory and lock are made
        # under the gate: between the two steps a directory looks like one that a dead driver left.
        remove_stale_runs(root)
        while True:
            run = root / f"{_RUN}{instance.random(8).hex()}"
            try:
                run.mkdir(mode=0o750)
                break
            except FileExistsError:
                continue
        # Closed in programs that are started: one that lives on would hold the lock of a dead driver.
        lock = os.open(run / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        held.callback(os.close, lock)
        # The kernel lets go of the lock when the driver dies, however it dies: no time limit and no process id is
        # needed.
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(lock, f"{instance.holder} {os.getpid()}\n".encode())
        return run


@contextmanager
def _hold_gate(root: Path, instance: Instance | None = None) -> Iterator[Path]:
    """Hold the gate file of a staging root, so that no other run sweeps a directory that is being made."""
    path = root / _GATE
    while True:
        if instance is not None:
            make_directories(root, instance.seam)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            # The last run removes the gate file. A lock on a file that has no name any more excludes no other process:
            # try again.
            if path.exists() and path.stat().st_ino == os.fstat(fd).st_ino:
                yield path
                return
        finally:
            os.close(fd)


def remove_stale_runs(root: Path) -> list[Path]:
    """Remove the runs of drivers that are gone; returns their directories. The gate is held."""
    gone = []
    for run in sorted(root.glob(f"{_RUN}*")):
        try:
            # O_CREAT, because a driver may have died between making the directory and its lock file.
            fd = os.open(run / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError:
            continue
        try:
            # If this fails, the driver lives, and its directory stays.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(run, ignore_errors=True)
            gone.append(run)
        except OSError:
            pass
        finally:
            os.close(fd)
    return gone
