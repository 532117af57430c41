"""Staging at a URL: the directory of a run in an object store or a cluster file system (``sowctl-pipeline(1)``).

URLs have no locks, so a file in the directory identifies the driver (:mod:`sowctl.engine.bulk.owner`). The next run
that stages at the same URL removes the directories of drivers that have ended. Called by
:mod:`sowctl.engine.bulk.staging` for jobs, and for writes through a data source.
"""

from __future__ import annotations

import time
from contextlib import suppress

from sowctl.engine.bulk.owner import OWNER_FILE_NAME, has_ended
from sowctl.errors import MissingError, SowError
from sowctl.remote import remote_files
from sowctl.remote.place import RemotePath

RUN_DIRECTORY_PREFIXES = ("run-", "write-")
"""Prefixes of directory names: of jobs, and of writes through a data source."""


def create_run(run: RemotePath, owner: str) -> None:
    """Create the directory of a run if it is missing. Raises what writing to a URL raises."""
    if remote_files.find_size(run / OWNER_FILE_NAME) is None:
        remote_files.write_file(run / OWNER_FILE_NAME, [owner.encode()])


def remove_run(run: RemotePath) -> None:
    """Remove the directory of a run with all its files. Raises what deleting at a URL raises."""
    remote_files.delete_directory(run)


def remove_ended_runs(root: RemotePath) -> list[RemotePath]:
    """Remove the runs of drivers that have ended, and return their directories. Raises what reading at a URL raises."""
    gone = []
    for run in remote_files.list_directories(root):
        if not run.name.startswith(RUN_DIRECTORY_PREFIXES):
            continue
        found = remote_files.list_files(run, below=True)
        owner = None
        with suppress(MissingError):
            owner = remote_files.read_file(run / OWNER_FILE_NAME).decode("utf-8", "replace")
        # Stores without modification times report 0 for all files; then the run does not count as old.
        youngest = max((one.changed for one in found), default=0.0) or time.time()
        if has_ended(owner, time.time() - youngest):
            with suppress(SowError):
                remove_run(run)
                gone.append(run)
    return gone
