"""Shared code of ``sowctl pipeline ...``: options, the Spark session, progress, the report."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from msgspec import Struct
from msgspec.structs import asdict

from sowctl.cli.context import Invocation
from sowctl.cli.progress import DRAW_INTERVAL_SECONDS, JSON_INTERVAL_SECONDS, format_share
from sowctl.declarations import Argument, declare_option
from sowctl.errors import SowError, UsageError
from sowctl.values.display import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.remote.place import Place
    from sowctl.spark.jobs.outputs.output_spec import Output
    from sowctl.spark.jobs.progress import StageProgress
    from sowctl.spark.jobs.report import JobReport
    from sowctl.spark.jobs.stream import Progress, StreamEntry

SPARK_PANEL = "Spark options"
MAX_SHORT_JOB_BYTES = 256 << 20
"""Size of a short job in bytes (:func:`sowctl.spark.sessions.open_session`).

CPU of a start and one job, quick compilation compared with the usual one: a rebuild of 45 MB of journal 0.67, of
220 MB 0.72; an export of all fields as Parquet, which is mostly Java's work, 0.75 and 0.91; a load of 208 MB of NDJSON
0.76. Each MB of that export costs 1.11 times as much, so that 500 MB would break even.
"""
LOG_INTERVAL_SECONDS = 30.0
"""Seconds between two lines of progress if standard error is no terminal."""
BAR_COLUMNS = 20
DATA_SETS = ("parquet", "orc", "ndjson", "csv", "sow", "delta", "iceberg")

Topic: TypeAlias = Annotated[str, Argument("TOPIC", "Name of the topic.", complete="topic")]


class SparkOptions(Struct, frozen=True):
    """Where a job runs, and where its tasks write their output."""

    staging: Annotated[
        str | None,
        declare_option(
            "--staging",
            help="Staging directory or URL, for output of tasks before the driver commits it. Default: beside the "
            "journal or the store.",
            metavar="DIR",
            complete="directory",
            panel=SPARK_PANEL,
        ),
    ] = None
    master: Annotated[
        str | None,
        declare_option(
            "--master",
            help="Spark master: local[*] (all processors of this machine), spark://..., yarn.",
            panel=SPARK_PANEL,
        ),
    ] = None
    conf: Annotated[
        list[str] | None,
        declare_option(
            "--conf", help="Spark configuration property. May be repeated.", metavar="NAME=VALUE", panel=SPARK_PANEL
        ),
    ] = None


class DataSetOptions(Struct, frozen=True, kw_only=True):
    """The data set that a job writes: its place, format and partitions, and options of the Spark writer."""

    output: Annotated[
        str,
        declare_option(
            "--output", help="Directory to write, or a file that ends in .sow.", metavar="PATH", complete="file"
        ),
    ]
    format: Annotated[
        str | None,
        declare_option(
            "--output-format",
            help="Output format. Default: sow for a path that ends in .sow, otherwise parquet.",
            choices=DATA_SETS,
        ),
    ] = None
    partition_by: Annotated[
        list[str] | None,
        declare_option("--partition-by", help="Partition by this field. May be repeated.", metavar="PATH"),
    ] = None
    fields: Annotated[
        str | None,
        declare_option(
            "--fields",
            help="Write the payload as a column of these fields (CSV: one column each), such as 'id INT, name "
            "STRING', or infer them. Default: as bytes.",
            metavar="DDL",
        ),
    ] = None
    writer: Annotated[
        list[str] | None,
        declare_option("--writer", help="Option of the Spark writer. May be repeated.", metavar="NAME=VALUE"),
    ] = None
    force: Annotated[bool, declare_option("--force", help="Replace existing output.")] = False


class JobProgress:
    """Progress of a job on standard error.

    On a terminal, one line that is overwritten; it appears before Spark is started, which takes longer than most short
    jobs. With ``--progress json``, an object per second; otherwise, as in a log file, a line every
    ``LOG_INTERVAL_SECONDS``.
    """

    def __init__(self, invocation: Invocation, monotonic: Callable[[], float] = time.monotonic) -> None:
        settings = invocation.settings
        self.invocation = invocation
        self._streams, self._name, self._clock = invocation.streams, invocation.command, monotonic
        self._json = settings.progress == "json"
        self._drawn = invocation.shows_progress()
        self._logged = not self._drawn and settings.progress == "auto" and not settings.quiet
        self._batches = ""
        self._began = monotonic()
        self._next = self._began + (LOG_INTERVAL_SECONDS if self._logged else 0.0)
        # A watching thread reports the tasks, the main thread the phases of the driver.
        self._lock = threading.Lock()
        self._is_on_screen = False
        if self._drawn:
            self._streams.under = self.erase

    @property
    def is_shown(self) -> bool:
        """True if progress is shown."""
        return self._json or self._drawn or self._logged

    @property
    def watch(self) -> Callable[[str, int, int], None]:
        """The progress callback for an instance."""
        from sowctl.engine.instance import ignore_progress

        return self.show_phase if self.is_shown else ignore_progress

    def show_start(self) -> None:
        """Show that Spark is starting."""
        self._show({"phase": "starting Spark"}, ["starting Spark"], at_once=True)

    def show_tasks(self, progress: StageProgress) -> None:
        """Show the finished tasks of the running stages, and the rows and bytes that they processed."""
        row = {
            "counted": "tasks",
            "done": progress.done,
            "total": progress.tasks,
            "stage": progress.stage,
            "rows": progress.rows,
            "bytes": progress.bytes,
        }
        words = [f"{progress.done:,} of {format_count(progress.tasks, 'task')}"]
        if progress.rows:
            words.append(format_count(progress.rows, "row"))
        if progress.bytes:
            words.append(format_bytes(progress.bytes))
        self._show(row, words, stage=progress.stage, share=(progress.done, progress.tasks))

    def show_phase(self, what: str, done: int, total: int) -> None:
        """Show ``done`` of ``total`` (0: unknown) ``what`` of the driver's own work, a plural noun."""
        row = {"counted": what, "done": done, "total": total}
        self._show(row, [format_share(what, done, total)], share=(done, total))

    def show_batch(self, progress: Progress) -> None:
        """Show that a stream has processed another batch."""
        behind = format_count(progress.behind, "entry", "entries")
        lag = f", {behind} ({format_bytes(progress.bytes_behind)}) behind" if progress.behind else ""
        batches = format_count(progress.batches, "batch", "batches")
        self._batches = f"{batches}, {format_count(progress.read, 'entry', 'entries')}{lag}"
        self._show({"counted": "batches", **asdict(progress)}, [], at_once=True)

    def erase(self) -> None:
        """Erase the line before other output; it may be drawn again."""
        if self._is_on_screen:
            self._is_on_screen = False
            self._streams.draw_line("")

    def end(self) -> None:
        """Erase the line permanently."""
        with self._lock:
            self.erase()
            if self._drawn:
                self._drawn, self._streams.under = False, None

    def _show(
        self,
        row: Mapping[str, object],
        words: list[str],
        *,
        stage: str = "",
        share: tuple[int, int] = (0, 0),
        at_once: bool = False,
    ) -> None:
        with self._lock:
            now = self._clock()
            is_due = now >= self._next
            words = ([self._batches] if self._batches else []) + words
            if self._json and (at_once or is_due):
                self._next = now + JSON_INTERVAL_SECONDS
                self._streams.write_stderr_json({"command": self._name, **row, "seconds": round(now - self._began, 1)})
            elif self._drawn and (at_once or is_due):
                self._next = now + DRAW_INTERVAL_SECONDS
                columns = self._streams.measure_columns(self._streams.stderr) - 1
                # The line is overwritten; the rest of a longer previous line is erased.
                self._is_on_screen = True
                self._streams.draw_line(_fit_line(self._name, words, stage, share, columns))
            elif self._logged and is_due:
                self._next = now + LOG_INTERVAL_SECONDS
                told = ", ".join([*words, format_duration(now - self._began, whole=True)])
                self._streams.write_stderr(f"{self._name}: {told}; {stage}" if stage else f"{self._name}: {told}")


