"""Outputs and inputs at URLs: which of them Spark reaches by itself, stores that are sent, files that are fetched.

Called by what writes data sets and stores, and by the job that loads. Where Hadoop knows the scheme of a URL, Spark
reads and writes there as ever. Elsewhere tasks write data sets through the door to URLs
(:mod:`sowctl.spark.jobs.outputs.remote_datasets`), and a store is made by the driver and sent. ``sowctl-pipeline(1)``,
OUTPUT.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sowctl.errors import StorageError, UsageError
from sowctl.remote import remote_files
from sowctl.remote.place import is_file_url, is_url, parse_local_path, parse_url
from sowctl.spark.jobs.outputs.lakes import LAKE_PACKAGES
from sowctl.spark.jobs.outputs.remote_datasets import require_free
from sowctl.spark.jobs.tasks import format_attempt_name, run_tasks
from sowctl.spark.jvm.masters import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sowctl.engine.bulk.staging import StagingArea
    from sowctl.spark.jobs.outputs.output_spec import Output


def hadoop_supports(spark: SparkSession, url: str) -> bool:
    """Return whether a file system of Hadoop takes a URL, in the session's virtual machine."""
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


def is_unreachable(spark: SparkSession, output: Output) -> bool:
    """Return whether a data set lies at a URL that Spark's writers do not reach."""
    return is_url(output.path) and not hadoop_supports(spark, output.path)


def require_reachable(output: Output) -> None:
    """Raise UsageError ``SOW-SPK-140`` for a table of a lake where Spark's writers do not reach."""
    if output.kind in LAKE_PACKAGES:
        raise UsageError(
            "SOW-SPK-140",
            f"{output.kind} tables are committed through Hadoop, which has no file system for this "
            f"URL: {parse_url(output.path)}",
            hint="give Spark the jars for the scheme, such as hadoop-aws for s3a; or write parquet, "
            "which does not require them",
        )


def format_spark_path(output: Output) -> str:
    """The path of an output for Spark's writers."""
    # Hadoop takes percent signs as they are.
    return f"file://{parse_local_path(output.path)}" if is_file_url(output.path) else output.path


@contextmanager
def discard_if_failed(spark: SparkSession, output: Output) -> Iterator[None]:
    """Remove the directory that Spark's writers leave of a data set where the block fails, if it was not there before.

    Of a job that fails a directory without files is left, which would refuse the next run. What holds a file stays: it
    may be of another run.
    """
    if is_unreachable(spark, output):
        yield  # what the tasks have sent is removed where it is sent
        return
    was_there = True
    # What cannot be looked at is left alone; writing says why.
    with suppress(Exception):
        system, path = _find_in_hadoop(spark, output)
        was_there = system.exists(path)
    if was_there:
        yield
        return
    try:
        yield
    except BaseException:
        # The error that ended the block is raised, whatever removing meets.
        with suppress(Exception):
            if {one.getPath().getName() for one in system.listStatus(path)} <= {"_temporary"}:
                system.delete(path, True)
        raise


def remove_data_set(spark: SparkSession, output: Output) -> None:
    """Remove a data set that this run has written, as far as that is possible."""
    with suppress(Exception):
        if is_unreachable(spark, output):
            remote_files.delete_directory(parse_url(output.path))
        else:
            system, path = _find_in_hadoop(spark, output)
            system.delete(path, True)


def _find_in_hadoop(spark: SparkSession, output: Output) -> tuple[Any, Any]:
    """The file system of an output and its path there, as Spark's writers understand them."""
    jvm: Any = spark._jvm
    context: Any = spark.sparkContext._jsc
    path = jvm.org.apache.hadoop.fs.Path(format_spark_path(output))
    return path.getFileSystem(context.hadoopConfiguration()), path


@contextmanager
def deliver_store(output: Output) -> Iterator[Path]:
    """Yield the path for a store: its own, or one of this machine that is sent to its URL at the end.

    Raises RefusedError ``SOW-SPK-064`` where something is there, and what writing at a URL raises.
    """
    if not is_url(output.path):
        yield parse_local_path(output.path)
        return
    target = parse_url(output.path)
    require_free(target, force=output.force)
    with _scratch(output.staging) as directory:
        made = directory / (target.name or "output")
        yield made
        if remote_files.find_size(target) is None and remote_files.place_exists(target):
            # A data set. A file is replaced when the new one is whole.
            remote_files.delete_directory(target)
        remote_files.upload_file(made, target)


@contextmanager
def _scratch(root: str | None) -> Iterator[Path]:
    """A directory of the driver's that is there until the end of the block."""
    try:
        if root is not None:
            Path(root).mkdir(parents=True, exist_ok=True)
        directory = Path(tempfile.mkdtemp(prefix="sowctl-output-", dir=root))
    except OSError as error:
        raise StorageError(
            "SOW-SPK-060",
            f"cannot write a staged file: {error.strerror or error}",
            place=str(root or tempfile.gettempdir()),
            hint="free space, or give another --staging directory",
        ) from error
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def fetch_files(spark: SparkSession, files: Sequence[str], area: StagingArea) -> list[str]:
    """Download files at URLs to a staging directory, which Spark reads; in the same order, local ones as they are.

    Raises UsageError ``SOW-SPK-159`` where executors share no directory.
    """
    if area.shared is not None and not is_local(spark.sparkContext.master or ""):
        url = next(str(parse_url(file)) for file in files if is_url(file))
        raise UsageError(
            "SOW-SPK-159",
            "Spark has no file system for this URL, and with staging at a URL there is no "
            f"directory for the input: {url}",
            hint="give a --staging directory that driver and executors share, or give Spark the jars "
            "for the scheme; NDJSON does not require either",
        )
    fetch = _Fetch(str(area.directory))
    wanted = [(number, file) for number, file in enumerate(files) if is_url(file)]
    here = dict(
        zip((number for number, _ in wanted), run_tasks(spark, wanted, fetch, what="fetch the input"), strict=True)
    )
    return [here.get(number, file) for number, file in enumerate(files)]


class _Fetch:
    """Brings a file from a URL, on an executor; the name tells its number and what attempt it was."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def __call__(self, item: tuple[int, str]) -> str:
        number, url = item
        place = parse_url(url)
        # The ending stays: it tells Spark how the file is packed.
        path = Path(self.directory) / f"input-{number}-{format_attempt_name()}-{place.name}"
        remote_files.download_file(place, path)
        return str(path)
