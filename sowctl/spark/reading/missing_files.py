"""Error of a task that does not find the files of the query's plan (sowctl-spark(7), ON A CLUSTER).

The usual error would say that nothing has been published to the topic, which is misleading here. Unlike the jobs
(:mod:`sowctl.spark.jobs.visibility`), a data source cannot check on executors before it reads.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from sowctl.errors import ConfigError, MissingError

_MISSING_CODES = frozenset(("SOW-ENG-010", "SOW-ENG-011", "SOW-STO-020", "SOW-JRN-001", "SOW-JRN-081"))
"""Codes for missing files: a store, a store that cannot be rebuilt either, a journal, an archive at a URL."""
_AT_URL = "SOW-JRN-081"


@contextmanager
def translate_missing() -> Iterator[None]:
    """Translate errors for missing files within the block, in which a task opens its files.

    Raises ConfigError ``SOW-SPK-141`` if a store or journal is missing here that the driver has read; other errors
    pass.
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