def _fit_line(name: str, words: Sequence[str], stage: str, share: tuple[int, int], columns: int) -> str:
    """``pipeline load: [####------] 3 of 8 tasks, 812,000 rows, 214.0 MiB; load orders``, shortened to ``columns``.

    Parts that do not fit are omitted completely: first the stage, then the bar, then the name of the command, which its
    user has just typed, and finally the last of the words.
    """
    bar = ""
    if share[1]:
        full = BAR_COLUMNS * min(share) // share[1]
        bar = f"[{'#' * full}{'-' * (BAR_COLUMNS - full)}] "
    for some in range(len(words), 0, -1):
        text = ", ".join(words[:some])
        named = [f"{name}: {bar}{text}; {stage}"] if stage else []
        for line in (*named, f"{name}: {bar}{text}", f"{name}: {text}", text):
            if len(line) <= columns:
                return line
    return words[0]


@contextmanager
def open_job_session(options: SparkOptions, progress: JobProgress, *, reads: int | None = None) -> Iterator[Any]:
    """A session for one job: quiet unless --verbose, with ``progress`` shown, closed at the end.

    ``reads`` is the number of bytes that the job will read, None if unknown.

    Raises UsageError ``SOW-SPK-001`` without the extra, and the errors of the start; failures of Spark itself become
    StorageError ``SOW-SPK-070``.
    """
    from sowctl.spark.jobs.report import translate_spark_errors
    from sowctl.spark.sessions import LOCAL_MASTER, open_session

    invocation = progress.invocation
    wanted = parse_pairs("--conf", options.conf)
    verbose = invocation.settings.verbose > 0
    app = f"sowctl {invocation.command}"
    progress.show_start()
    with (
        _silence_logging(verbose),
        open_session(
            options.master or LOCAL_MASTER,
            environment=invocation.environ,
            conf=wanted,
            app=app,
            verbose=verbose,
            short=reads is not None and reads < MAX_SHORT_JOB_BYTES,
        ) as spark,
        _show_progress(progress, spark),
        translate_spark_errors(),
    ):
        # None unless a setting enables the web interface.
        if (url := spark.sparkContext.uiWebUrl) is not None:
            invocation.note(f"Spark web interface: {url}")
        yield spark


