"""load: load files into a topic; executors stage the messages, the driver commits them as one group
(``sowctl-pipeline-load(1)``).

NDJSON files are split into byte ranges at line breaks, and each line is a message. Each file compressed with gzip or
zstd is read by one task. Rows of CSV, Parquet and ORC are converted to messages of the topic's type, or contain
messages in a column ``payload``. Messages are ordered by (file, position), independent of tasks: files in the order
given, those of a pattern or below a directory sorted by path. Partition columns are read from the paths here, not by
Spark, so that they have the same types as with ``publish --from``.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from sowctl.arrow.inputs.partitions import (
    PartitionValues,
    append_partitions,
    build_order_key,
    list_partition_names,
    read_partitions,
)
from sowctl.engine.bulk.commit import RefusalReporting, commit_run
from sowctl.engine.bulk.staging import StagedAttempt, StagePlan, hold_staging_area
from sowctl.engine.bulk.task import StageTask
from sowctl.engine.options import PublishOptions
from sowctl.engine.reports import CommitReport, Rejected
from sowctl.engine.writing.rejects import format_reject_line
from sowctl.errors import UsageError
from sowctl.remote.place import Place, parse_url
from sowctl.spark.jobs.inputs import (
    COMPRESSED_SUFFIXES,
    InputSplit,
    expand_paths,
    find_large_compressed,
    read_lines,
    split_files,
)
from sowctl.spark.jobs.outputs.delivery import fetch_files, hadoop_supports
from sowctl.spark.jobs.progress import Work
from sowctl.spark.jobs.report import JobReport
from sowctl.spark.jobs.tasks import collect_frame, describe_stages, format_attempt_name, run_tasks
from sowctl.spark.jobs.visibility import require_visibility
from sowctl.spark.paths import is_remote, parse_local_path
from sowctl.values.jsonline import format_json_line

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance

Format = Literal["ndjson", "csv", "parquet", "orc"]
FORMATS: tuple[str, ...] = ("ndjson", "csv", "parquet", "orc")
FORMATS_BY_SUFFIX = {
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
    ".csv": "csv",
    ".parquet": "parquet",
} | {".orc": "orc"}
SPLIT_BYTES = 32 << 20
PAYLOAD_COLUMN = "payload"
_FILE, _BLOCK = "__file", "__block"
_FILE_SCHEME_PATTERN = re.compile(r"^file:/+")


class LoadOptions(Struct, frozen=True):
    """Options of a load. ``format`` None: determined by the suffixes of the files. ``reader`` are options of Spark's
    reader for CSV, Parquet and ORC. ``rejects`` is a file for rejected messages. ``publish`` contains the handling of
    bad messages, times, keys and publisher; with ``client``, its ``sequence`` numbers the whole load, and a repeated
    load is a no-op."""

    format: Format | None = None
    publish: PublishOptions = field(default_factory=PublishOptions)
    operation: Literal["publish", "delta", "delete"] = "publish"
    rejects: str | None = None
    reader: Mapping[str, str] = field(default_factory=dict)
    split_bytes: int = SPLIT_BYTES


DEFAULT_OPTIONS = LoadOptions()


def load(
    spark: SparkSession,
    instance: Instance,
    topic: TopicConfig,
    paths: Sequence[str],
    options: LoadOptions = DEFAULT_OPTIONS,
    *,
    staging_directory: Place | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> JobReport:
    """Load the files of ``paths`` (patterns allowed) into ``topic``, all of them or none.

    Raises MissingError ``SOW-SPK-040`` if a path matches no file, UsageError, and what a commit raises.
    """
    started = monotonic()
    # URLs that Hadoop does not support are read by :mod:`sowctl.remote`.
    ours = any(is_remote(path) and not hadoop_supports(spark, path) for path in paths)
    files = expand_paths(paths, through_door=ours)
    kind = options.format or _kind_of(files)
    report = JobReport("load", (topic.name,))
    # With a base path, Spark reads these columns from the directory names; its options are case-insensitive.
    has_base = any(name.lower() == "basepath" for name in options.reader)
    roots = [path if is_remote(path) else str(parse_local_path(path)) for path in paths]
    if kind == "ndjson" and (columns := list_partition_names(read_partitions(files, roots))):
        # Notify before loading, because the values of these columns are lost.
        instance.notify(f"partition columns are not added to ndjson messages: {', '.join(columns)}")
    with hold_staging_area(instance, topic, directory=staging_directory) as area:
        require_visibility(spark, instance, area.place)
        plan = area.build_plan(options.publish, operation=options.operation, keep_rejects=options.rejects is not None)
        before: Mapping[str, int] = {}
        # Tasks read these lines without Spark's readers, to know the offset of each; Spark reads all other files.
        if kind == "ndjson" and (ours or not any(is_remote(file) for file in files)):
            splits = list(split_files(files, options.split_bytes))
            for file in (whole := find_large_compressed(splits, options.split_bytes)):
                instance.notify(f"{file} is compressed and cannot be split: one task reads the whole file")
            if whole:
                report.details["uncut"] = whole
            done = run_tasks(
                spark, splits, partial(stage_lines, plan), what=f"load {topic.name}", measure=measure_attempt
            )
            before = count_lines_before(splits, done)
            done = [number_samples(one, before[one.attempt]) for one in done]
        else:
            # Replace directories at URLs by their files, so that Spark does not add partition columns with other types.
            files = files if ours else _list_spark_files(spark, files)
            here = fetch_files(spark, files, area) if ours else files
            partitions = [] if has_base or kind == "ndjson" else read_partitions(files, roots)
            done = _stage_rows(spark, here, kind, plan, options.reader, f"load {topic.name}", partitions)
        late: list[Rejected] = []
        try:
            # The topic is unchanged until this line, which publishes everything or nothing.
            names = [str(parse_url(file)) if is_remote(file) else file for file in files]
            made = commit_run(
                area,
                plan,
                done,
                publisher=_publisher(options.publish),
                refusals=RefusalReporting(sources=names, on_reject=late.append),
            )
        finally:
            # In ``finally``, because rejected messages are saved even if the commit fails because of them.
            if options.rejects is not None:
                _keep_rejects(Path(options.rejects), area.directory, done, late, before)
    return _fill_report(report, made, len(done), monotonic() - started)


def _fill_report(report: JobReport, made: CommitReport, partitions: int, seconds: float) -> JobReport:
    report.read, report.records, report.bytes = made.messages, made.published, made.bytes
    report.rejected, report.partitions, report.seconds = made.rejected, partitions, seconds
    report.already_expired = made.already_expired
    row = asdict(made)
    row["samples"] = [{k: v for k, v in asdict(sample).items() if k != "payload"} for sample in made.samples]
    report.details["commit"] = row
    return report


def _publisher(options: PublishOptions) -> tuple[str, int] | None:
    if options.client is None:
        return None
    # A repeated load is recognized by its sequence number.
    if options.sequence is None:
        raise UsageError("SOW-SPK-041", "a load by a named client requires --sequence, the sequence number of the load")
    return options.client, options.sequence


def _kind_of(files: Sequence[str]) -> str:
    names = [parse_url(file).name if is_remote(file) else file for file in files]
    # The suffix of the format precedes that of the compression.
    plain = [Path(name).stem if Path(name).suffix.lower() in COMPRESSED_SUFFIXES else name for name in names]
    kinds = {FORMATS_BY_SUFFIX.get(Path(name).suffix.lower()) for name in plain}
    if len(kinds) == 1 and None not in kinds:
        return cast(str, kinds.pop())
    raise UsageError("SOW-SPK-042", "the names of the files do not show their format", hint="add --input-format")


def stage_lines(plan: StagePlan, split: InputSplit) -> StagedAttempt:
    """Stage the lines of a split, on an executor."""
    with StageTask(plan, format_attempt_name()) as task:
        for part in read_lines(split):
            task.count_blank(part.blank)
            for one in part.refused:
                task.note_rejected(one, split.number)
            task.add_messages(part.payloads, split.number, part.offsets, source=split.path, lines=part.lines)
        return task.finish()


def measure_attempt(attempt: StagedAttempt) -> Work:
    """Return the messages of an attempt, and the payload bytes that it staged."""
    return attempt.messages, sum(segment.payload_bytes for segment in attempt.segments)


def _stage_rows(
    spark: SparkSession,
    files: Sequence[str],
    kind: str,
    plan: StagePlan,
    reader: Mapping[str, str],
    what: str,
    partitions: Sequence[PartitionValues],
) -> list[StagedAttempt]:
    """Stage rows that Spark reads; ``partitions`` are the partition columns of each file, empty for none."""
    from pyspark.sql import functions as f

    # By default the first line contains the names of the fields; the caller's options override this.
    given = {"header": "true", **reader} if kind == "csv" else dict(reader)
    given_numbers = _number_files(_list_spark_files(spark, files))
    if kind == "ndjson":
        # Only LF ends a line. By default, Spark also splits at CR, which a message may contain.
        frame = spark.read.option("lineSep", "\n").text(list(map(_path_of, files)))
        numbers = number_reported_files(frame.inputFiles(), given_numbers)
        frame = frame.select(f.col("value").cast("binary").alias(PAYLOAD_COLUMN), "_metadata")
    else:
        frame = spark.read.format(kind).options(**given).load(list(map(_path_of, files)))
        numbers = number_reported_files(frame.inputFiles(), given_numbers)
        frame = frame.select("*", "_metadata")
    frame = frame.withColumn(_FILE, f.col("_metadata.file_path"))
    frame = frame.withColumn(_BLOCK, f.col("_metadata.file_block_start")).drop("_metadata")
    describe_stages(spark, what)
    stage = _RowStage(plan, numbers, partitions, verbatim=kind == "ndjson")
    return collect_frame(frame, stage, measure=measure_attempt)


def _number_files(files: Sequence[str]) -> dict[str, int]:
    """Return the number of each file by its path. Raises UsageError ``SOW-SPK-049`` if a file is given twice."""
    numbers: dict[str, int] = {}
    for number, file in enumerate(files):
        if numbers.setdefault(_path_of(file), number) != number:
            raise UsageError(
                "SOW-SPK-049",
                "the file is given twice, and Spark cannot distinguish its rows",
                place=file,
                hint="name each file once",
            )
    return numbers


def number_reported_files(reported: Sequence[str], given: Mapping[str, int]) -> dict[str, int]:
    """Return the number of each file by the name that Spark reports. Runs on the driver, where symbolic links in paths
    can be resolved.

    Raises UsageError ``SOW-SPK-049`` for a file that was not given, because the order of its messages is unknown.
    """
    found: dict[str, int] = {}
    for name in reported:
        number = given.get(_path_of(name))
        if number is None:
            raise _build_unknown_file_error(name)
        found[_join_slashes(name)] = number
    return found


def _join_slashes(name: str) -> str:
    """Normalize the slashes of a file URL: Spark reports ``file:/`` in rows, but ``file:///`` elsewhere."""
    return _FILE_SCHEME_PATTERN.sub("file:/", name)


