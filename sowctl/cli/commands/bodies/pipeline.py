"""What the commands ``sowctl pipeline ...`` share: their options, the Spark session, progress, the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import Argument, option
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.spark.jobs.outputs import Output
    from sowctl.spark.jobs.report import JobReport

SPARK = "Spark options"
DATA_SETS = ("parquet", "orc", "ndjson", "csv", "sow")

Master: TypeAlias = Annotated[
    str | None,
    option("--master", help="the cluster: local[*] (all processors here), spark://..., yarn", panel=SPARK),
]
Conf: TypeAlias = Annotated[
    list[str] | None, option("--conf", help="a setting of Spark's; may be repeated", metavar="NAME=VALUE", panel=SPARK)
]
Staging: TypeAlias = Annotated[
    str | None,
    option(
        "--staging",
        help="where tasks leave what the driver commits; default beside the journal or the store",
        metavar="DIR",
        complete="directory",
        panel=SPARK,
    ),
]
Where: TypeAlias = Annotated[
    str,
    option("--output", help="the directory to write, or a file that ends in .sow", metavar="PATH", complete="file"),
]
Kind: TypeAlias = Annotated[
    str | None,
    option("--output-format", help="default sow for a path that ends in .sow, else parquet", choices=DATA_SETS),
]
PartitionBy: TypeAlias = Annotated[
    list[str] | None,
    option("--partition-by", help="a directory for every value of this field; may be repeated", metavar="PATH"),
]
Fields: TypeAlias = Annotated[
    str | None,
    option(
        "--fields",
        help="messages as columns, declared such as 'id INT, name STRING', or infer: of all records; else as bytes",
        metavar="DDL",
    ),
]
WriterOptions: TypeAlias = Annotated[
    list[str] | None,
    option("--writer", help="an option of Spark's writer; may be repeated", metavar="NAME=VALUE"),
]
Replace: TypeAlias = Annotated[bool, option("--force", help="replace an output that exists")]
Topic: TypeAlias = Annotated[str, Argument("TOPIC", "the topic", complete="topic")]


@contextmanager
def session(invocation: Invocation, master: str | None, conf: Sequence[str] | None) -> Iterator[Any]:
    """A session for one job: quiet unless --verbose, with progress on a terminal, ended at the end.

    Raises UsageError ``SOW-SPK-001`` without the extra, and what starting raises; what Spark itself cannot do is a
    StorageError ``SOW-SPK-070``.
    """
    from sowctl.spark.jobs.report import in_plain_words
    from sowctl.spark.sessions import LOCAL, open_session

    wanted = pairs("--conf", conf)
    verbose = invocation.settings.verbose > 0
    app = f"sowctl {invocation.command}"
    if invocation.shows_progress():
        # Gone when the first stage is told of; starting takes longer than most short jobs.
        invocation.streams.stderr.write(f"\r\x1b[K{invocation.command}: starting Spark".encode())
        invocation.streams.stderr.flush()
    with (
        _silent(verbose),
        open_session(master or LOCAL, environment=invocation.environ, conf=wanted, app=app, verbose=verbose) as spark,
        _progress(invocation, spark),
        in_plain_words(),
    ):
        yield spark


@contextmanager
def _silent(verbose: bool) -> Iterator[None]:
    """Python's side of Spark logs calls that an interrupt breaks off, which a user who interrupts need not see."""
    import logging

    root, nobody = logging.getLogger(), logging.NullHandler()
    if not verbose:
        # Without any handler Python's logging writes warnings to standard error by itself.
        root.addHandler(nobody)
    try:
        yield
    finally:
        root.removeHandler(nobody)


def pairs(name: str, texts: Sequence[str] | None) -> dict[str, str]:
    """``NAME=VALUE`` texts. Raises UsageError ``SOW-CLI-075``."""
    found = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError("SOW-CLI-075", f"{name}: {text!r} is not NAME=VALUE")
        found[key.strip()] = value
    return found


def topic_of(instance: Instance, name: str, message_type: str | None = None, *, logged: bool = False) -> TopicConfig:
    """The one topic, or logical topic, of this name; ``logged``: also one that only the transaction log names."""
    from sowctl.engine.topics.targets import find_publishable, find_topic
    from sowctl.errors import MissingError

    try:
        return find_topic(instance, name, message_type)
    except MissingError as missing:
        if not logged or missing.code != "SOW-ENG-016":
            raise
    return find_publishable(instance, name, message_type)


def directory(text: str | None) -> Path | None:
    """The path of an option."""
    return None if text is None else Path(text).absolute()


def output(
    path: str,
    format: str | None,
    partition_by: Sequence[str] | None,
    fields: str | None,
    *,
    writer: Sequence[str] | None = None,
    meta: bool = False,
    force: bool = False,
) -> Output:
    """Where a job writes, from the options. Raises UsageError."""
    from sowctl.spark.jobs.outputs import Output
    from sowctl.spark.paths import is_remote

    declared = "" if fields is not None and fields.strip().lower() == "infer" else fields
    # a URL of the scheme file stays one: without it Spark would look in its default file system
    place = path if is_remote(path) or path.startswith("file:") else str(Path(path).absolute())
    made = Output(place, format, tuple(partition_by or ()), declared, meta, force, pairs("--writer", writer))
    made.check()
    return made


def show(invocation: Invocation, report: JobReport, summary: str | None) -> None:
    """Say what a job did: one line of JSON on standard output with ``--summary json``, else words."""
    if summary == "json":
        from sowctl.output import reports

        invocation.streams.stdout.write(reports.as_json(report).encode() + b"\n")
        invocation.streams.stdout.flush()
    elif summary == "text":
        invocation.streams.talk(in_words(report))
    else:
        invocation.note(in_words(report))


def in_words(report: JobReport) -> str:
    """``load orders: 812 records, 3 rejected; 214.0 MiB in 6.1 s, 12 partitions``."""
    from sowctl.output.display import display
    from sowctl.output.reports import size

    # A view is told by its own name; the topics that it reads are in the report as JSON.
    names = (report.details["view"],) if "view" in report.details else report.topics
    what = " ".join((report.job, ", ".join(map(display, names)))).strip()
    counts = [f"{report.records:,} records"]
    if report.rejected:
        counts.append(f"{report.rejected:,} rejected")
    volume = f"{size(report.bytes)} in {report.seconds:.1f} s" if report.bytes else f"{report.seconds:.1f} s"
    where = f"; {display(report.output)}" if report.output else ""
    return f"{what}: {', '.join(counts)}; {volume}, {report.partitions} partitions{where}"


@contextmanager
def _progress(invocation: Invocation, spark: Any) -> Iterator[None]:
    """A line with the tasks of the stages under way, where progress is shown at all."""
    from sowctl.spark.jobs.report import watched

    if not invocation.shows_progress():
        yield
        return
    stream = invocation.streams.stderr

    def tell(done: int, tasks: int) -> None:
        # The line is written over itself, and what was longer before is erased.
        stream.write(f"\r\x1b[K{invocation.command}: {done} of {tasks} tasks".encode())
        stream.flush()

    try:
        with watched(spark, tell):
            yield
    finally:
        stream.write(b"\r\x1b[K")
        stream.flush()
