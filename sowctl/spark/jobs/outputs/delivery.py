"""Outputs and inputs at URLs: detect which URLs Spark supports, upload stores, and download inputs.

Called by the modules that write data sets and stores, and by the job ``load``. If Hadoop supports the scheme of a URL,
Spark reads and writes data sets as usual. Otherwise tasks write data sets with :mod:`sowctl.remote`
(:mod:`sowctl.spark.jobs.outputs.remote_datasets`). Stores at URLs are built locally by the driver and uploaded.
``sowctl-pipeline(1)``, OUTPUT.
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
    """Return whether Hadoop has a file system for a URL, in the session's virtual machine."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    scheme = url.partition("://")[0]
    try:
        jvm: Any = spark._jvm
        context: Any = spark.sparkContext._jsc
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, context.hadoopConfiguration())
    except Py4JError:
        # No class is configured for the scheme, or its jar is missing.
        return False
    return True


def is_unreachable(spark: SparkSession, output: Output) -> bool:
    """Return whether an output is at a URL that Spark's writers do not support."""
    return is_url(output.path) and not hadoop_supports(spark, output.path)


def require_reachable(output: Output) -> None:
    """Raise UsageError ``SOW-SPK-140`` for a lake table; called if Spark's writers do not support its URL."""
    if output.kind in LAKE_PACKAGES:
        raise UsageError(
            "SOW-SPK-140",
            f"{output.kind} tables are committed through Hadoop, which has no file system for this "
            f"URL: {parse_url(output.path)}",
            hint="give Spark the jars for the scheme, such as hadoop-aws for s3a; or write parquet, "
            "which does not require them",
        )


def format_spark_path(output: Output) -> str:
    """Return the path of an output for Spark's writers."""
    # Hadoop does not decode percent escapes.
    return f"file://{parse_local_path(output.path)}" if is_file_url(output.path) else output.path


@contextmanager
def discard_if_failed(spark: SparkSession, output: Output) -> Iterator[None]:
    """If the block fails, remove the directory that Spark's writers have created for a data set.

    Otherwise the next run would find an existing output. A directory that existed before is not removed, nor one with
    files, because they may belong to another run.
    """
    if is_unreachable(spark, output):
        yield  # send_parts() removes the files that tasks have written
        return
    was_there = True
    # If the check fails, nothing is removed; the write reports the error.
    with suppress(Exception):
        system, path = _find_in_hadoop(spark, output)
        was_there = system.exists(path)
    if was_there:
        yield
        return
    try:
        yield
    except BaseException:
        # Errors of the removal are suppressed, because the error of the block is raised.
        with suppress(Exception):
            if {one.getPath().getName() for one in system.listStatus(path)} <= {"_temporary"}:
                system.delete(path, True)
        raise


def remove_data_set(spark: SparkSession, output: Output) -> None:
    """Remove a data set that this run has written, ignoring errors."""
    with suppress(Exception):
        if is_unreachable(spark, output):
            remote_files.delete_directory(parse_url(output.path))
        else:
            system, path = _find_in_hadoop(spark, output)
            system.delete(path, True)


def _find_in_hadoop(spark: SparkSession, output: Output) -> tuple[Any, Any]:
    """Return the Hadoop file system of an output, and its path, as in Spark's writers."""
    jvm: Any = spark._jvm
    context: Any = spark.sparkContext._jsc
    path = jvm.org.apache.hadoop.fs.Path(format_spark_path(output))
    return path.getFileSystem(context.hadoopConfiguration()), path


@contextmanager
def deliver_store(output: Output) -> Iterator[Path]:
    """Yield the path at which to build a store: that of the output, or a temporary one that is uploaded at the end.

    Raises RefusedError ``SOW-SPK-064`` if the output at a URL exists, and what writing to a URL raises.
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
            # The old output is a data set. A single file is replaced by the completed upload.
            remote_files.delete_directory(target)
        remote_files.upload_file(made, target)


@contextmanager
def _scratch(root: str | None) -> Iterator[Path]:
    """Yield a temporary directory on the driver. Raises StorageError ``SOW-SPK-060``."""
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
    """Download files at URLs to a staging directory, and return the paths for Spark, in the same order; local paths are
    unchanged.

    Raises UsageError ``SOW-SPK-159`` if executors do not share a directory.
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
    """Downloads a file from a URL, on an executor; the file name contains its number and the attempt."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def __call__(self, item: tuple[int, str]) -> str:
        number, url = item
        place = parse_url(url)
        # The name ends with the original one, because Spark detects compression by the suffix.
        path = Path(self.directory) / f"input-{number}-{format_attempt_name()}-{place.name}"
        remote_files.download_file(place, path)
        return str(path)
