"""Writing to a topic: tasks stage messages, and the driver publishes those of the successful attempts as one group.

sowctl-spark(7), WRITING. A batch write, and each batch of a stream, is one group. A stream's ``queryName`` is the
publisher, and each batch has a sequence number (:mod:`sowctl.spark.writing.sequences`), by which a repeated batch is
recognized and not written again. Spark cannot return rejected rows or counts of outcomes, so the driver writes them to
files given by options.
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
"""The local property of a task that contains the id of its streaming query."""
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
    """Request for a write. ``operation`` None: the column ``_operation`` of the rows, by default publish.

    ``client`` is a stream's publisher, ``checkpoint`` its checkpoint directory. ``overwrite``: records without a row
    are deleted. ``rejects`` and ``report`` are files on the driver for rejected rows and for counts.
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
        """Raise UsageError if the options exclude each other or do not suit the topic, and MissingError
        ``SOW-ENG-013`` if a directory does not exist."""
        if self.overwrite and self.operation not in (None, "publish"):
            raise UsageError(
                "SOW-SPK-031", f"mode overwrite replaces records, so operation {self.operation} is not possible"
            )
        require_directory(self.rejects, "rejects")
        require_directory(self.report, "report")
        # Built only for its errors, so that unsupported options are reported before Spark starts a task.
        self._area().build_plan(self.publish)

    def _area(self, own: Path = Path()) -> StagingArea:
        """Return the staging area; ``own`` is a local directory of the driver for files staged at a URL."""
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
        """Build the plan of the tasks for one operation; the plans of a write differ only in the operation."""
        return self._area().build_plan(self.publish, operation=operation, keep_rejects=self.rejects is not None)

    def build_encoder(self, schema: StructType) -> RowEncoder:
        """Build the encoder of rows to messages. Raises as :class:`RowEncoder`."""
        topic = self.origin.topic
        assert topic is not None
        return RowEncoder(
            schema,
            self.origin.build_instance().find_message_type(topic.message_type),
            keep_stamps=self.keep_stamps,
            # Deletions need no message, and rows with a column _operation may be deletions.
            by_key=self.operation in (None, "delete"),
            own_keys=topic.key_mode == "user",
            root=find_root(topic),
        )

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch: int | None = None) -> None:
        """Publish the messages of the successful attempts as one group; always remove the staging directory.

        ``batch``: the id of a stream's batch. Raises RefusedError ``SOW-SPK-171`` if it belongs to another checkpoint.
        """
        # Only successful attempts have a message here; files of other attempts are never read.
        staged = [one for message in messages if isinstance(message, StagedMessage) for one in message.staged]
        # The driver of a stream has not created the directory, and without rows no task has.
        self.staging.open()
        held = ExitStack()
        try:
            # The operations of rows are recorded in the segments; the rest of the plan is the same for all.
            plan = self.build_plan(self.operation or "publish")
            # Rows have no file, so errors name their partition.
            names = [format_partition(number) for number in range(len(messages))]
            area = self._area(self._own(held))
            # A batch write has no publisher: Spark never repeats a commit, so no duplicates need to be recognized.
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
                # In ``finally``, because rejected rows are saved even if the commit fails because of them.
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

            # The rows are published even if this fails, so it raises no error.
            reindex_loaded(self.origin.build_instance(), loaded)

    def _find_batch(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> StreamBatch:
        assert self.origin.topic is not None
        assert self.client is not None
        # Tasks know the query id, and Spark runs a task even for a batch without rows.
        found = {one.query_id for one in messages if isinstance(one, StagedMessage) and one.query_id is not None}
        (query_id,) = found
        return StreamBatch(self.origin.topic.name, self.client, query_id, batch, self.checkpoint)

    def stage_rows(self, batches: Iterable[pyarrow.RecordBatch], schema: StructType) -> StagedMessage:
        """Stage the rows of one attempt of one task. Raises UsageError ``SOW-SPK-099`` if the write creates a table of
        the catalog.
        """
        from pyspark import TaskContext

        context = TaskContext.get()
        number = context.partitionId() if context is not None else 0
        if context is not None:
            _refuse_catalog(context)
        if self.client is not None:
            # The directory of a stream is removed with every batch; the driver has created that of a batch write.
            self.staging.open()
        with _Attempt(self, number) as attempt:
            encoder = self.build_encoder(schema)
            for batch in batches:
                if len(batch):
                    attempt.add(encoder.encode_rows(batch))
            query_id = None if context is None else context.getLocalProperty(QUERY_ID_PROPERTY)
            return attempt.finish(query_id)


class StagedMessage(WriterCommitMessage):
    """Message of a task to the driver. It is not a Struct, because it must inherit Spark's class.

    ``query_id``: the id of the streaming query, which Spark stores in its checkpoint; None for a batch write.
    """

    def __init__(self, staged: tuple[StagedAttempt, ...], query_id: str | None = None) -> None:
        self.staged = staged
        self.query_id = query_id


EXCERPT_CHARACTERS = 200
"""Characters of a rejected message that an error shows."""


def _excerpt(one: Rejected) -> str | None:
    """Return the beginning of the message, because rows have no file position by which a user could find them."""
    return one.payload[:EXCERPT_CHARACTERS].decode("utf-8", "replace") if one.payload else None


ROW_REFUSAL_WORDS = RefusalWords(
    lambda one: f"{one.source}, row {one.offset + 1}",
    _excerpt,
    "option onError=skip skips invalid rows, maxErrors limits their number, rejects=FILE saves them",
    in_bytes=False,
)


def _refuse_catalog(context: TaskContext) -> None:
    """Raise UsageError ``SOW-SPK-099`` if Spark is creating a table in its catalog, before any row is staged.

    Spark creates such a table (saveAsTable, writeTo().create()) by a write within the execution of a command, with the
    same options as for a plain write. The table is later read without these options, so it could never be read. Except
    for batches of streams, no other writes run within another execution.
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
    """The segments of one attempt, one series per operation, each in the order of the rows."""

    def __init__(self, request: WriteRequest, number: int) -> None:
        self._request = request
        self._number = number
        # Spark may run a task twice concurrently. Each attempt uses a unique name, so that they do not overwrite each
        # other's segments.
        self._name = f"{number}-{uuid4().hex}"
        self._tasks: dict[Operation, StageTask] = {}
        self._position = 0

    def add(self, rows: EncodedRows) -> None:
        """Stage the messages of one batch."""
        # Row numbers continue across the batches of the partition: messages are committed in order of (partition, row).
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
            # Each operation has separate segments; the commit restores the order of the rows by their positions.
            self._stage(cast(Operation, name), chosen, [start + place for place in places])

    def _stage(self, operation: Operation, rows: EncodedRows, positions: Sequence[int]) -> None:
        task = self._tasks.get(operation)
        if task is None:
            task = self._tasks[operation] = StageTask(self._request.build_plan(operation), f"{self._name}-{operation}")
        envelopes = rows.envelopes
        if operation != "delete":
            # The key is computed from the message, unless the publisher chooses keys.
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
        # Without any values in envelopes, messages are staged as plain payloads, which is faster.
        bare = operation != "delete" and not any(_says_something(one) for one in envelopes)
        chosen = [positions[place] for place in places]
        task.add_messages(payloads, self._number, chosen, envelopes=None if bare else envelopes, source=source)

    def finish(self, query_id: str | None) -> StagedMessage:
        """Complete the segments and return the message for the driver."""
        return StagedMessage(tuple(task.finish() for task in self._tasks.values()), query_id)

    def __enter__(self) -> _Attempt:
        return self

    def __exit__(self, *error: Any) -> None:
        for task in self._tasks.values():
            task.__exit__(*error)


class BatchWriter(SameCode, DataSourceArrowWriter):
    """Writer of one batch."""

    def __init__(self, request: WriteRequest, schema: StructType) -> None:
        self._request = request
        self._schema = schema
        request.check()
        request.build_encoder(schema)
        # Tasks of a batch write never create the directory, so a task that outlives the write cannot create it again.
        request.staging.open()

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one task."""
        with carry_errors():
            return self._request.stage_rows(iterator, self._schema)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish all rows atomically."""
        with carry_errors():
            self._request.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Discard all staged rows."""
        self._request.staging.remove()


class StreamWriter(SameCode, DataSourceStreamArrowWriter):
    """Writer of the batches of a stream."""

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
        """Publish the batch, unless it was published already."""
        with carry_errors():
            # A batch has the same id after a restart, because Spark stores it in the checkpoint.
            self._request.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Discard the staged rows of the batch."""
        self._request.staging.remove()


def _without_key(envelope: Envelope) -> Envelope:
    return envelope if envelope.sow_key is None else replace(envelope, sow_key=None)


def _says_something(envelope: Envelope) -> bool:
    return any((envelope.sow_key, envelope.timestamp, envelope.expiration, envelope.correlation_id))


def format_partition(number: int) -> str:
    """Return the name of a partition for errors."""
    return f"partition {number}"


def require_directory(path: Path | None, option: str) -> None:
    """Raise MissingError ``SOW-ENG-013`` if the directory of ``path`` does not exist, before rows are written."""
    if path is not None and not path.parent.is_dir():
        raise MissingError("SOW-ENG-013", f"option {option}: the directory does not exist", place=str(path.parent))


def append_refused(path: Path, directory: Path, staged: Sequence[StagedAttempt], late: Iterable[Rejected]) -> None:
    """Append rejected rows to a file, one per line: those of the successful attempts, then those of the commit."""
    names = [one.rejects for one in sorted(staged, key=lambda one: one.first) if one.rejects is not None]
    with path.open("ab") as file:
        for name in names:
            for line in (directory / name).read_bytes().splitlines():
                file.write(_format_row_line(line))
        file.write(b"".join(_format_row_line(format_reject_line(one)) for one in late))


def append_counts(path: Path, report: CommitReport, publisher: tuple[str, int] | None) -> None:
    """Append a line of JSON with the topic, counts and txids of a write or of a batch of a stream.

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
    """Log a warning if a write has deletions but none of them found a record.

    That is not an error: a batch may be repeated, or delete expired records. But it also happens if the keys were read
    from another topic, and then all deletions are without effect.
    """
    if report.missing and not report.deleted:
        logging.getLogger("sowctl").warning(
            "topic %s has no record for %s of a write; the _sow_key of another "
            "topic is valid only with the same KeyDomain (sowctl-spark(7), STREAMING)",
            report.topic,
            "the delete" if report.missing == 1 else f"any of the {report.missing:,} deletes",
        )


def _format_row_line(line: bytes) -> bytes:
    """Convert a line of a rejects file: replace source, line and byte by the partition and the row, counted from 1."""
    found = json.loads(line)
    place = {"partition": int(found.pop("source").split()[-1]), "row": found.pop("byte") + 1}
    found.pop("line")
    return json.dumps(place | found).encode() + b"\n"
