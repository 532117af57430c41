"""Data sets at URLs that Spark's writers do not reach: tasks write part files there, the driver puts them in place.

Called by :mod:`sowctl.spark.jobs.outputs.datasets` where Hadoop has no file system for the scheme. Executors need the
door to URLs alone: no directory that they share, no jars. The way is that of Hadoop's committer. A task attempt writes
below a hidden directory of the output, under a name of its own; the driver gets to know what the attempts have written
that Spark counts, and has these files, and no others, renamed into the output. ``_SUCCESS`` comes last.

Stores at URLs know no locks. A run says that it is at work by a claim in its hidden directory, and takes away those of
all others before it looks at what it is to replace: of two runs at once no more than one finds its claim in the end.
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
"""What a task does with its rows."""
SUCCESS_FILE = "_SUCCESS"
RUN_DIRECTORY_PREFIX = "_temporary-"
"""How the directory of a run begins. Readers of data sets pass over names that begin with an underscore."""
CLAIM_FILE = "claim"
"""The file of a run's hidden directory that says that no other run has taken the output."""
NULL_DIRECTORY_NAME = "__HIVE_DEFAULT_PARTITION__"
"""The directory's name where a partition's value is NULL or empty."""
_ESCAPED_CHARACTERS = frozenset([*map(chr, range(1, 32)), *"\x7f\"#%'*/:=?\\{[]^"])
"""Characters that Spark writes as their code in the names of directories."""


class SentPart(Struct, frozen=True):
    """Result of one task attempt: its name, its files, rows and bytes of messages."""

    attempt: str
    files: tuple[str, ...]
    records: int
    bytes: int


class OutputContents(Struct, frozen=True):
    """Contents of an output: files, directories, and hidden ones that runs have left or are working in."""

    files: list[RemotePath]
    directories: list[RemotePath]
    hidden: list[RemotePath]

    def require_free(self, target: RemotePath) -> None:
        """Raise RefusedError ``SOW-SPK-064`` where there is anything that a reader would see."""
        if self.files or self.directories:
            place = str(target)
            raise RefusedError("SOW-SPK-064", "the output exists", place=place, hint="--force replaces it")


def list_contents(target: RemotePath) -> OutputContents:
    """List what the output holds now. Raises what reading at a URL raises."""
    files = [one.place for one in remote_files.list_files(target)]
    if remote_files.find_size(target) is not None:
        files.append(target)
    found = remote_files.list_directories(target)
    hidden = [one for one in found if one.name.startswith(RUN_DIRECTORY_PREFIX)]
    return OutputContents(files, [one for one in found if one not in hidden], hidden)


def require_free(target: RemotePath, *, force: bool) -> None:
    """Raise RefusedError ``SOW-SPK-064`` where something is there that must not be replaced, and what looking at a URL
    raises."""
    found = list_contents(target)
    if not force:
        found.require_free(target)


