"""``sowctl pipeline submit-args``: the command line that runs a job on a cluster."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.commands.bodies.pipeline import SparkOptions
from sowctl.cli.context import Invocation
from sowctl.declarations import Argument, declare_option, declare_part

EXAMPLES = (
    "sowctl pipeline submit-args --master yarn --archive sowctl.zip -- rebuild orders --staging /shared/staging",
    "sowctl pipeline submit-args --master spark://host:7077 --environment environment.tar.gz -- view totals",
)


class PipelineSubmitArgsArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl pipeline submit args``."""

    job: Annotated[list[str], Argument("JOB", "Name of the job, its operands and, after --, its options.")]
    archive: Annotated[
        str,
        declare_option(
            "--archive", help="Write the package for the executors to FILE.", metavar="FILE", complete="file"
        ),
    ] = "sowctl.zip"
    environment: Annotated[
        str | None,
        declare_option(
            "--environment",
            help="Packed environment, as made by venv-pack, that executors unpack and run.",
            metavar="FILE",
            complete="file",
        ),
    ] = None
    spark: Annotated[SparkOptions, declare_part("master", "conf")] = SparkOptions()


def run(invocation: Invocation, arguments: PipelineSubmitArgsArguments) -> int:
    """Print the spark-submit command line of a job, and write the archive that it sends to the executors.

    The command line can be run unchanged from any directory: it has the full names of a suitable Java and, where a
    shell would not find the right ones, of spark-submit and Python, and of the configuration.

    The libraries required by sowctl must be installed on the executors, or be part of --environment: an archive of a
    virtual environment with sowctl and pyarrow, for the Python version of the driver. It does not need pyspark:
    executors use that of their Spark. Journals, stores and the staging directory must have the same paths on the
    executors.
    """
    from pathlib import Path

    from sowctl.cli.commands.bodies.pipeline import parse_pairs
    from sowctl.errors import ConfigError
    from sowctl.spark.jvm.java import find_java
    from sowctl.spark.submit import build_command_line, write_archive

    path = Path(arguments.archive).absolute()
    java = None
    try:
        java = find_java(invocation.environ)
    except ConfigError as error:
        invocation.note(f"the command line does not set Java: {error.message}")
    line = build_command_line(
        path,
        arguments.job,
        arguments.spark.master or "yarn",
        parse_pairs("--conf", arguments.spark.conf),
        invocation.find_config_path() if invocation.has_config() else None,
        java=java,
        environment=invocation.environ,
        packed=None if arguments.environment is None else Path(arguments.environment).absolute(),
    )
    write_archive(path)
    invocation.streams.stdout.write(line.encode("utf-8", "surrogateescape") + b"\n")
    invocation.streams.stdout.flush()
    return 0
