"""``sowctl pipeline load``: files into a topic, on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from sowctl.cli.commands.bodies.pipeline import SparkOptions, Topic
from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import MessageType, Summary
from sowctl.declarations import Argument, declare_option, declare_part
from sowctl.engine.options import PublishOptions
from sowctl.values.units import MAX_U64

if TYPE_CHECKING:
    from sowctl.engine.bulk.staging import Operation
    from sowctl.spark.jobs.load import Format

EXAMPLES = (
    "sowctl pipeline load orders fills.ndjson",
    "sowctl pipeline load orders lake/",
    "sowctl pipeline load orders 'o*.ndjson' --on-error skip --rejects bad.ndjson",
    "sowctl pipeline load orders day.csv --reader inferSchema=true --client loader --sequence 7",
)


class PipelineLoadArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl pipeline load``."""

    topic: Topic
    files: Annotated[
        list[str],
        Argument("FILE", "Files, directories, quoted patterns, or URLs that Spark can read.", complete="file"),
    ]
    message_type: MessageType = None
    input_format: Annotated[
        str | None,
        declare_option(
            "--input-format", help="Input format. Default: by file name.", choices=("ndjson", "csv", "parquet", "orc")
        ),
    ] = None
    operation: Annotated[
        str, declare_option("--operation", help="Operation of each message.", choices=("publish", "delta", "delete"))
    ] = "publish"
    on_error: Annotated[
        Literal["abort", "skip"],
        declare_option("--on-error", help="On invalid messages: abort and write nothing, or skip them."),
    ] = "abort"
    rejects: Annotated[
        str | None,
        declare_option("--rejects", help="Append rejected messages to FILE, with position and reason.", metavar="FILE"),
    ] = None
    max_errors: Annotated[
        int | None,
        declare_option(
            "--max-errors",
            help="With --on-error skip: abort after more than COUNT rejected messages.",
            metavar="COUNT",
            minimum=1,
        ),
    ] = None
    publish: Annotated[
        PublishOptions,
        declare_part("expiration", "client", "timestamp", "timestamp_field", "allow_null_key"),
    ]
    reader: Annotated[
        list[str] | None,
        declare_option("--reader", help="Option of the Spark reader. May be repeated.", metavar="NAME=VALUE"),
    ] = None
    sequence: Annotated[
        int | None,
        declare_option(
            "--sequence",
            help="Sequence number of the load, which prevents loading it twice.",
            metavar="NUMBER",
            minimum=1,
            maximum=MAX_U64,
        ),
    ] = None
    spark: SparkOptions = SparkOptions()
    summary: Summary = None


def run(invocation: Invocation, arguments: PipelineLoadArguments) -> int:
    """Load files into a topic with Spark, in one group: all messages or none.

    Each line of NDJSON is a message. NDJSON files are split among tasks; a file compressed with gzip or zstd is read by
    one task, and a note is printed if it is larger than 32 MiB. Rows of CSV, Parquet and ORC become messages of the
    type of the topic, or have the message in a column named payload. Directories are read recursively, without files
    whose names begin with . or _; directories above a file that are called NAME=VALUE are columns of its rows, of the
    types that sowctl publish gives them. Files of a directory or a pattern are ordered by path, in which numbers in
    names count as numbers, others as given. Messages are ordered by file and position in the
    file, regardless of the task: of several messages with one key, the last wins. With --client and --sequence, a
    repeated load is not written again. The exit status is 3 if messages were rejected.
    """
    from sowctl.arrow.inputs.partitions import read_partitions
    from sowctl.cli.commands.bodies.pipeline import (
        JobProgress,
        count_file_bytes,
        open_job_session,
        parse_pairs,
        parse_staging,
        resolve_topic,
        show_job_report,
    )
    from sowctl.cli.io.bulk_load import update_indexes
    from sowctl.engine.bulk.staging import require_loadable_topic
    from sowctl.spark.sessions import require_pyspark

    require_pyspark()
    from sowctl.spark.jobs.inputs import expand_paths
    from sowctl.spark.jobs.load import LoadOptions, load

    publish = replace(
        arguments.publish,
        on_error=arguments.on_error,
        max_errors=arguments.max_errors,
        sequence=arguments.sequence,
    )
    options = LoadOptions(
        cast("Format | None", arguments.input_format),
        publish,
        cast("Operation", arguments.operation),
        arguments.rejects,
        parse_pairs("--reader", arguments.reader),
    )
    progress = JobProgress(invocation)
    with invocation.open_instance(watch=progress.watch) as instance:
        wanted = resolve_topic(instance, arguments.topic, arguments.message_type)
        # Before Spark starts, which takes long: reject topics that do not support bulk loads, missing files, and
        # directories that name no column.
        require_loadable_topic(wanted)
        found = expand_paths(arguments.files, notify=invocation.note_once)
        read_partitions(found, arguments.files)
        with open_job_session(arguments.spark, progress, reads=count_file_bytes(found)) as spark:
            report = load(
                spark,
                instance,
                wanted,
                arguments.files,
                options,
                staging_directory=parse_staging(arguments.spark.staging),
            )
    # With --rejects all of them are in that file, not only the first ones.
    if arguments.rejects is None:
        for one in report.details["commit"]["samples"]:
            place = f"{one['source']}:byte {one['offset']}"
            invocation.warn(one["message"], code=one["code"], place=place, file=one["source"], byte=one["offset"])
    show_job_report(invocation, report, arguments.summary)
    made = report.details["commit"]
    update_indexes(
        invocation, [(made["topic"], made["message_type"], made["inserted"] + made["updated"] + made["deleted"])]
    )
    return 3 if report.rejected else 0
