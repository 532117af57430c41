"""Data sets at URLs that Spark's writers do not support: tasks write part files, the driver commits them.

Called by :mod:`sowctl.spark.jobs.outputs.datasets` if Hadoop has no file system for the scheme. Executors need only
:mod:`sowctl.remote`, neither a shared directory nor jars. The protocol is that of Hadoop's committer. Each task attempt
writes to a uniquely named directory in a hidden directory of the output. The results of successful attempts contain
the names of their files. The driver has only these files renamed into the output, and writes ``_SUCCESS`` last.

Remote storage has no locks. A run creates a claim in its hidden directory, and removes the hidden directories of all
other runs before it lists the files to replace. So of two concurrent runs, at most one finds its claim in the end.
``sowctl-spark(7)``, REMOTE FILES.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from msgspec import Struct

from sowctl.errors import RefusedError, SowError
from sowctl.remote import remote_files
from sowctl.remote.place import RemotePath
from sowctl.spark.errors import translate_errors
from sowctl.spark.jobs.outputs.partfiles import PartFile, PartFormat
from sowctl.spark.jobs.tasks import format_attempt_name, run_tasks
from sowctl.spark.pairfiles import translate_write_errors

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

Work: TypeAlias = "Callable[[Iterable[pyarrow.RecordBatch]], Iterable[SentPart]]"
"""Function that a task applies to its rows."""
SUCCESS_FILE = "_SUCCESS"
RUN_DIRECTORY_PREFIX = "_temporary-"
"""Prefix of the hidden directory of a run. Readers of data sets ignore names that begin with an underscore."""
CLAIM_FILE = "claim"
"""File in a run's hidden directory; while it exists, no other run has taken over the output."""
NULL_DIRECTORY_NAME = "__HIVE_DEFAULT_PARTITION__"
"""Directory name for a partition value that is NULL or empty."""
_ESCAPED_CHARACTERS = frozenset([*map(chr, range(1, 32)), *"\x7f\"#%'*/:=?\\{[]^"])
"""Characters that Spark escapes by their code in directory names."""


class SentPart(Struct, frozen=True):
    """Result of one task attempt: its name, its files, rows and bytes of messages."""

    attempt: str
    files: tuple[str, ...]
    records: int
    bytes: int


class OutputContents(Struct, frozen=True):
    """Contents of an output: files, directories, and hidden directories of failed or active runs."""

    files: list[RemotePath]
    directories: list[RemotePath]
    hidden: list[RemotePath]

    def require_free(self, target: RemotePath) -> None:
        """Raise RefusedError ``SOW-SPK-064`` if the output has files or directories that readers see."""
        if self.files or self.directories:
            place = str(target)
            raise RefusedError("SOW-SPK-064", "the output exists", place=place, hint="--force replaces it")


def list_contents(target: RemotePath) -> OutputContents:
    """List the current contents of the output. Raises what reading from a URL raises."""
    files = [one.place for one in remote_files.list_files(target)]
    if remote_files.find_size(target) is not None:
        files.append(target)
    found = remote_files.list_directories(target)
    hidden = [one for one in found if one.name.startswith(RUN_DIRECTORY_PREFIX)]
    return OutputContents(files, [one for one in found if one not in hidden], hidden)


def require_free(target: RemotePath, *, force: bool) -> None:
    """Raise RefusedError ``SOW-SPK-064`` if the output exists, unless ``force``; and what reading from a URL raises."""
    found = list_contents(target)
    if not force:
        found.require_free(target)


def find_directory_columns(spark: SparkSession, schema: StructType, names: Sequence[str]) -> list[str]:
    """Return the partition columns, with their names as spelled in the schema.

    Raises what Spark's writers raise for unsuitable columns.
    """
    if not names:
        return []
    machine: Any = spark._jvm
    own = machine.org.apache.spark.sql.types.DataType.fromJson(schema.json())
    with translate_errors():
        machine.org.apache.spark.sql.execution.datasources.PartitioningUtils.validatePartitionColumn(
            own, machine.PythonUtils.toSeq(list(names)), False
        )
    found = {name.lower(): name for name in schema.names}
    return [found[name.lower()] for name in names]


