"""Write blocks of messages to a file of columns, in bounded memory, whatever the types of their fields.

The first messages determine the types of the columns for writing. If a message does not fit them, the rest is only
examined, and writing starts again with types that hold all values (:mod:`sowctl.arrow.field_types`). Types only become
wider, so this ends; nearly always the first pass is the last.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from msgspec import Struct

from sowctl.arrow import metadata
from sowctl.arrow.field_types import FieldTypes
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    import pyarrow

    from sowctl.arrow.files import ColumnWriter

SAMPLE_MESSAGES = 10_000
"""Number of messages that are examined completely before the first pass: 4 us each."""

_ROOM_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class MessageBlock(DescribedStruct, frozen=True):
    """Some messages as JSON objects, and the metadata of their records; None if that is not needed.

    ``repeatable``: a field with one value may be a list of one (:attr:`MessageType.repeatable`).
    """

    views: Sequence[bytes]
    facts: Sequence[Mapping[str, Any]] | None = None
    repeatable: bool = False


class ColumnsWritten(Struct, frozen=True):
    """The number of rows written, ``hidden`` metadata without a column, and ``single``: scalar fields of one kind."""

    rows: int
    hidden: tuple[str, ...] = ()
    single: frozenset[str] = frozenset()


def write_columns(
    blocks: Callable[[], Iterable[MessageBlock]],
    make: Callable[[BinaryIO, pyarrow.Schema], ColumnWriter],
    out: BinaryIO,
    *,
    names: Collection[str] | None = None,
    facts: Sequence[str] = metadata.DEFAULT_COLUMNS,
) -> ColumnsWritten:
    """Write the messages of ``blocks``, which is called for each pass, with the writer of ``make``.

    ``names``: only members with these names, in lower case. ``facts``: the metadata that always have columns.

    Nothing is written to ``out`` before a pass is complete. Raises the errors of reading and writing, and LimitError
    ``SOW-SPK-083`` if there are more fields than columns are supported.
    """
    columns = _PassColumns(names, facts)
    while True:
        with _open_temporary_file() as file:
            with _name_directory():
                found = _write_pass(blocks(), columns, make, file)
                file.seek(0)
            if found is not None:
                shutil.copyfileobj(file, out, 1 << 20)
                out.flush()
                return found


@contextmanager
def _open_temporary_file() -> Iterator[IO[bytes]]:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed below
    try:
        yield file
    finally:
        # Closing writes the buffer, which may fail again: the error was raised before.
        with suppress(OSError):
            file.close()


@contextmanager
def _name_directory() -> Iterator[None]:
    """Let an error about the space for a temporary file, which has no name, name its directory."""
    try:
        yield
    except OSError as problem:
        if problem.filename is not None or problem.errno not in _ROOM_ERRORS:
            raise
        raise OSError(problem.errno, problem.strerror, tempfile.gettempdir()) from problem


class _PassColumns:
    """Fields and metadata that have columns."""

    def __init__(self, names: Collection[str] | None, facts: Sequence[str]) -> None:
        self._fields = FieldTypes(names)
        self._usual = dict.fromkeys(facts)
        self._more: dict[str, None] = {}

    def observe_block(self, block: MessageBlock) -> None:
        self._fields.observe_values(block.views, repeatable=block.repeatable)
        self._note_metadata(block)

    def build_schema(self) -> pyarrow.Schema:
        import pyarrow as pa

        self.names = [field.name for field in self._fields.struct]
        facts = [(name, metadata.find_column_type(name)) for name in self._more if name not in self.names]
        mark = metadata.build_mark(self.names, [name for name, _ in facts])
        return pa.schema([*self._fields.struct, *facts], {metadata.MARK_KEY: mark})

    def list_hidden(self) -> tuple[str, ...]:
        return tuple(name for name in self._more if name in self.names)

    def find_scalar_fields(self) -> frozenset[str]:
        return self._fields.scalar_fields

    def build_batch(self, block: MessageBlock) -> pyarrow.RecordBatch | None:
        """The columns of a block; None if it needs others."""
        import pyarrow as pa

        more = self._note_metadata(block)
        array = self._fields.build_array(block.views, repeatable=block.repeatable)
        if array is None or more:
            return None
        fields = list(self._fields.struct)
        columns = array.flatten()[: len(fields)]
        if block.facts is not None:
            names = [name for name in self._more if name not in self.names]
            columns += metadata.build_columns(names, block.facts)
            fields += [pa.field(name, metadata.find_column_type(name)) for name in names]
        if not columns:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(array), pa.struct([])))
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def _note_metadata(self, block: MessageBlock) -> bool:
        """Add the names of metadata; return whether there were new ones."""
        if block.facts is None:
            return False
        before = len(self._more)
        self._more.update(self._usual)
        for row in block.facts:
            for name in row:
                if name not in self._more and row[name] is not None:
                    self._more[name] = None
        return len(self._more) > before


def _write_pass(
    blocks: Iterable[MessageBlock],
    columns: _PassColumns,
    make: Callable[[Any, pyarrow.Schema], ColumnWriter],
    file: Any,
) -> ColumnsWritten | None:
    """One pass; None if columns became wider meanwhile."""
    rest = iter(blocks)
    sample = list(_read_sample(rest))
    for block in sample:
        columns.observe_block(block)
    writer = make(file, columns.build_schema())
    rows = 0
    fits = True
    with ExitStack() as held:
        # After an interrupt, an error, or a message that does not fit: the writer ends before its file does.
        held.callback(writer.abandon)
        for block in chain(sample, rest):
            batch = columns.build_batch(block)
            if batch is None:
                # The rest is examined nevertheless, so that the next pass is the last one, unless others write
                # meanwhile.
                fits = False
            elif fits:
                writer.write(batch)
                rows += len(batch)
        if not fits:
            return None
        held.pop_all()
    writer.close()
    return ColumnsWritten(rows, columns.list_hidden(), columns.find_scalar_fields())


def _read_sample(blocks: Iterator[MessageBlock]) -> Iterator[MessageBlock]:
    seen = 0
    for block in blocks:
        yield block
        seen += len(block.views)
        if seen >= SAMPLE_MESSAGES:
            return
