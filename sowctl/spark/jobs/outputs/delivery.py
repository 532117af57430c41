"""Data sets and stores to URLs that Spark itself cannot write, and inputs from there.

Called by what writes data sets and stores, and by the job that loads. Where Hadoop knows the scheme of a URL, Spark
reads and writes there as ever. Elsewhere the files are made in a directory that driver and executors share, so that
they are the same whatever the place, and sent through :mod:`sowctl.remote.opening`, a task for each. ``_SUCCESS`` comes
last: without it a data set is not whole. ``sowctl-pipeline(1)``, OUTPUT.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from sowctl.errors import RefusedError, StorageError, UsageError
from sowctl.remote import opening
from sowctl.remote.place import RemotePath, is_file_url, is_url, local_path, url_of
from sowctl.spark.jobs.tasks import attempt, run
from sowctl.spark.jvm.masters import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sowctl.engine.bulk.staging import Area
    from sowctl.spark.jobs.outputs.place import Output

DONE = "_SUCCESS"


def hadoop_knows(spark: SparkSession, url: str) -> bool:
    """Whether a file system of Hadoop takes a URL, in the session's virtual machine."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    scheme = url.partition("://")[0]
    try:
        jvm: Any = spark._jvm
        context: Any = spark.sparkContext._jsc
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, context.hadoopConfiguration())
    except Py4JError:
        # It knows no class for the scheme, or has it by name and not by its jar.
        return False
    return True


@contextmanager
def delivered(spark: SparkSession, output: Output) -> Iterator[Output]:
    """The output to write to in the block: itself, or a local one that is sent to it at the end of the block.

    Raises RefusedError ``SOW-SPK-064`` where something is there, UsageError ``SOW-SPK-140`` where no directory is
    known that executors share, and what writing at a URL raises.
    """
    if is_file_url(output.path):
        # Hadoop takes percent signs as they are, and a store is made at a path.
        path = str(local_path(output.path))
        yield replace(output, path=path if output.kind == "sow" else f"file://{path}", format=output.kind)
        return
    if not is_url(output.path) or (output.kind != "sow" and hadoop_knows(spark, output.path)):
        yield output
        return
    target = url_of(output.path)
    there = opening.exists(target)
    if there and not output.force:
        raise RefusedError("SOW-SPK-064", "the output exists already", place=str(target), hint="--force replaces it")
    with _scratch(spark, output) as directory:
        # The ending of a name can tell the format.
        made = directory / (target.name or "output")
        yield replace(output, path=str(made), format=output.kind)
        if there:
            opening.delete_all(target)
            opening.delete(target)
        if made.is_file():
            _Send(str(made.parent), target.up())(made.name)
            return
        names = sorted(str(one.relative_to(made)) for one in made.rglob("*") if one.is_file() and one.suffix != ".crc")
        send = _Send(str(made), target)
        run(spark, [name for name in names if name != DONE], send, what=f"send {target}")
        if DONE in names:
            send(DONE)


@contextmanager
def _scratch(spark: SparkSession, output: Output) -> Iterator[Path]:
    """A directory that is there until the end of the block."""
    root = output.staging
    if root is None and not is_local(spark.sparkContext.master or ""):
        raise UsageError(
            "SOW-SPK-140",
            f"Spark has no file system for this URL, and no directory is named in which executors can write: "
            f"{url_of(output.path)}",
            hint="--staging names a directory that driver and executors share; or give Spark the jars for the scheme",
        )
    if root is not None:
        Path(root).mkdir(parents=True, exist_ok=True)
    try:
        directory = Path(tempfile.mkdtemp(prefix="sowctl-output-", dir=root))
    except OSError as error:
        raise StorageError(
            "SOW-SPK-060",
            f"a staged file cannot be written: {error.strerror or error}",
            place=str(root or tempfile.gettempdir()),
            hint="make room there, or give another --staging directory",
        ) from error
    try:
        # Executors may run as somebody else of the same group.
        directory.chmod(0o770)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class _Send:
    """Sends a file of a directory, on an executor."""

    def __init__(self, root: str, target: RemotePath) -> None:
        self.root = root
        self.target = target

    def __call__(self, name: str) -> int:
        return opening.send(Path(self.root) / name, self.target / name)


def brought(spark: SparkSession, files: Sequence[str], area: Area) -> list[str]:
    """Files at URLs as files of a staging directory, which Spark reads; in the same order, local ones as they are.

    Raises UsageError ``SOW-SPK-159`` where executors share no directory.
    """
    if area.shared is not None and not is_local(spark.sparkContext.master or ""):
        url = next(str(url_of(file)) for file in files if is_url(file))
        raise UsageError(
            "SOW-SPK-159",
            f"Spark has no file system for this URL, and staging at a URL gives it no directory for the input: {url}",
            hint="give a --staging directory that driver and executors share, or Spark the jars for the scheme; NDJSON "
            "needs neither",
        )
    fetch = _Fetch(str(area.directory))
    wanted = [(number, file) for number, file in enumerate(files) if is_url(file)]
    here = dict(zip((number for number, _ in wanted), run(spark, wanted, fetch, what="fetch the input"), strict=True))
    return [here.get(number, file) for number, file in enumerate(files)]


class _Fetch:
    """Brings a file from a URL, on an executor; the name tells its number and what attempt it was."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def __call__(self, item: tuple[int, str]) -> str:
        number, url = item
        place = url_of(url)
        # The ending stays: it tells Spark how the file is packed.
        path = Path(self.directory) / f"input-{number}-{attempt()}-{place.name}"
        opening.fetch(place, path)
        return str(path)
