"""The staging directory of a write through a data source, and its owner (sowctl-spark(7), WRITING).

Different processes plan, run and commit such a write, so no lock can show that it is in progress. Instead, a file in
the directory identifies the virtual machine of the driver and the ports at which it is reachable
(:mod:`sowctl.engine.bulk.owner`). After that has ended, the next write removes the directory, on any machine of the
cluster. Temporary copies of states (:mod:`sowctl.spark.reading.storereader`) are removed in the same way.
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
    """The directory of one write; ``owner`` identifies its driver. Sent to the tasks."""

    directory: Place
    owner: str

    def open(self) -> Place:
        """Create the directory if it is missing, and return it. Raises StorageError ``SOW-ENG-044``, and what writing
        to a URL raises."""
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
                # Another write may just have removed the empty parent directory.
                if isinstance(problem, FileNotFoundError) and attempt < _MAX_TRIES - 1:
                    continue
                raise StorageError(
                    "SOW-ENG-044",
                    f"cannot create a staging directory: {problem.strerror or problem}",
                    place=str(self.directory),
                ) from problem
        return self.directory

    def remove(self) -> None:
        """Remove all staged files, including those of attempts that were not committed.

        A task that is still running finds no directory to write to, and does not create it again. Files that it writes
        to a URL are removed by a later write.
        """
        if isinstance(self.directory, RemotePath):
            with suppress(SowError):
                remoteruns.remove_run(self.directory)
            return
        # Rename the directory first, so that running tasks do not find it while its files are being removed.
        gone = self.directory.with_name(f"{self.directory.name}-{os.urandom(4).hex()}")
        with suppress(OSError):
            self.directory.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
        with suppress(OSError):
            # Remove the parent only if it is empty, because another write may use it.
            self.directory.parent.rmdir()


def find_staging(origin: Origin, name: str | None, place: Place | None) -> Staging:
    """Return the staging directory of one write; with a ``name``, it is always the same for this driver and topic.

    ``place`` replaces the default parent directory next to the instance's files. Directories of drivers that have ended
    are removed.
    """
    root = place if place is not None else _find_root(origin)
    owner = find_driver_machine()
    with suppress(OSError, SowError):
        remove_stale_directories(root)
    topic = str(origin.path) if origin.topic is None else f"{origin.topic.message_type}\0{origin.topic.name}"
    # For each batch of a stream, driver and tasks compute the name again and must get the same one. Ports change over
    # time, so they are not part of the name.
    who = json.dumps({fact: value for fact, value in owner.items() if fact != "ports"})
    mark = os.urandom(8).hex() if name is None else sha256(f"{who}\0{topic}\0{name}".encode()).hexdigest()[:16]
    return Staging(root / f"{_PREFIX}{mark}", json.dumps(owner))


def _find_root(origin: Origin) -> Place:
    """Return the parent of staging directories for an instance, or for a store without configuration."""
    if origin.topic is not None:
        instance = origin.build_instance()
        return find_staging_path(instance, _find_placed_topic(instance, origin.topic))
    assert isinstance(origin.path, Path)
    return origin.path.with_name(f"{origin.path.name}.staging")


def _find_placed_topic(instance: Instance, topic: TopicConfig) -> TopicConfig:
    """Return a topic with a journal or file: the topic itself; for a derived one, which has neither, a source topic."""
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
