"""The staging directory of a write through a data source, and who it belongs to (sowctl-spark(7), WRITING).

Such a write is planned, run and committed in different processes, so no open file can say that it is alive. Its
directory names the virtual machine of the driver instead, and the ports at which others reach it
(:mod:`sowctl.engine.bulk.owner`); once that has ended, the next write removes it, on whichever machine of the cluster
it is planned. So are the copies of states that readings make (:mod:`sowctl.spark.reading.storereader`).
"""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sowctl.config.model import TopicConfig
from sowctl.engine.bulk import remoteruns
from sowctl.engine.bulk.owner import OWNER_FILE_NAME, find_driver_machine, has_ended
from sowctl.engine.bulk.staging import find_staging_path
from sowctl.errors import SowError, StorageError
from sowctl.remote.place import Place, RemotePath, require_local

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.spark.origin import Origin

_PREFIX = "write-"
_MAX_TRIES = 5


class Staging(Struct, frozen=True):
    """One write's directory; ``owner`` says whose it is. Travels to the tasks."""

    directory: Place
    owner: str

    def open(self) -> Place:
        """The directory, made if it is not there. Raises StorageError ``SOW-ENG-044``, and what writing at a URL
        raises."""
        if isinstance(self.directory, RemotePath):
            remoteruns.create_run(self.directory, self.owner)
            return self.directory
        for attempt in range(_MAX_TRIES):
            try:
                self.directory.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
                self.directory.mkdir(mode=0o750, exist_ok=True)
                owner = self.directory / OWNER_FILE_NAME
                if not owner.exists():
                    owner.write_text(self.owner, "utf-8")
                break
            except OSError as problem:
                # Another write may have found the staging place empty and removed it in between.
                if isinstance(problem, FileNotFoundError) and attempt < _MAX_TRIES - 1:
                    continue
                raise StorageError(
                    "SOW-ENG-044",
                    f"cannot create a staging directory: {problem.strerror or problem}",
                    place=str(self.directory),
                ) from problem
        return self.directory

    def remove(self) -> None:
        """Remove everything that was staged, winners and others.

        A task that has not noticed yet that its run is over finds no directory to write to, and cannot make it again;
        what it still writes at a URL goes with the next write's sweep.
        """
        if isinstance(self.directory, RemotePath):
            with suppress(SowError):
                remoteruns.remove_run(self.directory)
            return
        # Renamed first, in one step: tasks that still run find no directory, however long removing the files takes.
        gone = self.directory.with_name(f"{self.directory.name}-{os.urandom(4).hex()}")
        with suppress(OSError):
            self.directory.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
        with suppress(OSError):
            # The place itself goes only if it is empty; another write may be using it.
            self.directory.parent.rmdir()


def find_staging(origin: Origin, name: str | None, place: Place | None) -> Staging:
    """The staging directory of one write: a new one, or with a ``name`` always the same for this driver and topic.

    ``place`` is where instead of beside the instance's files. What drivers left that have ended is removed.
    """
    root = place if place is not None else _find_root(origin)
    owner = find_driver_machine()
    with suppress(OSError, SowError):
        remove_stale_directories(root)
    topic = str(origin.path) if origin.topic is None else f"{origin.topic.message_type}\0{origin.topic.name}"
    # A stream opens its directory anew for each batch and must find the same one, on the driver and in the tasks.
    # Ports come and go, so they are no part of its name.
    who = json.dumps({fact: value for fact, value in owner.items() if fact != "ports"})
    mark = os.urandom(8).hex() if name is None else sha256(f"{who}\0{topic}\0{name}".encode()).hexdigest()[:16]
    return Staging(root / f"{_PREFIX}{mark}", json.dumps(owner))


def _find_root(origin: Origin) -> Place:
    """The staging place of an instance, or of a bare store."""
    if origin.topic is not None:
        instance = origin.build_instance()
        return find_staging_path(instance, _find_placed_topic(instance, origin.topic))
    assert isinstance(origin.path, Path)
    return origin.path.with_name(f"{origin.path.name}.staging")


def _find_placed_topic(instance: Instance, topic: TopicConfig) -> TopicConfig:
    """A topic that has a journal or a file; of what is derived, which has neither, the first of its topics."""
    if topic.derived is None:
        return topic
    if instance.log is not None:
        return replace(topic, journalled=True)
    from sowctl.engine.views.instant import find_entry, list_topic_refs

    found = [find_entry(instance, ref) for ref in list_topic_refs(instance, topic.derived)]
    return next((one for one in found if isinstance(one, TopicConfig) and one.file is not None), topic)


def remove_stale_directories(root: Place) -> None:
    """Remove the directories of drivers that have ended."""
    if isinstance(root, RemotePath):
        remoteruns.remove_ended_runs(root)
        return
    for run in require_local(root).glob(f"{_PREFIX}*"):
        owner = None
        with suppress(OSError, ValueError):
            owner = (run / OWNER_FILE_NAME).read_text("utf-8")
        if has_ended(owner, _age(run)):
            shutil.rmtree(run, ignore_errors=True)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0
