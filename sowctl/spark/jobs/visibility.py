"""Check before a job that executors see the driver's files and run its code (``sowctl-spark(7)``, ON A CLUSTER).

If a path is missing on a worker, or refers to another copy, a job fails midway or returns wrong results. So executors
compare the first bytes of some files, and a token that the driver has written to the staging directory. Called by the
jobs that read an instance's files in tasks; with a local master it does nothing.
"""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.errors import ConfigError, SowError
from sowctl.remote.place import Place, RemotePath
from sowctl.spark.errors import translate_errors
from sowctl.spark.jobs.tasks import describe_stages, run_tasks
from sowctl.spark.jvm.masters import is_local
from sowctl.spark.samecode import identify_code, require_code

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sowctl.engine.instance import Instance

HEAD_BYTES = 4096
"""Bytes of a file that are compared: the header of a journal file, which identifies it."""
TASKS_PER_PROCESSOR = 2
"""Tasks per processor of the cluster; more than one, because Spark chooses the executor of each task."""
TOKEN_FILE = "seen-by-executors"
JOURNAL, STORE = "a journal file", "a store"


class Probe(Struct, frozen=True):
    """A file, and the digest of its first ``size`` bytes on the driver. ``what`` describes the file in messages."""

    what: str
    place: Place
    size: int
    digest: str


class FileVisibility(Struct, frozen=True):
    """Visibility of an instance's journal and stores to executors. If staging is at a URL, the driver reads the files
    that they do not see."""

    journal: bool = True
    stores: bool = True


class UnseenFile(Struct, frozen=True):
    """A difference that an executor found for a probe."""

    host: str
    probe: Probe
    problem: str


def build_probe(what: str, place: Place) -> Probe | None:
    """Return a probe of a file; None if the driver cannot read it, which is reported when the job reads it."""
    try:
        head = _head(place, HEAD_BYTES)
    except (OSError, SowError):
        return None
    return Probe(what, place, len(head), _digest(head))


def list_probes(instance: Instance, shared: Place | None = None) -> list[Probe]:
    """Return probes of an instance's journal and stores, and of a token written to the directory ``shared``."""
    found: list[Probe | None] = []
    log, config = instance.log, instance.config
    if log is not None and config is not None:
        from sowctl.journal.listing import list_files

        files = [paths[0] for paths in list_files(log.directory, config.name, log.local_archive).values()]
        # The oldest file may be in the archive; the newest is in the journal directory.
        found += [build_probe(JOURNAL, path) for path in dict.fromkeys((*files[:1], *files[-1:]))]
        if isinstance(log.archive_directory, RemotePath):
            from sowctl.journal.archive.manifest import find_manifest

            if (known := find_manifest(log.archive_directory, config.name)) is not None:
                found.append(build_probe("an archive file", log.archive_directory / known.segments[0].name))
    # The first bytes of a store change with each commit, so the probe only checks that the file exists.
    found += [
        Probe(STORE, path, 0, _digest(b""))
        for path in dict.fromkeys(topic.file for topic in instance.topics if topic.file is not None)
        if path.is_file()
    ]
    if shared is not None:
        token, content = shared / TOKEN_FILE, os.urandom(32)
        if isinstance(token, RemotePath):
            from sowctl.remote import remote_files

            remote_files.write_file(token, [content])
        else:
            token.write_bytes(content)
        # The digest is that of the content written. It is not read back, to detect storage that shows a file only to
        # its writer.
        found.append(Probe("the staging directory", token, len(content), _digest(content)))
    return [one for one in found if one is not None]


def require_visibility(spark: SparkSession, instance: Instance, shared: Place | None = None) -> FileVisibility:
    """Raise ConfigError ``SOW-SPK-141`` if an executor does not see the same files as the driver, ``SOW-SPK-166`` if it
    runs other code.

    If ``shared`` is at a URL, executors need not see the files of the instance. Returns which ones they see.
    """
    if is_local(spark.sparkContext.master or ""):
        return FileVisibility()
    count = max(2, spark.sparkContext.defaultParallelism * TASKS_PER_PROCESSOR)
    describe_stages(spark, "check the release of the executors")
    with translate_errors():
        # Not run_tasks(): it pickles functions of this package by name, and an executor may have another version or
        # none.
        spark.sparkContext.parallelize([identify_code()] * count, count).foreach(require_code)
    probes = list_probes(instance, shared)
    if not probes:
        return FileVisibility()
    found = run_tasks(spark, [tuple(probes)] * count, find_unseen, what="check the files that executors see")
    unseen = [one for some in found for one in some]
    if not isinstance(shared, RemotePath):
        raise_unseen(unseen)
    own = {JOURNAL, STORE}
    raise_unseen(one for one in unseen if one.probe.what not in own)
    missed = {one.probe.what for one in unseen}
    if missed:
        instance.notify(f"executors do not see {' and '.join(sorted(missed))}: the driver reads these files")
    return FileVisibility(JOURNAL not in missed, STORE not in missed)


def find_unseen(probes: Sequence[Probe]) -> list[UnseenFile]:
    """Return the probes whose files are missing, unreadable or different in this process."""
    unseen = []
    for one in probes:
        try:
            head = _head(one.place, one.size)
        except FileNotFoundError:
            problem = "the file is missing"
        except (OSError, SowError) as error:
            problem = f"the file cannot be read: {getattr(error, 'strerror', None) or error}"
        else:
            if len(head) == one.size and _digest(head) == one.digest:
                continue
            problem = "the file differs in its first bytes"
        unseen.append(UnseenFile(socket.gethostname(), one, problem))
    return unseen


def raise_unseen(found: Iterable[UnseenFile]) -> None:
    """Raise ConfigError ``SOW-SPK-141`` for the first file that was not seen; the message names all its hosts."""
    unseen = list(found)
    if not unseen:
        return
    first = unseen[0]
    hosts = sorted({one.host for one in unseen if one.probe == first.probe})
    raise ConfigError(
        "SOW-SPK-141",
        f"on {', '.join(hosts)}, executors do not see {first.probe.what} as the driver does: {first.problem}",
        place=str(first.probe.place),
        hint="give executors the same library, credentials and endpoint (AWS_ENDPOINT_URL) as the driver"
        if isinstance(first.probe.place, RemotePath)
        else "put the files of the instance, and the --staging directory, on a file system that all "
        "machines mount at the same path, or use a URL for --staging",
    )


def _head(place: Place, size: int) -> bytes:
    if isinstance(place, RemotePath):
        from sowctl.remote.remote_files import RemoteFile

        file = RemoteFile(place)
        try:
            return bytes(file.read(0, size))
        finally:
            file.close()
    with place.open("rb") as stream:
        return stream.read(size)


def _digest(head: bytes) -> str:
    return hashlib.sha256(head).hexdigest()
