"""load: files into a topic, prepared on the executors, committed by the driver as one group
(``sowctl-pipeline-load(1)``).

NDJSON files are cut at line breaks by byte ranges, and a line is a message as it stands; those that gzip or zstd have
packed are unpacked, each by one task. Rows of CSV, Parquet and ORC
become messages of the topic's type, or give theirs in a column ``payload``. The order of the messages is (file,
position), whichever task had them: files in the order given, those of a pattern or below a directory in the order of
their paths. Partition columns come from the paths, not from Spark, so that their types are those of ``publish --from``.
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
    """Options of a load. ``format`` None: told by the files' endings. ``reader`` are options of Spark's reader for
    CSV, Parquet and ORC. ``rejects``: a file for refused messages. ``publish`` says what becomes of bad messages, and
    times, keys and publisher; with ``client``, ``sequence`` is the number of the whole load: a repeat is a no-op."""

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

    Raises MissingError ``SOW-SPK-040`` where a path matches nothing, UsageError, and what a commit raises.
    """
    started = monotonic()
    # Places that Hadoop does not support are read by :mod:`sowctl.remote`.
    ours = any(is_remote(path) and not hadoop_supports(spark, path) for path in paths)
    files = expand_paths(paths, through_door=ours)
    kind = options.format or _kind_of(files)
    report = JobReport("load", (topic.name,))
    # With a base path, Spark reads these columns from the names of the directories; its options have no letter case.
    has_base = any(name.lower() == "basepath" for name in options.reader)
    roots = [path if is_remote(path) else str(parse_local_path(path)) for path in paths]
    if kind == "ndjson" and (columns := list_partition_names(read_partitions(files, roots))):
        # Said before anything is loaded: these columns are nowhere else.
        instance.notify(f"partition columns are not added to ndjson messages: {', '.join(columns)}")
    with hold_staging_area(instance, topic, directory=staging_directory) as area:
        require_visibility(spark, instance, area.place)
        plan = area.build_plan(options.publish, operation=options.operation, keep_rejects=options.rejects is not None)
        before: Mapping[str, int] = {}
        # Local lines are cut and read by our own tasks, which know the offset of each; Spark reads all else.
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
            # Directories at URLs become their files: in them Spark finds no partition columns of its own types.
            files = files if ours else _list_spark_files(spark, files)
            here = fetch_files(spark, files, area) if ours else files
            partitions = [] if has_base or kind == "ndjson" else read_partitions(files, roots)
            done = _stage_rows(spark, here, kind, plan, options.reader, f"load {topic.name}", partitions)
        late: list[Rejected] = []
        try:
            # Nothing is in the topic before this line, which publishes everything or nothing.
            names = [str(parse_url(file)) if is_remote(file) else file for file in files]
            made = commit_run(
                area,
                plan,
                done,
                publisher=_publisher(options.publish),
                refusals=RefusalReporting(sources=names, on_reject=late.append),
            )
        finally:
            # In ``finally``: the refused messages are kept also where the commit fails because of them.
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
    # The sequence of the whole load is what makes a repeat a no-op.
    if options.sequence is None:
        raise UsageError("SOW-SPK-041", "a load by a named client requires --sequence, the sequence number of the load")
    return options.client, options.sequence


def _kind_of(files: Sequence[str]) -> str:
    names = [parse_url(file).name if is_remote(file) else file for file in files]
    # The ending of a packed file stands before that of its packing.
    plain = [Path(name).stem if Path(name).suffix.lower() in COMPRESSED_SUFFIXES else name for name in names]
    kinds = {FORMATS_BY_SUFFIX.get(Path(name).suffix.lower()) for name in plain}
    if len(kinds) == 1 and None not in kinds:
        return cast(str, kinds.pop())
    raise UsageError("SOW-SPK-042", "the names of the files do not show their format", hint="add --input-format")


def stage_lines(plan: StagePlan, split: InputSplit) -> StagedAttempt:
    """Stage the lines of one split (on an executor)."""
    with StageTask(plan, format_attempt_name()) as task:
        for part in read_lines(split):
            task.count_blank(part.blank)
            for one in part.refused:
                task.note_rejected(one, split.number)
            task.add_messages(part.payloads, split.number, part.offsets, source=split.path, lines=part.lines)
        return task.finish()


def measure_attempt(attempt: StagedAttempt) -> Work:
    """Messages of an attempt, and bytes of those that it staged."""
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
    """Stage rows that Spark reads; ``partitions`` are columns that the rows of each file get, empty for none."""
    from pyspark.sql import functions as f

    # The names in the first line are the fields of the messages; an option of the caller may say otherwise.
    given = {"header": "true", **reader} if kind == "csv" else dict(reader)
    given_numbers = _number_files(_list_spark_files(spark, files))
    if kind == "ndjson":
        # Only LF ends a line. Spark would otherwise also cut at a CR, which a message may contain.
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
    """The numbers of the files by their paths. Raises UsageError ``SOW-SPK-049`` for a file that is given twice."""
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
    """The numbers of the files by the names that Spark reports. Found on the driver, which has the links that a path
    may lead through.

    Raises UsageError ``SOW-SPK-049`` for a file that was not given: no order of its messages is made up.
    """
    found: dict[str, int] = {}
    for name in reported:
        number = given.get(_path_of(name))
        if number is None:
            raise _build_unknown_file_error(name)
        found[_join_slashes(name)] = number
    return found


