"""``sowctl pipeline submit-args``: the line that runs a job on a cluster."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.commands.bodies.pipeline import Conf, Master
from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import Argument, option

EXAMPLES = (
    "sowctl pipeline submit-args --master yarn --archive sowctl.zip -- rebuild orders --staging /shared/staging",
    "sowctl pipeline submit-args --master spark://host:7077 --environment environment.tar.gz -- view totals",
)


def run(
    invocation: Invocation,
    job: Annotated[list[str], Argument("JOB", "the job, its operands and, behind --, its options")],
    archive: Annotated[
        str,
        option("--archive", help="write this package to FILE for the executors", metavar="FILE", complete="file"),
    ] = "sowctl.zip",
    environment: Annotated[
        str | None,
        option(
            "--environment",
            help="a packed environment that executors unpack and run, as venv-pack makes it",
            metavar="FILE",
            complete="file",
        ),
    ] = None,
    master: Master = None,
    conf: Conf = None,
) -> int:
    """Print the spark-submit line for a job, and write the archive that it sends to the executors.

    The line can be run as it is, from any directory: it names the Java that Spark can be started with, spark-submit
    and Python where a shell would find others or none, and the configuration that was found here.

    The libraries that sowctl needs must be installed where executors run, or come in --environment: an archive of a
    virtual environment with sowctl and pyarrow in it, for the Python version of the driver. pyspark is not needed in
    it: executors have that of their Spark. Journals, stores and the staging directory must have the same paths there.
    """
    from pathlib import Path

    from sowctl.cli.commands.bodies.pipeline import pairs
    from sowctl.errors import ConfigError
    from sowctl.spark.jvm.java import find_java
    from sowctl.spark.submit import command_line, write_archive

    path = Path(archive).absolute()
    java = None
    try:
        java = find_java(invocation.environ)
    except ConfigError as error:
        invocation.note(f"the line names no Java: {error.message}")
    line = command_line(
        path,
        job,
        master or "yarn",
        pairs("--conf", conf),
        invocation.config_path() if invocation.has_config() else None,
        java=java,
        environment=invocation.environ,
        packed=None if environment is None else Path(environment).absolute(),
    )
    write_archive(path)
    invocation.streams.stdout.write(line.encode("utf-8", "surrogateescape") + b"\n")
    invocation.streams.stdout.flush()
    return 0
