"""Writing the messages of a view into a new store, and its columns into files next to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.engine.views.definition import Program

if TYPE_CHECKING:
    from sowctl.engine.sources.source import Pairs
    from sowctl.engine.views.stored_columns import ColumnRecorder
    from sowctl.seam import Seam
    from sowctl.store.builder import StoreBuilder

COLUMNS_MARK = "+columns-"
"""Follows the cache's name in the name of a column file; no cache name contains it."""


def append_messages(builder: StoreBuilder, found: Iterable[Pairs]) -> None:
    """Append messages in key order."""
    for keys, values in found:
        builder.append_records(keys, values)
    builder.flush()


def name_columns(number: int, identity: str) -> str:
    """Return the name of a source's columns: stored in the column file, and the suffix of its file name."""
    return f"{number}-{identity}"


def find_column_path(cache: Path, number: int, identity: str) -> Path:
    """Return the path of the column file of source ``number``."""
    return cache.with_name(f"{cache.name}{COLUMNS_MARK}{name_columns(number, identity)}")


@contextmanager
def record_columns(program: Program, cache: Path, identity: str, mode: int, seam: Seam) -> Iterator[ColumnRecorder]:
    """Write column files of all sources; they are renamed to their final names at the end. Raises StorageError."""
    from sowctl.engine.views.column_file import ColumnWriter, OutputFile
    from sowctl.engine.views.stored_columns import ColumnRecorder

    with ExitStack() as stack:
        files = [
            stack.enter_context(OutputFile(find_column_path(cache, number, identity), mode, seam))
            for number in range(len(program.query.sources))
        ]
        writers = [ColumnWriter(file.write, name_columns(number, identity)) for number, file in enumerate(files)]
        yield ColumnRecorder(program, writers)
        for file, writer in zip(files, writers, strict=True):
            writer.finish()
            file.install()


def remove_columns(cache: Path, kept: Iterable[str]) -> None:
    """Remove the column files of a cache except those with the identities ``kept``, one per source in order."""
    names = {find_column_path(cache, number, identity).name for number, identity in enumerate(kept)}
    with suppress(OSError):
        for path in list(cache.parent.iterdir()):
            if path.name.startswith(f"{cache.name}{COLUMNS_MARK}") and path.name not in names:
                # A directory with such a name cannot be unlinked, and must not prevent removing the other files.
                with suppress(OSError):
                    path.unlink(missing_ok=True)


@contextmanager
def remove_columns_on_error(cache: Path, kept: Sequence[str]) -> Iterator[None]:
    """If the block raises, remove the column files of a cache except those with the identities ``kept``."""
    try:
        yield
    except BaseException:
        remove_columns(cache, kept)
        raise


def count_column_bytes(cache: Path, identities: Iterable[str]) -> int:
    """Return the total size of a cache's column files in bytes."""
    size = 0
    for number, identity in enumerate(identities):
        with suppress(FileNotFoundError):
            size += find_column_path(cache, number, identity).stat().st_size
    return size
