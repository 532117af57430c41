"""Staging at a URL: the directory of a run in an object store or a file system of a cluster (``sowctl-pipeline(1)``).

There are no locks there, so a file in it names the driver (:mod:`sowctl.engine.bulk.owner`); a run whose driver has
ended is removed by the next one that stages at the same URL. Called by :mod:`sowctl.engine.bulk.staging` for jobs, and
by what writes through a data source.
"""

from __future__ import annotations

import time
from contextlib import suppress

from sowctl.engine.bulk.owner import OWNER_FILE_NAME, has_ended
from sowctl.errors import MissingError, SowError
from sowctl.remote import remote_files
from sowctl.remote.place import RemotePath

RUN_DIRECTORY_PREFIXES = ("run-", "write-")
"""How names of the directories begin: of jobs, and of writes through a data source."""


def create_run(run: RemotePath, owner: str) -> None:
    """Make a run's directory, unless it is there. Raises what writing at a URL raises."""
    if remote_files.find_size(run / OWNER_FILE_NAME) is None:
        remote_files.write_file(run / OWNER_FILE_NAME, [owner.encode()])


def remove_run(run: RemotePath) -> None:
    """Remove a run with all that its tasks have left. Raises what removing at a URL raises."""
    remote_files.delete_directory(run)


def remove_ended_runs(root: RemotePath) -> list[RemotePath]:
    """Remove the runs of drivers that have ended; returns them. Raises what reading at a URL raises."""
    gone = []
    for run in remote_files.list_directories(root):
        if not run.name.startswith(RUN_DIRECTORY_PREFIXES):
            continue
        found = remote_files.list_files(run, below=True)
        owner = None
        with suppress(MissingError):
            owner = remote_files.read_file(run / OWNER_FILE_NAME).decode("utf-8", "replace")
        # A store that does not tell when files were written says 0 for all: then nothing counts as old.
        youngest = max((one.changed for one in found), default=0.0) or time.time()
        if has_ended(owner, time.time() - youngest):
            with suppress(SowError):
                remove_run(run)
                gone.append(run)
    return gone
