"""Error of a task that does not find the files of the query's plan (sowctl-spark(7), ON A CLUSTER).

Said as such, the missing file would be one that nobody has published to yet: the words for a user's mistake, which this
is not. A data source cannot ask executors before it reads, as the jobs do (:mod:`sowctl.spark.jobs.visibility`).
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from sowctl.errors import ConfigError, MissingError

_MISSING_CODES = frozenset(("SOW-ENG-010", "SOW-ENG-011", "SOW-STO-020", "SOW-JRN-001", "SOW-JRN-081"))
"""Codes of what has no file at all: a store, one that cannot be rebuilt either, a journal, an archive at a URL."""
_AT_URL = "SOW-JRN-081"


@contextmanager
def translate_missing() -> Iterator[None]:
    """Translate errors of missing files within the block, around what a task opens.

    Raises ConfigError ``SOW-SPK-141`` for a store or journal that is missing here and was there; everything else that
    is raised passes.
    """
    try:
        yield
    except MissingError as error:
        if error.code not in _MISSING_CODES:
            raise
        raise ConfigError(
            "SOW-SPK-141",
            f"the task on {socket.gethostname()} does not see the files that the driver used for "
            f"planning: {error.message}",
            place=error.place,
            hint="give executors the same endpoint (AWS_ENDPOINT_URL) and credentials as the driver"
            if error.code == _AT_URL
            else "put the files of the instance on a file system that all machines mount at the same "
            "path, or read a journal from its archive at a URL (option archive); pipeline jobs "
            "also accept a URL for --staging",
        ) from error