def _build_unknown_file_error(name: str) -> UsageError:
    return UsageError(
        "SOW-SPK-049", "Spark reports a file under another path, so the order of its rows is unknown", place=name
    )


def _list_spark_files(spark: SparkSession, files: Sequence[str]) -> list[str]:
    """Return the files, with each remote URL, which may be a directory or pattern, replaced by the files that Spark
    finds."""
    found: list[str] = []
    for file in files:
        found += sorted(spark.read.text(file).inputFiles(), key=build_order_key) if is_remote(file) else [file]
    return found


def _path_of(text: str) -> str:
    """Normalize a path, so that the path given and the one that Spark reports are equal.

    Hadoop removes ``..`` from a path textually. After a symbolic link that yields another file, so links of directories
    are resolved here. A link at the end is kept, because two links to one file are two inputs.
    """
    if is_remote(text):
        return text
    path = parse_local_path(text)
    return str(path.parent.resolve() / path.name)


class _RowStage:
    """Stages the rows of one task, and yields the staged attempt."""

    def __init__(
        self, plan: StagePlan, numbers: Mapping[str, int], partitions: Sequence[PartitionValues], *, verbatim: bool
    ) -> None:
        self.plan = plan
        self.numbers = numbers
        self.partitions = partitions
        self.verbatim = verbatim

    def __call__(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[StagedAttempt]:
        from sowctl.spark.jobs.messages import MessageBuilder

        builder = MessageBuilder(self.plan)
        counts: dict[tuple[str, int], int] = {}
        with StageTask(self.plan, format_attempt_name()) as task:
            for batch in batches:
                for path, block, part in _runs(batch):
                    # The rows of a block may be spread over several batches; numbers continue from the previous one.
                    start = counts.get((path, block), 0)
                    counts[path, block] = start + part.num_rows
                    # Rows are numbered from the offset of their block, so the rows of later blocks sort after them.
                    positions = range(block + start, block + start + part.num_rows)
                    self._add(task, builder, part, self._number_of(path), positions, path)
            done = task.finish()
        yield done

    def _number_of(self, path: str) -> int:
        """Return the number of a file by the name that Spark reports.

        Raises UsageError ``SOW-SPK-049`` for a file that was not given, because the order of its messages is unknown.
        """
        number = self.numbers.get(_join_slashes(path))
        if number is None:
            raise _build_unknown_file_error(path)
        return number

    def _add(
        self, task: StageTask, builder: Any, part: pyarrow.RecordBatch, number: int, positions: range, path: str
    ) -> None:
        if self.partitions and self.partitions[number] and part.schema.names != [PAYLOAD_COLUMN]:
            part = append_partitions(part, self.partitions[number])
        payloads, envelopes, refused = builder.build_messages(part)
        kept = [place for place, payload in enumerate(payloads) if payload is not None]
        for place, code, message in refused:
            task.note_rejected(Rejected(path, 0, positions[place], code, message, None), number)
        chosen = [payloads[place] for place in kept]
        if self.verbatim:
            blank = [place for place, payload in zip(kept, chosen, strict=True) if not payload.strip(b" \t\r")]
            task.count_blank(len(blank))
            kept = [place for place in kept if place not in set(blank)]
            # As in the reader of local files, CR LF ends a line like LF, and lines of white space are blank.
            chosen = [payloads[place].removesuffix(b"\r") for place in kept]
        some = None if envelopes is None else [envelopes[place] for place in kept]
        task.add_messages(chosen, number, [positions[place] for place in kept], envelopes=some, source=path)


def _runs(batch: pyarrow.RecordBatch) -> Iterator[tuple[str, int, pyarrow.RecordBatch]]:
    """Yield file, block and rows for each run of rows of one block, without the columns of file and block."""
    import numpy as np
    import pyarrow.compute as pc

    files = batch.column(_FILE).dictionary_encode()
    blocks = batch.column(_BLOCK).to_numpy()
    codes = pc.fill_null(files.indices, 0).to_numpy(zero_copy_only=False)
    # A new run begins where the file or the block differs from the previous row.
    changes = np.flatnonzero((codes[1:] != codes[:-1]) | (blocks[1:] != blocks[:-1])) + 1
    rest = batch.drop_columns([_FILE, _BLOCK])
    for start, stop in pairwise([0, *changes.tolist(), batch.num_rows]):
        if start < stop:
            yield files.dictionary[int(codes[start])].as_py(), int(blocks[start]), rest.slice(start, stop - start)


def count_lines_before(splits: Sequence[InputSplit], done: Sequence[StagedAttempt]) -> dict[str, int]:
    """Return, by the name of each attempt, the number of lines in its file before its split.

    If a task stops at a rejected message, it does not count the following lines. Their number is not needed, because
    the run ends with that message.
    """
    lines: dict[str, int] = {}
    found = {}
    for split, attempt in zip(splits, done, strict=True):
        found[attempt.attempt] = lines.get(split.path, 0)
        lines[split.path] = found[attempt.attempt] + attempt.messages + attempt.blank
    return found


def number_samples(attempt: StagedAttempt, before: int) -> StagedAttempt:
    """Return the attempt with the line numbers of its rejected messages increased by ``before``, to count in the
    file."""
    return replace(attempt, samples=tuple(replace(one, line=one.line + before) for one in attempt.samples))


def _keep_rejects(
    path: Path,
    directory: Path,
    done: Sequence[StagedAttempt],
    late: Sequence[Rejected],
    before: Mapping[str, int],
) -> None:
    """Append the messages that successful attempts rejected, in the order of the input, then those of the commit."""
    # Failed attempts may also have written files of rejected messages; only the files in the results are read.
    with path.open("ab") as file:
        for attempt in sorted(done, key=lambda one: one.first):
            if attempt.rejects is not None:
                for line in (directory / attempt.rejects).read_bytes().splitlines(keepends=True):
                    file.write(_move_line(line, before.get(attempt.attempt, 0)))
        file.write(b"".join(map(format_reject_line, late)))


def _move_line(line: bytes, before: int) -> bytes:
    """Return a line of a rejects file with ``before`` added to its line number."""
    if not before:
        return line
    row = json.loads(line)
    row["line"] += before
    return format_json_line(row).encode() + b"\n"