@contextmanager
def _silence_logging(verbose: bool) -> Iterator[None]:
    """Suppress log messages of Spark's Python side about calls that an interrupt aborted."""
    import logging

    root, nobody = logging.getLogger(), logging.NullHandler()
    if not verbose:
        # Without a handler, Python's logging writes warnings to standard error.
        root.addHandler(nobody)
    try:
        yield
    finally:
        root.removeHandler(nobody)


def count_journal_bytes(instance: Instance, directory: str | None = None) -> int | None:
    """The stored size in bytes of the journals that a job folds; None if there are none yet."""
    from sowctl.engine.topics.positions import open_log
    from sowctl.remote import place

    try:
        with open_log(instance, directory=None if directory is None else place.parse_place(directory)) as log:
            return sum(file.size for file in log.list_files())
    except SowError:
        # The job itself reports the error, in more detail.
        return None


def count_file_bytes(paths: Sequence[str]) -> int | None:
    """The size of files in bytes; None if one is not on this machine."""
    try:
        return sum(Path(path).stat().st_size for path in paths)
    except OSError:
        return None


def parse_pairs(name: str, texts: Sequence[str] | None) -> dict[str, str]:
    """Parse ``NAME=VALUE`` texts. Raises UsageError ``SOW-CLI-075``."""
    found = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError("SOW-CLI-075", f"{name}: {text!r} is not NAME=VALUE")
        found[key.strip()] = value
    return found


def resolve_topic(
    instance: Instance, name: str, message_type: str | None = None, *, logged: bool = False
) -> TopicConfig:
    """The only topic, or logical topic, of this name; with ``logged`` also one that only the transaction log names."""
    from sowctl.engine.topics.targets import find_publish_topic, find_topic
    from sowctl.errors import MissingError

    try:
        return find_topic(instance, name, message_type)
    except MissingError as missing:
        if not logged or missing.code != "SOW-ENG-016":
            raise
    return find_publish_topic(instance, name, message_type)


