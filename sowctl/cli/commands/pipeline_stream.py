"""``sowctl pipeline stream``: journal entries as they are committed, on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from sowctl.cli.commands.bodies.pipeline import Conf, Master
from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import Argument, option
from sowctl.cli.words.options import MessageType, Summary

if TYPE_CHECKING:
    from sowctl.spark.jobs.stream import ShownEntry

EXAMPLES = (
    "sowctl pipeline stream orders --console --available-now",
    "sowctl pipeline stream orders --output log --checkpoint log.state --available-now",
)


def run(
    invocation: Invocation,
    topic: Annotated[
        str | None, Argument("TOPIC", "the topic; default all that the journal has", complete="topic")
    ] = None,
    output: Annotated[
        str | None,
        option("--output", help="append to Parquet files in DIR", metavar="DIR", complete="directory"),
    ] = None,
    format: Annotated[
        str, option("--output-format", help="how files are written", choices=("parquet", "delta", "iceberg"))
    ] = "parquet",
    partition_by: Annotated[
        list[str] | None,
        option(
            "--partition-by",
            help="a directory for every value of this column, such as _topic or _date, or of this field of the message",
            metavar="PATH",
        ),
    ] = None,
    into: Annotated[str | None, option("--into", help="publish to this topic", metavar="TOPIC")] = None,
    console: Annotated[bool, option("--console", help="print the messages, one a line")] = False,
    checkpoint: Annotated[
        str | None,
        option("--checkpoint", help="where the stream keeps its place", metavar="DIR", complete="directory"),
    ] = None,
    client: Annotated[str | None, option("--client", help="with --into: name of the publisher", metavar="NAME")] = None,
    operation: Annotated[
        str, option("--operation", help="which entries", choices=("publish", "delete", "all"))
    ] = "all",
    available_now: Annotated[
        bool, option("--available-now", help="end when what is there has been dealt with")
    ] = False,
    latest: Annotated[bool, option("--latest", help="begin behind what is there, not at the beginning")] = False,
    max_entries: Annotated[
        int | None,
        option("--max-entries", help="entries in a batch, at most; default 1000000", metavar="COUNT", minimum=1),
    ] = None,
    max_bytes: Annotated[
        str | None,
        option("--max-bytes", help="bytes of the journal, as stored, in a batch, such as 64MB", metavar="SIZE"),
    ] = None,
    interval: Annotated[
        str | None, option("--interval", help="time between two batches, such as '5 seconds'", metavar="TIME")
    ] = None,
    message_type: MessageType = None,
    master: Master = None,
    conf: Conf = None,
    summary: Summary = None,
) -> int:
    """Follow the journal with Spark: into Parquet files, into another topic, or to standard output.

    The checkpoint says what has been dealt with; a stream that is started again goes on there, and what comes twice is
    written once. Without --available-now it goes on until it is interrupted. Deletions go to another topic only where
    it makes the same keys.

    Which Parquet files of DIR count is written down in DIR/_spark_metadata, which Spark reads. A driver that was killed
    may leave other files there, empty ones or such as hold entries twice: pyarrow, DuckDB and other programs, which do
    not read that list, fail at them or count them. Let Spark read DIR, or take --output-format delta or iceberg.

    With --console a message is printed as it is. A deletion has none: its line has the members by which journal dump
    tells of it, topic, sow_key, txid and operation. With --operation publish there are messages alone.

    Progress tells the batches and entries so far, and how far the stream is behind: entries and bytes of the journal,
    as stored and of all topics, that no batch has read. With --progress json each batch is an object with batches,
    read, records, bytes, behind and bytes_behind; the summary has the last of these.
    """
    from sowctl.cli.commands.bodies import pipeline
    from sowctl.spark.sessions import require_pyspark

    require_pyspark()
    from sowctl.spark.jobs.stream import StreamOptions, stream

    out = invocation.streams.stdout

    def printed(rows: list[ShownEntry]) -> None:
        out.write(b"".join(pipeline.line_of(row) + b"\n" for row in rows))
        out.flush()

    with invocation.open_instance() as instance:
        # A topic that only the TransactionLog names has entries to follow, though no records.
        wanted = pipeline.topic_of(instance, topic, message_type, logged=True) if topic is not None else None
        options = StreamOptions(
            checkpoint=None if checkpoint is None else str(pipeline.directory(checkpoint)),
            output=None if output is None else pipeline.place_of(output, format),
            format=format,
            partition_by=tuple(partition_by or ()),
            into=pipeline.topic_of(instance, into) if into is not None else None,
            client=client,
            show=printed if console else None,
            operation=operation,
            available_now=available_now,
            latest=latest,
            max_entries=max_entries,
            max_bytes=max_bytes,
            interval=interval,
        )
        telling = pipeline.Telling(invocation)
        with pipeline.session(invocation, master, conf, telling) as spark:
            report = stream(spark, instance, wanted, options, tell=telling.batch)
    pipeline.show(invocation, report, summary)
    return 0
