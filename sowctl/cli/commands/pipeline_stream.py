"""``sowctl pipeline stream``: journal entries as they are committed, on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from sowctl.cli.commands.bodies.pipeline import SparkOptions
from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import MessageType, Summary
from sowctl.declarations import Argument, declare_option, declare_part
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.spark.jobs.stream import StreamEntry

EXAMPLES = (
    "sowctl pipeline stream orders --console --available-now",
    "sowctl pipeline stream orders --output log --checkpoint log.state --available-now",
)


class PipelineStreamArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl pipeline stream``."""

    topic: Annotated[
        str | None, Argument("TOPIC", "Name of the topic. Default: all topics in the journal.", complete="topic")
    ] = None
    output: Annotated[
        str | None,
        declare_option("--output", help="Append to Parquet files in DIR.", metavar="DIR", complete="directory"),
    ] = None
    format: Annotated[
        str, declare_option("--output-format", help="Output format of files.", choices=("parquet", "delta", "iceberg"))
    ] = "parquet"
    partition_by: Annotated[
        list[str] | None,
        declare_option(
            "--partition-by",
            help="Partition by this column, for example _topic or _date, or by this field of the message.",
            metavar="PATH",
        ),
    ] = None
    into: Annotated[str | None, declare_option("--into", help="Publish to this topic.", metavar="TOPIC")] = None
    console: Annotated[bool, declare_option("--console", help="Print the messages, one per line.")] = False
    checkpoint: Annotated[
        str | None,
        declare_option("--checkpoint", help="Checkpoint directory of the stream.", metavar="DIR", complete="directory"),
    ] = None
    client: Annotated[
        str | None, declare_option("--client", help="With --into: client name of the publisher.", metavar="NAME")
    ] = None
    operation: Annotated[
        str, declare_option("--operation", help="Which entries to process.", choices=("publish", "delete", "all"))
    ] = "all"
    available_now: Annotated[
        bool, declare_option("--available-now", help="Stop after processing the available entries.")
    ] = False
    latest: Annotated[
        bool, declare_option("--latest", help="Start at the end of the journal instead of the beginning.")
    ] = False
    from_state: Annotated[
        bool,
        declare_option(
            "--from-state", help="Start with the records of the topic, and continue with the entries after them."
        ),
    ] = False
    max_entries: Annotated[
        int | None,
        declare_option(
            "--max-entries", help="Maximum number of entries per batch. Default: 1000000.", metavar="COUNT", minimum=1
        ),
    ] = None
    max_bytes: Annotated[
        str | None,
        declare_option(
            "--max-bytes", help="Maximum size of a batch in stored journal bytes, for example 64MB.", metavar="SIZE"
        ),
    ] = None
    split_groups: Annotated[
        bool,
        declare_option(
            "--split-groups", help="Apply --max-entries and --max-bytes also within a group, such as a bulk load."
        ),
    ] = False
    interval: Annotated[
        str | None,
        declare_option("--interval", help="Interval between two batches, for example '5 seconds'.", metavar="TIME"),
    ] = None
    message_type: MessageType = None
    spark: Annotated[SparkOptions, declare_part("master", "conf")] = SparkOptions()
    summary: Summary = None


def run(invocation: Invocation, arguments: PipelineStreamArguments) -> int:
    """Follow the journal with Spark: to Parquet files, to another topic, or to standard output.

    The checkpoint records the progress; a restarted stream continues from it, and repeated entries are written once.
    Without --available-now, the command runs until it is interrupted. Deletions are sent to another topic only if it
    makes the same keys.

    DIR/_spark_metadata lists the valid Parquet files of DIR; Spark reads it. A killed driver may leave other files
    there, which are empty or contain entries twice: pyarrow, DuckDB and other programs that do not read the list fail
    on them or count them. Read DIR with Spark, or use --output-format delta or iceberg.

    A batch consists of complete groups, and a bulk load is one group of any size. With --split-groups, a batch may end
    within a group that exceeds the limits, so that readers see the group in parts.

    With --from-state, a stream without a checkpoint first processes the current records of the topic, then the journal
    entries after them. Nothing between the two is missing or repeated.

    With --console, messages are printed unchanged. A deletion has no message: its line has the members topic, sow_key,
    txid and operation, as in journal dump. --operation publish prints only messages.

    Progress shows the batches and entries so far, and the lag of the stream: entries and bytes of the journal, as
    stored and of all topics, that no batch has read. With --progress json, each batch is an object with batches, read,
    records, bytes, behind and bytes_behind; the summary has the last of these.
    """
    from sowctl.cli.commands.bodies import pipeline
    from sowctl.spark.sessions import require_pyspark

    if arguments.latest and arguments.from_state:
        raise UsageError("SOW-SPK-068", "--latest and --from-state cannot be combined", hint="use one of them")
    require_pyspark()
    from sowctl.spark.jobs.stream import StreamOptions, stream

    out = invocation.streams.stdout

    def printed(rows: list[StreamEntry]) -> None:
        out.write(b"".join(pipeline.format_entry(row) + b"\n" for row in rows))
        out.flush()

    progress = pipeline.JobProgress(invocation)
    with invocation.open_instance(watch=progress.watch) as instance:
        # A topic that only the TransactionLog names has entries to follow, although it has no records.
        wanted = (
            pipeline.resolve_topic(instance, arguments.topic, arguments.message_type, logged=True)
            if arguments.topic is not None
            else None
        )
        options = StreamOptions(
            checkpoint=None if arguments.checkpoint is None else str(pipeline.parse_staging(arguments.checkpoint)),
            output=None if arguments.output is None else pipeline.resolve_output(arguments.output, arguments.format),
            format=arguments.format,
            partition_by=tuple(arguments.partition_by or ()),
            into=pipeline.resolve_topic(instance, arguments.into) if arguments.into is not None else None,
            client=arguments.client,
            show=printed if arguments.console else None,
            operation=arguments.operation,
            available_now=arguments.available_now,
            start="state" if arguments.from_state else "latest" if arguments.latest else "earliest",
            max_entries=arguments.max_entries,
            max_bytes=arguments.max_bytes,
            split_groups=arguments.split_groups,
            interval=arguments.interval,
        )
        with pipeline.open_job_session(arguments.spark, progress) as spark:
            report = stream(spark, instance, wanted, options, tell=progress.show_batch)
    pipeline.show_job_report(invocation, report, arguments.summary)
    return 0