def find_directory_columns(spark: SparkSession, schema: StructType, names: Sequence[str]) -> list[str]:
    """The columns by which rows go into directories, as the schema writes their names.

    Raises what Spark's writers raise for columns by which they do not.
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
    """Write a data set at a URL; how many records, and how many bytes of messages.

    ``gather`` has tasks do the work that it is given, and hands on what it makes of each. The first column of their
    rows holds the bytes of the message; the last ones, as texts, make directories by ``names``, and rows of one
    directory come one after the other; what stands between goes into files.

    Raises RefusedError ``SOW-SPK-064`` where a data set has come there meanwhile, ``SOW-SPK-170`` where another run for
    the output comes first, what the tasks raise, and what writing at a URL raises. Then nothing of the new data set is
    left there; what was there before still is, unless it was the removing or the renaming that failed.
    """
    number = str(uuid4())
    hidden = target / f"{RUN_DIRECTORY_PREFIX}{number}"
    placing = _PartPlacement(spark, target, hidden)
    try:
        placing.claim()
        # Of several attempts of a task Spark hands on what one of them says: only its files count.
        parts = gather(_PartSender(hidden, number, form, tuple(names)))
        if not names and not any(part.files for part in parts):
            # Without rows a file has to say which columns there are.
            parts.append(_write_empty(hidden, number, form))
        placing.place_parts(parts, force=force)
    except BaseException:
        placing.undo()
        raise
    return sum(part.records for part in parts), sum(part.bytes for part in parts)


class _PartPlacement:
    """The driver's part: the files of attempts that count take their places."""

    def __init__(self, spark: SparkSession, target: RemotePath, hidden: RemotePath) -> None:
        self._spark = spark
        self._target = target
        self._hidden = hidden
        self._placed: list[RemotePath] = []

    def claim(self) -> None:
        """Say that a run for the output is at work."""
        remote_files.write_file(self._hidden / CLAIM_FILE, [b""])

    def place_parts(self, parts: Sequence[SentPart], *, force: bool) -> None:
        """Replace what is there by the files of these attempts."""
        target, found = self._target, list_contents(self._target)
        if not force:
            # Something may have come while the tasks were at work.
            found.require_free(target)
        # Of runs that die the hidden directories stay. One that is at work for the same output comes too late now. This
        # comes before the look at what is to be replaced: what a run has put there before it lost its claim is seen.
        for directory in found.hidden:
            if directory != self._hidden:
                remote_files.delete_directory(directory)
        found = list_contents(target)
        # This comes behind the look: without the claim, what was seen may belong to the run that took it.
        self._require_claim()
        if not force:
            found.require_free(target)
        # First of all, so that what is half there is not taken for a whole data set; and only one that was seen.
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
            # Files that are gone are another run's doing, where the claim is gone, too.
            self._require_claim()
            raise
        self._require_alone()
        # What other attempts have left goes with the directory. One that still writes does so where no reader looks.
        remote_files.delete_directory(self._hidden)
        remote_files.write_file(target / SUCCESS_FILE, [b""])

    def _require_claim(self) -> None:
        if remote_files.find_size(self._hidden / CLAIM_FILE) is None:
            raise self._build_conflict()

    def _require_alone(self) -> None:
        """Raise RefusedError ``SOW-SPK-170`` unless the files of this run are there, and no others."""
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
        """Remove what this run has written, as far as that is possible: the error that ended the run is raised."""
        # First what is renamed: Spark does not wait for the other tasks of a stage that fails, and they go on.
        with suppress(SowError):
            remote_files.delete_directory(self._hidden)
        for place in self._placed:
            with suppress(SowError):
                remote_files.delete_file(place)


class _Rename:
    """Renames the files of an attempt into the output, on an executor."""

    def __init__(self, hidden: RemotePath, target: RemotePath) -> None:
        self.hidden = hidden
        self.target = target

    def __call__(self, part: SentPart) -> None:
        for name in part.files:
            remote_files.rename_file(self.hidden / part.attempt / name, self.target / name)


class _PartSender:
    """Writes the rows of a task into part files, on an executor, and says what it has written."""

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
    """The files of one attempt, of which one is open: rows of a directory come one after the other."""

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
            # The error that ended the attempt is raised; what it has begun stays where no reader looks.
            with suppress(Exception):
                self._open[1].__exit__(*error)

    def write(self, directory: str, rows: pyarrow.RecordBatch) -> None:
        """Add rows: bytes of messages, then the columns of the file."""
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
        """Close the last file; what was written."""
        self._end_file()
        return SentPart(self._attempt, tuple(self._files), self._records, self._bytes)

    def begin(self, directory: str) -> None:
        """Begin a file, which has no rows yet."""
        self._end_file()
        # Numbers go on from directory to directory: no two files of an attempt have one name, whatever comes when.
        name = f"{directory}{self._front}-c{len(self._files):03d}{self._form.suffix}"
        held = ExitStack()
        self._path = self._place / name
        file = held.enter_context(remote_files.create_file(self._path))
        with translate_write_errors(self._path):
            self._open = self._form.open(file), held
        self._files.append(name)
        self._directory, self._rows = directory, 0


def _write_empty(hidden: RemotePath, number: str, form: PartFormat) -> SentPart:
    """A file without rows, from the driver."""
    with _Files(hidden, "driver", f"part-00000-{number}", form) as files:
        files.begin("")
        return files.end()


def _split_by_directory(batch: pyarrow.RecordBatch, names: Sequence[str]) -> Iterator[tuple[str, pyarrow.RecordBatch]]:
    """The rows of a batch, stretch by stretch of the same directory."""
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
    """The directory of rows with these values, as Spark names it, with a slash behind."""
    texts = [_escape_text(value) if value else NULL_DIRECTORY_NAME for value in values]
    return "".join(f"{_escape_text(name)}={text}/" for name, text in zip(names, texts, strict=True))


def _escape_text(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED_CHARACTERS else char for char in text)
