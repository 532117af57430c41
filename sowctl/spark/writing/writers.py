"""Writing to a topic: tasks stage messages, the driver's commit publishes those of the winners as one group.

sowctl-spark(7), WRITING. A batch write and every batch of a stream are one group each. A stream's ``queryName`` is the
publisher, and its batch has a sequence number (:mod:`sowctl.spark.writing.sequences`): a batch that comes again is
recognised by the journal and not written again. Spark has no place for rows that were refused, nor for the counts of
each kind: they go to files of the driver's, which options name.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from msgspec.structs import asdict, replace
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from sowctl.arrow.message_encoder import find_root
from sowctl.engine.bulk.commit import RefusalReporting, RefusalWords, commit_run
from sowctl.engine.bulk.staging import (
    OPERATIONS,
    Operation,
    StagedAttempt,
    StagePlan,
    StagingArea,
    create_own_directory,
)
from sowctl.engine.bulk.task import StageTask
from sowctl.engine.options import PublishOptions
from sowctl.engine.reports import Rejected
from sowctl.engine.search.figures import needs_reindex
from sowctl.engine.writing.rejects import format_reject_line
from sowctl.errors import InputError, MissingError, SowError, UsageError
from sowctl.messages.framing.envelope import Envelope
from sowctl.remote.place import Place, RemotePath
from sowctl.spark.errors import carry_errors
from sowctl.spark.samecode import SameCode
from sowctl.spark.writing.row_encoder import EncodedRows, RowEncoder
from sowctl.spark.writing.sequences import StreamBatch
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    import pyarrow
    from pyspark import TaskContext
    from pyspark.sql.types import StructType

    from sowctl.engine.bulk.staging import StagedAttempt
    from sowctl.engine.reports import CommitReport, Rejected
    from sowctl.spark.origin import Origin
    from sowctl.spark.writing.staging import Staging

QUERY_ID_PROPERTY = "sql.streaming.queryId"
"""The property of a task that has the id of the stream it belongs to."""
COUNT_FIELDS = (
    "messages",
    "published",
    "inserted",
    "updated",
    "unchanged",
    "deleted",
    "missing",
    "duplicates",
    "rejected",
)


class WriteRequest(DescribedStruct, frozen=True):
    """Request for a write. ``operation`` None: rows say so in ``_operation``, else they are published.

    ``client`` is a stream's publisher, ``checkpoint`` where Spark keeps its state. ``overwrite``: what has no row is
    deleted. ``rejects`` and ``report`` are files of the driver's, for refused rows and for counts.
    """

    origin: Origin
    staging: Staging
    publish: PublishOptions
    operation: Operation | None
    overwrite: bool = False
    keep_stamps: bool = False
    client: str | None = None
    checkpoint: Place | None = None
    rejects: Path | None = None
    report: Path | None = None

    def check(self) -> None:
        """Raise UsageError where the options do not fit each other or the topic."""
        if self.overwrite and self.operation not in (None, "publish"):
            raise UsageError(
                "SOW-SPK-031", f"mode overwrite replaces records, so operation {self.operation} is not possible"
            )
        require_directory(self.rejects, "rejects")
        require_directory(self.report, "report")
        # Made for its refusals alone: what a topic cannot take is known before Spark starts a task.
        self._area().build_plan(self.publish)

    def _area(self, own: Path = Path()) -> StagingArea:
        """``own``: a directory of the driver's, for what is staged at a URL."""
        assert self.origin.topic is not None
        place = self.staging.directory
        if isinstance(place, RemotePath):
            return StagingArea(own, self.origin.topic, self.origin.build_instance(), place)
        return StagingArea(place, self.origin.topic, self.origin.build_instance())

    def _own(self, held: ExitStack) -> Path:
        if not isinstance(self.staging.directory, RemotePath):
            return Path()
        return held.enter_context(create_own_directory(self.origin.build_instance()))

    def build_plan(self, operation: Operation) -> StagePlan:
        """Build the plan of the tasks for one operation; two of one write differ in nothing else."""
        return self._area().build_plan(self.publish, operation=operation, keep_rejects=self.rejects is not None)

    def build_encoder(self, schema: StructType) -> RowEncoder:
        """Build the encoder that makes messages of rows. Raises UsageError ``SOW-SPK-030``."""
        topic = self.origin.topic
        assert topic is not None
        return RowEncoder(
            schema,
            self.origin.build_instance().find_message_type(topic.message_type),
            keep_stamps=self.keep_stamps,
            # A deletion needs no message, and rows that name their own operation may be deletions.
            by_key=self.operation in (None, "delete"),
            own_keys=topic.key_mode == "user",
            root=find_root(topic),
        )

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch: int | None = None) -> None:
        """Publish what the winners staged, as one group, and remove the directory whatever happens.

        ``batch``: the id of a stream's batch. Raises RefusedError ``SOW-SPK-171`` for one of another checkpoint.
        """
        # Only attempts that Spark counts have a message here: what others left in the directory is never looked at.
        staged = [one for message in messages if isinstance(message, StagedMessage) for one in message.staged]
        # The driver of a stream has made no directory, and where no task had rows there is none yet.
        self.staging.open()
        held = ExitStack()
        try:
            # Operations that rows name differ in their segments; everything else in the plan is common to them.
            plan = self.build_plan(self.operation or "publish")
            # Rows have no file; errors name the partition that they came in.
            names = [format_partition(number) for number in range(len(messages))]
            area = self._area(self._own(held))
            # A batch write has no publisher: Spark never commits it a second time, so there is nothing to recognise.
            found = None if batch is None else self._find_batch(messages, batch)
            publisher = None if found is None else (found.client, found.sequence)
            late: list[Rejected] = []
            try:
                made = commit_run(
                    area,
                    plan,
                    staged,
                    publisher=publisher,
                    is_repeated=None if found is None else found.is_repeated,
                    overwrite=self.overwrite,
                    refusals=RefusalReporting(ROW_REFUSAL_WORDS, names, late.append),
                )
            finally:
                # In ``finally``: refused rows are kept also where the commit fails because of them.
                if self.rejects is not None:
                    append_refused(self.rejects, area.directory, staged, late)
            if self.report is not None:
                append_counts(self.report, made, publisher)
            warn_missing(made)
        finally:
            held.close()
            self.staging.remove()
        loaded = [(made.topic, made.message_type, made.inserted + made.updated + made.deleted)]
        if needs_reindex(loaded):
            from sowctl.engine.verbs.reindex import reindex_loaded

            # The rows are published whatever becomes of this, which raises nothing that says otherwise.
            reindex_loaded(self.origin.build_instance(), loaded)

    def _find_batch(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> StreamBatch:
        assert self.origin.topic is not None
        assert self.client is not None
        # Spark tells the id to the tasks, and runs one for a batch without rows, too.
        found = {one.query_id for one in messages if isinstance(one, StagedMessage) and one.query_id is not None}
        (query_id,) = found
        return StreamBatch(self.origin.topic.name, self.client, query_id, batch, self.checkpoint)

    def stage_rows(self, batches: Iterable[pyarrow.RecordBatch], schema: StructType) -> StagedMessage:
        """Stage the rows of one attempt of one task. Raises UsageError ``SOW-SPK-099`` where a table of the catalog
        is made.
        """
        from pyspark import TaskContext

        context = TaskContext.get()
        number = context.partitionId() if context is not None else 0
        if context is not None:
            _refuse_catalog(context)
        if self.client is not None:
            # the directory of a stream goes with every batch; that of a batch write was made by its driver
            self.staging.open()
        with _Attempt(self, number) as attempt:
            encoder = self.build_encoder(schema)
            for batch in batches:
                if len(batch):
                    attempt.add(encoder.encode_rows(batch))
            query_id = None if context is None else context.getLocalProperty(QUERY_ID_PROPERTY)
            return attempt.finish(query_id)


class StagedMessage(WriterCommitMessage):
    """Message of a task to the driver; its base is Spark's, which no class of values can have.

    ``query_id``: the id of the stream, which Spark keeps in its checkpoint; None of a batch write.
    """

    def __init__(self, staged: tuple[StagedAttempt, ...], query_id: str | None = None) -> None:
        self.staged = staged
        self.query_id = query_id


EXCERPT_CHARACTERS = 200
"""Characters of a refused message that an error shows."""


def _excerpt(one: Rejected) -> str | None:
    """The beginning of the message, which holds its key: rows have no place that could be looked up."""
    return one.payload[:EXCERPT_CHARACTERS].decode("utf-8", "replace") if one.payload else None


ROW_REFUSAL_WORDS = RefusalWords(
    lambda one: f"{one.source}, row {one.offset + 1}",
    _excerpt,
    "option onError=skip skips invalid rows, maxErrors limits their number, rejects=FILE saves them",
    in_bytes=False,
)


def _refuse_catalog(context: TaskContext) -> None:
    """Refuse rows for a table that Spark is about to make in its catalog, before anything of them is staged.

    Spark makes such a table (saveAsTable, writeTo().create()) by a write within the execution of a command, and gives
    the write the same options as a plain one; the table is then read without them, so nothing could ever read it.
    Apart from that only the batches of a stream are written within another execution.
    """
    inner, outer = (context.getLocalProperty(f"spark.sql.execution.{name}") for name in ("id", "root.id"))
    streaming = context.getLocalProperty(QUERY_ID_PROPERTY) is not None
    if inner is not None and outer is not None and inner != outer and not streaming:
        raise UsageError(
            "SOW-SPK-099",
            "a Spark catalog table created from rows could not be read again. Nothing was written.",
            hint="use CREATE TABLE name USING sow OPTIONS (...), then INSERT INTO name to publish the rows",
        )


class _Attempt:
    """One attempt's segments: deletions by key apart from messages, both in the order of the rows."""

    def __init__(self, request: WriteRequest, number: int) -> None:
        self._request = request
        self._number = number
        # Spark may run a task twice at once. Each attempt writes under a name of its own, so neither spoils the other's
        # segments.
        self._name = f"{number}-{uuid4().hex}"
        self._tasks: dict[Operation, StageTask] = {}
        self._position = 0

    def add(self, rows: EncodedRows) -> None:
        """Stage the messages of one batch."""
        # Rows count through all batches of the partition: (partition, row) is the order in which messages are
        # committed.
        start = self._position
        self._position += len(rows.payloads)
        fixed = self._request.operation
        if fixed is not None or rows.operations is None:
            self._stage(fixed or "publish", rows, range(start, self._position))
            return
        for name in dict.fromkeys(rows.operations):
            if name not in OPERATIONS:
                row = start + rows.operations.index(name)
                raise InputError(
                    "SOW-SPK-032",
                    f"the operation of a row is {name!r}",
                    place=f"{format_partition(self._number)}, row {row + 1}",
                    hint="use publish, delta or delete",
                )
            places = [place for place, one in enumerate(rows.operations) if one == name]
            chosen = EncodedRows([rows.payloads[p] for p in places], [rows.envelopes[p] for p in places], None)
            # Each operation has segments of its own; the rows keep their positions, by which the commit puts them in
            # order again.
            self._stage(cast(Operation, name), chosen, [start + place for place in places])

    def _stage(self, operation: Operation, rows: EncodedRows, positions: Sequence[int]) -> None:
        task = self._tasks.get(operation)
        if task is None:
            task = self._tasks[operation] = StageTask(self._request.build_plan(operation), f"{self._name}-{operation}")
        envelopes = rows.envelopes
        if operation != "delete":
            # the key of a message follows from it, unless its publisher chooses keys
            topic = self._request.origin.topic
            if topic is None or topic.key_mode != "user":
                envelopes = [_without_key(one) for one in envelopes]
        source = format_partition(self._number)
        places = []
        payloads = []
        for place, made in enumerate(rows.payloads):
            if isinstance(made, bytes):
                places.append(place)
                payloads.append(made)
            else:
                code = made.code if isinstance(made, SowError) else "SOW-SPK-045"
                words = f"its columns cannot be converted to a message: {made}"
                task.note_rejected(Rejected(source, 0, positions[place], code, words, None), self._number)
        envelopes = [envelopes[place] for place in places]
        # Envelopes that say nothing are left out, so that the messages take the short way of plain payloads.
        bare = operation != "delete" and not any(_says_something(one) for one in envelopes)
        chosen = [positions[place] for place in places]
        task.add_messages(payloads, self._number, chosen, envelopes=None if bare else envelopes, source=source)

    def finish(self, query_id: str | None) -> StagedMessage:
        """Complete the segments."""
        return StagedMessage(tuple(task.finish() for task in self._tasks.values()), query_id)

    def __enter__(self) -> _Attempt:
        return self

    def __exit__(self, *error: Any) -> None:
        for task in self._tasks.values():
            task.__exit__(*error)


class BatchWriter(SameCode, DataSourceArrowWriter):
    """One batch write."""

    def __init__(self, request: WriteRequest, schema: StructType) -> None:
        self._request = request
        self._schema = schema
        request.check()
        request.build_encoder(schema)
        # Tasks of a batch write never make the directory: one that still runs after the end must not bring it back.
        request.staging.open()

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one task."""
        with carry_errors():
            return self._request.stage_rows(iterator, self._schema)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish everything, or nothing."""
        with carry_errors():
            self._request.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Forget everything."""
        self._request.staging.remove()


class StreamWriter(SameCode, DataSourceStreamArrowWriter):
    """The batches of a stream."""

    def __init__(self, request: WriteRequest, schema: StructType) -> None:
        self._request = request
        self._schema = schema
        request.check()
        request.build_encoder(schema)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one task."""
        with carry_errors():
            return self._request.stage_rows(iterator, self._schema)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Publish the batch, unless the journal says that this has happened."""
        with carry_errors():
            # The same batch has the same number after a restart, because Spark keeps it in the checkpoint.
            self._request.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Forget the batch."""
        self._request.staging.remove()


def _without_key(envelope: Envelope) -> Envelope:
    return envelope if envelope.sow_key is None else replace(envelope, sow_key=None)


def _says_something(envelope: Envelope) -> bool:
    return any((envelope.sow_key, envelope.timestamp, envelope.expiration, envelope.correlation_id))


def format_partition(number: int) -> str:
    """Return the name that errors give to the partition that a row came in."""
    return f"partition {number}"


def require_directory(path: Path | None, option: str) -> None:
    """Raise MissingError ``SOW-ENG-013`` where the file could not be written: asked before rows are."""
    if path is not None and not path.parent.is_dir():
        raise MissingError("SOW-ENG-013", f"option {option}: the directory does not exist", place=str(path.parent))


def append_refused(path: Path, directory: Path, staged: Sequence[StagedAttempt], late: Iterable[Rejected]) -> None:
    """Append the refused rows to a file, one a line: those of the winning attempts, then those of the commit."""
    names = [one.rejects for one in sorted(staged, key=lambda one: one.first) if one.rejects is not None]
    with path.open("ab") as file:
        for name in names:
            for line in (directory / name).read_bytes().splitlines():
                file.write(_format_row_line(line))
        file.write(b"".join(_format_row_line(format_reject_line(one)) for one in late))


def append_counts(path: Path, report: CommitReport, publisher: tuple[str, int] | None) -> None:
    """Append one line of JSON: the topic, the counts and the txids of one write or one batch of a stream.

    ``publisher``: the client of a stream, and the sequence of the batch.
    """
    row: dict[str, Any] = {"topic": report.topic}
    if publisher is not None:
        row |= {"client": publisher[0], "sequence": publisher[1]}
    found = asdict(report)
    row |= {name: found[name] for name in (*COUNT_FIELDS, "first_txid", "last_txid")}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def warn_missing(report: CommitReport) -> None:
    """Log a warning where a write deletes, and there is no record under any of its keys.

    That is no error: a batch may come again, or delete what has expired. But keys that were read from another topic
    look like this, too, and then every deletion is lost.
    """
    if report.missing and not report.deleted:
        logging.getLogger("sowctl").warning(
            "topic %s has no record for %s of a write; the _sow_key of another "
            "topic is valid only with the same KeyDomain (sowctl-spark(7), STREAMING)",
            report.topic,
            "the delete" if report.missing == 1 else f"any of the {report.missing:,} deletes",
        )


def _format_row_line(line: bytes) -> bytes:
    """A line of a rejects file with the partition and the row, from 1, where files have line and byte."""
    found = json.loads(line)
    place = {"partition": int(found.pop("source").split()[-1]), "row": found.pop("byte") + 1}
    found.pop("line")
    return json.dumps(place | found).encode() + b"\n"