def parse_staging(text: str | None) -> Place | None:
    """The directory of ``--staging``, local or at a URL."""
    from sowctl.remote.place import resolve_place

    return None if text is None else resolve_place(Path.cwd(), text)


def build_output(options: DataSetOptions, spark: SparkOptions, *, meta: bool = False) -> Output:
    """Build the output of a job from the options. Raises UsageError."""
    from sowctl.spark.jobs.outputs.output_spec import Output

    declared = "" if options.fields is not None and options.fields.strip().lower() == "infer" else options.fields
    found = parse_staging(spark.staging)
    # The driver creates a store for a URL in a local directory, which staging at a URL does not provide.
    own = str(found) if isinstance(found, Path) else None
    made = Output(
        resolve_output(options.output, options.format),
        options.format,
        tuple(options.partition_by or ()),
        declared,
        meta,
        options.force,
        parse_pairs("--writer", options.writer),
        own,
    )
    made.check()
    return made


def resolve_output(path: str, format: str | None) -> str:
    """Return the output for Spark: an absolute path, a URL, or the name of a table."""
    from sowctl.remote.place import is_file_url
    from sowctl.spark.jobs.outputs.lakes import is_table
    from sowctl.spark.paths import is_remote

    # a ``file`` URL is kept: without the scheme, Spark would use its default file system
    keep = is_remote(path) or is_file_url(path) or is_table(format, path)
    return path if keep else str(Path(path).absolute())


def show_job_report(invocation: Invocation, report: JobReport, summary: str | None) -> None:
    """Print the report of a job: one line of JSON on standard output with ``--summary json``, else in words."""
    if summary == "json":
        from sowctl.output import reports

        invocation.streams.stdout.write(reports.encode_report(report).encode() + b"\n")
        invocation.streams.stdout.flush()
    elif summary == "text":
        invocation.streams.write_stderr(*format_job_report(report).split("\n"))
    else:
        invocation.note(*format_job_report(report).split("\n"))


def format_entry(row: StreamEntry) -> bytes:
    """Return the line of an entry: its message or, for a deletion, its line in ``journal dump``."""
    if row.payload is not None:
        return row.payload
    from sowctl.output.members import encode_compact

    key = None if row.sow_key is None else str(row.sow_key)
    told = {"topic": row.topic, "sow_key": key, "txid": row.txid, "operation": row.operation}
    return encode_compact(told).encode()


def format_job_report(report: JobReport) -> str:
    """``load orders: 812 records, 3 rejected; 214.0 MiB in 6.1 s, 12 partitions``."""
    from sowctl.output.display import escape_line
    from sowctl.values.display import format_bytes, format_count, format_duration

    # A view is shown by its own name; the report as JSON has the topics that it reads.
    names = (report.details["view"],) if "view" in report.details else report.topics
    what = " ".join((report.job, ", ".join(map(escape_line, names)))).strip()
    counts = [format_count(report.records, "record")]
    if report.rejected:
        counts.append(f"{report.rejected:,} rejected")
    if duplicates := report.details.get("commit", {}).get("duplicates"):
        counts.append(f"{format_count(duplicates, 'duplicate')} that the publisher had already sent")
    lasted = format_duration(report.seconds)
    volume = f"{format_bytes(report.bytes)} in {lasted}" if report.bytes else lasted
    where = f"; {escape_line(report.output)}" if report.output else ""
    return f"{what}: {', '.join(counts)}; {volume}, {format_count(report.partitions, 'partition')}{where}"


@contextmanager
def _show_progress(progress: JobProgress, spark: Any) -> Iterator[None]:
    """Show the tasks of the running stages, if progress is shown."""
    from sowctl.spark.jobs.progress import watch_progress

    if not progress.is_shown:
        yield
        return
    try:
        with watch_progress(spark, progress.show_tasks):
            yield
    finally:
        progress.end()