def send_parts(
    spark: SparkSession,
    gather: Callable[[Work], list[SentPart]],
    form: PartFormat,
    target: RemotePath,
    names: Sequence[str] = (),
    *,
    force: bool,
) -> tuple[int, int]:
    """Write a data set to a URL; returns the number of records, and bytes of messages.

    ``gather`` runs the given work in tasks, and returns the results. In the rows of tasks, the first column is the size
    of the message in bytes, the last ones are texts that determine directories by ``names``, and those between are the
    columns of files. Rows of one directory must be adjacent.

    Raises RefusedError ``SOW-SPK-064`` if a data set was created there during the run, ``SOW-SPK-170`` if another run
    has taken over the output, what the tasks raise, and what writing to a URL raises. On failure, the new files are
    removed; the previous contents remain, unless removing them or renaming the new files has failed.
    """
    number = str(uuid4())
    hidden = target / f"{RUN_DIRECTORY_PREFIX}{number}"
    placing = _PartPlacement(spark, target, hidden)
    try:
        placing.claim()
        # Spark returns the result of one attempt per task; only its files are committed.
        parts = gather(_PartSender(hidden, number, form, tuple(names)))
        if not names and not any(part.files for part in parts):
            # A data set without rows needs a file for its columns.
            parts.append(_write_empty(hidden, number, form))
        placing.place_parts(parts, force=force)
    except BaseException:
        placing.undo()
        raise
    return sum(part.records for part in parts), sum(part.bytes for part in parts)


class _PartPlacement:
    """The driver's part of a commit: replaces the output with the files of successful attempts."""

    def __init__(self, spark: SparkSession, target: RemotePath, hidden: RemotePath) -> None:
        self._spark = spark
        self._target = target
        self._hidden = hidden
        self._placed: list[RemotePath] = []

    def claim(self) -> None:
        """Create the claim of this run."""
        remote_files.write_file(self._hidden / CLAIM_FILE, [b""])

    def place_parts(self, parts: Sequence[SentPart], *, force: bool) -> None:
        """Replace the contents of the output by the files of these attempts."""
        target, found = self._target, list_contents(self._target)
        if not force:
            # The output may have been created while the tasks were running.
            found.require_free(target)
        # Remove hidden directories of failed runs, and the claims of active runs for the same output. This must precede
        # the listing of files to replace, so that it includes all files that a run placed before it lost its claim.
        for directory in found.hidden:
            if directory != self._hidden:
                remote_files.delete_directory(directory)
        found = list_contents(target)
        # This must follow the listing: if the claim is gone, the listed files may belong to the run that removed it.
        self._require_claim()
        if not force:
            found.require_free(target)
        # Removed first, so that a partial data set is not read as complete, and only if it was listed.
        if target / SUCCESS_FILE in found.files:
            remote_files.delete_file(target / SUCCESS_FILE)
        for directory in found.directories:
            remote_files.delete_directory(directory)
        run_tasks(self._spark, found.files, remote_files.delete_file, what=f"remove the old {target}")
        self._placed = [target / name for part in parts for name in part.files]
        filled = [part for part in parts if part.files]
        try:
            run_tasks(self._spark, filled, _Rename(self._hidden, target), what=f"rename into {target}")
        except SowError:
            # If the claim is gone, too, another run has removed the files, which is reported as a conflict.
            self._require_claim()
            raise
        self._require_alone()
        # Removes also the files of other attempts. An attempt that is still running writes only to ignored directories.
        remote_files.delete_directory(self._hidden)
        remote_files.write_file(target / SUCCESS_FILE, [b""])

    def _require_claim(self) -> None:
        if remote_files.find_size(self._hidden / CLAIM_FILE) is None:
            raise self._build_conflict()

    def _require_alone(self) -> None:
        """Raise RefusedError ``SOW-SPK-170`` unless the output has exactly the files of this run, and its claim."""
        start = str(self._target / RUN_DIRECTORY_PREFIX)
        there = {
            one.place
            for one in remote_files.list_files(self._target, below=True)
            if not str(one.place).startswith(start)
        }
        if there - {self._target / SUCCESS_FILE} != set(self._placed):
            raise self._build_conflict()
        self._require_claim()

    def _build_conflict(self) -> RefusedError:
        return RefusedError(
            "SOW-SPK-170",
            "another run is writing to the same output",
            place=str(self._target),
            hint="wait for the other run; when it has ended, --force replaces its remaining files",
        )

    def undo(self) -> None:
        """Remove the files of this run, ignoring errors, because the error that ended the run is raised."""
        # First the sources of renames: Spark does not wait for other tasks of a failed stage, which may continue.
        with suppress(SowError):
            remote_files.delete_directory(self._hidden)
        for place in self._placed:
            with suppress(SowError):
                remote_files.delete_file(place)