def _join_slashes(name: str) -> str:
    """The name of a file as Spark reports it; of the same one, it writes ``file:/`` with rows and ``file:///`` else."""
    return _FILE_SCHEME_PATTERN.sub("file:/", name)


def _build_unknown_file_error(name: str) -> UsageError:
    return UsageError(
        "SOW-SPK-049", "Spark reports a file under another path, so the order of its rows is unknown", place=name
    )


def _list_spark_files(spark: SparkSession, files: Sequence[str]) -> list[str]:
    """The files as Spark names them: of a directory or a pattern at a URL, which Spark reads itself, each by name."""
    found: list[str] = []
    for file in files:
        found += sorted(spark.read.text(file).inputFiles(), key=build_order_key) if is_remote(file) else [file]
    return found


def _path_of(text: str) -> str:
    """One spelling for the path that was given and the one that Spark reports.

    Hadoop takes ``..`` out of a path by its text alone, which is another file where a link stands before it: so links
    of directories are followed here. The file's own name stays, as two links of one file are two inputs.
    """
    if is_remote(text):
        return text
    path = parse_local_path(text)
    return str(path.parent.resolve() / path.name)


class _RowStage:
    """Stages the rows of one task, and says what it has staged."""

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
                    # Batches of one block may come in several parts; rows go on counting where the last part ended.
                    start = counts.get((path, block), 0)
                    counts[path, block] = start + part.num_rows
                    # rows of a block count from the block's own offset: later blocks lie behind
                    positions = range(block + start, block + start + part.num_rows)
                    self._add(task, builder, part, self._number_of(path), positions, path)
            done = task.finish()
        yield done

    def _number_of(self, path: str) -> int:
        """The number of a file as Spark names it.

        Raises UsageError ``SOW-SPK-049`` for a file that was not given: no order of its messages is made up.
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
            # As the reader of local lines has it: CR LF ends a line like LF, and a line of white space is no message.
            chosen = [payloads[place].removesuffix(b"\r") for place in kept]
        some = None if envelopes is None else [envelopes[place] for place in kept]
        task.add_messages(chosen, number, [positions[place] for place in kept], envelopes=some, source=path)


def _runs(batch: pyarrow.RecordBatch) -> Iterator[tuple[str, int, pyarrow.RecordBatch]]:
    """The rows of a batch, block by block, without the columns that say which."""
    import numpy as np
    import pyarrow.compute as pc

    files = batch.column(_FILE).dictionary_encode()
    blocks = batch.column(_BLOCK).to_numpy()
    codes = pc.fill_null(files.indices, 0).to_numpy(zero_copy_only=False)
    # A new stretch begins where the file or the block differs from the row before.
    changes = np.flatnonzero((codes[1:] != codes[:-1]) | (blocks[1:] != blocks[:-1])) + 1
    rest = batch.drop_columns([_FILE, _BLOCK])
    for start, stop in pairwise([0, *changes.tolist(), batch.num_rows]):
        if start < stop:
            yield files.dictionary[int(codes[start])].as_py(), int(blocks[start]), rest.slice(start, stop - start)


def count_lines_before(splits: Sequence[InputSplit], done: Sequence[StagedAttempt]) -> dict[str, int]:
    """The lines of its file before the split of each attempt, by the names of attempts.

    A task counts the lines of its split only until it stops at a refused message: what comes behind is not known then,
    nor asked for, as the run ends with that message.
    """
    lines: dict[str, int] = {}
    found = {}
    for split, attempt in zip(splits, done, strict=True):
        found[attempt.attempt] = lines.get(split.path, 0)
        lines[split.path] = found[attempt.attempt] + attempt.messages + attempt.blank
    return found


def number_samples(attempt: StagedAttempt, before: int) -> StagedAttempt:
    """The attempt with the lines of its refused messages counted in their file, of which so many are ``before``."""
    return replace(attempt, samples=tuple(replace(one, line=one.line + before) for one in attempt.samples))


def _keep_rejects(
    path: Path,
    directory: Path,
    done: Sequence[StagedAttempt],
    late: Sequence[Rejected],
    before: Mapping[str, int],
) -> None:
    """Append what the winning attempts refused, in the order of the input, and what the commit did."""
    # Attempts that did not win may have left files of refused messages, too; only the names that came back are read.
    with path.open("ab") as file:
        for attempt in sorted(done, key=lambda one: one.first):
            if attempt.rejects is not None:
                for line in (directory / attempt.rejects).read_bytes().splitlines(keepends=True):
                    file.write(_move_line(line, before.get(attempt.attempt, 0)))
        file.write(b"".join(map(format_reject_line, late)))


def _move_line(line: bytes, before: int) -> bytes:
    """A line of a rejects file with the number of its line in the file."""
    if not before:
        return line
    row = json.loads(line)
    row["line"] += before
    return format_json_line(row).encode() + b"\n"