class _Rename:
    """Renames the files of an attempt to their places in the output, on an executor."""

    def __init__(self, hidden: RemotePath, target: RemotePath) -> None:
        self.hidden = hidden
        self.target = target

    def __call__(self, part: SentPart) -> None:
        for name in part.files:
            remote_files.rename_file(self.hidden / part.attempt / name, self.target / name)


class _PartSender:
    """Writes the rows of a task to part files, on an executor, and yields their names and totals."""

    def __init__(self, hidden: RemotePath, number: str, form: PartFormat, names: tuple[str, ...]) -> None:
        self.hidden = hidden
        self.number = number
        self.form = form
        self.names = names

    def __call__(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[SentPart]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        with _Files(
            self.hidden, format_attempt_name(), f"part-{context.partitionId():05d}-{self.number}", self.form
        ) as files:
            for batch in batches:
                for directory, rows in _split_by_directory(batch, self.names):
                    files.write(directory, rows)
            sent = files.end()
        yield sent


class _Files:
    """The files of one attempt. Only one is open at a time, because rows of a directory are adjacent."""

    def __init__(self, hidden: RemotePath, attempt: str, front: str, form: PartFormat) -> None:
        self._place = self._path = hidden / attempt
        self._attempt = attempt
        self._front = front
        self._form = form
        self._files: list[str] = []
        self._directory = ""
        self._open: tuple[PartFile, ExitStack] | None = None
        self._rows = self._records = self._bytes = 0

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._open is not None:
            # Errors here are suppressed, because the error that ended the attempt is raised. The unfinished file
            # remains in the hidden directory.
            with suppress(Exception):
                self._open[1].__exit__(*error)

    def write(self, directory: str, rows: pyarrow.RecordBatch) -> None:
        """Add rows, whose first columns are the size of the message and the columns of the file."""
        import pyarrow.compute as pc

        self._records += rows.num_rows
        self._bytes += pc.sum(rows.column(0)).as_py() or 0
        columns = rows.select(rows.schema.names[1 : 1 + len(self._form.schema)])
        most = self._form.most
        while columns.num_rows:
            if self._open is None or directory != self._directory or (most and self._rows >= most):
                self.begin(directory)
            room = columns.num_rows if not most else most - self._rows
            assert self._open is not None
            with translate_write_errors(self._path):
                self._open[0].write(columns.slice(0, room))
            self._rows += min(room, columns.num_rows)
            columns = columns.slice(room)

    def _end_file(self) -> None:
        if self._open is not None:
            part, held = self._open
            with translate_write_errors(self._path):
                part.close()
            self._open = None
            held.close()

    def end(self) -> SentPart:
        """Close the last file, and return names and totals of the files."""
        self._end_file()
        return SentPart(self._attempt, tuple(self._files), self._records, self._bytes)

    def begin(self, directory: str) -> None:
        """Close the current file, and open a new one without rows."""
        self._end_file()
        # Numbers continue across directories, so that names are unique even if a directory is opened again.
        name = f"{directory}{self._front}-c{len(self._files):03d}{self._form.suffix}"
        held = ExitStack()
        self._path = self._place / name
        file = held.enter_context(remote_files.create_file(self._path))
        with translate_write_errors(self._path):
            self._open = self._form.open(file), held
        self._files.append(name)
        self._directory, self._rows = directory, 0


def _write_empty(hidden: RemotePath, number: str, form: PartFormat) -> SentPart:
    """Write a file without rows, on the driver."""
    with _Files(hidden, "driver", f"part-00000-{number}", form) as files:
        files.begin("")
        return files.end()


def _split_by_directory(batch: pyarrow.RecordBatch, names: Sequence[str]) -> Iterator[tuple[str, pyarrow.RecordBatch]]:
    """Yield runs of rows with the same directory, each as directory and rows."""
    if not names:
        yield "", batch
        return
    values = zip(*(batch.column(place).to_pylist() for place in range(-len(names), 0)), strict=True)
    start, last = 0, None
    for row, found in enumerate(values):
        if found != last:
            if last is not None:
                yield format_directory(names, last), batch.slice(start, row - start)
            start, last = row, found
    if last is not None:
        yield format_directory(names, last), batch.slice(start)


def format_directory(names: Sequence[str], values: Sequence[str | None]) -> str:
    """Return the directory of rows with these values, named as in Spark, with a trailing slash."""
    texts = [_escape_text(value) if value else NULL_DIRECTORY_NAME for value in values]
    return "".join(f"{_escape_text(name)}={text}/" for name, text in zip(names, texts, strict=True))


def _escape_text(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED_CHARACTERS else char for char in text)
