"""Staged files of keys and stored values, by which a task passes data to the driver or to other tasks.

Tasks of a fold, of a view and of a new store write them into a staging directory. Jobs that build a store, read a state
or write a data set read them part by part, so no file is ever completely in memory. Planning a read of several instants
also writes such files.
``sowctl-pipeline(1)``, STAGING.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING

from sowctl.engine.fold.spill import Pairs, encode_part, read_parts
from sowctl.errors import DamageError, MissingError, StorageError
from sowctl.remote.place import Place, RemotePath
from sowctl.remote.remote_errors import convert_error

if TYPE_CHECKING:
    from sowctl.remote.remote_files import RemoteStream


def split_pairs(pairs: list[tuple[bytes, bytes]], size: int) -> Iterator[Pairs]:
    """Yield the pairs in parts of at most ``size`` pairs, for :func:`write_pairs`."""
    for start in range(0, len(pairs), size):
        part = pairs[start : start + size]
        yield [key for key, _ in part], [value for _, value in part]


class PairFile:
    """Writer of a file of keys and stored values, part by part; the file is complete if the ``with`` ends normally.

    Raises StorageError ``SOW-SPK-060`` if writing fails, and what writing to a URL raises.
    """

    def __init__(self, place: Place) -> None:
        self.count = self.size = 0
        self._place = place
        self._held = ExitStack()
        self._file: IO[bytes] | None = None

    def __enter__(self) -> PairFile:
        if isinstance(self._place, RemotePath):
            from sowctl.remote import remote_files

            self._file = self._held.enter_context(remote_files.create_file(self._place))
            return self
        with translate_write_errors(self._place):
            self._file = self._held.enter_context(self._place.open("wb"))
        return self

    def add(self, part: Pairs) -> None:
        """Write a part."""
        keys, values = part
        # An empty part is the end mark of the file, so empty parts are skipped.
        if keys:
            self._write(encode_part(b"".join(keys), values))
            self.count += len(keys)
            self.size += sum(map(len, values))

    def _write(self, raw: bytes) -> None:
        assert self._file is not None
        with translate_write_errors(self._place):
            self._file.write(raw)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._file is not None
        with self._held, translate_write_errors(self._place):
            # Without the end mark, a file truncated between two parts would look complete.
            if error is None:
                self._write(encode_part(b"", []))
                self._file.flush()


@contextmanager
def translate_write_errors(place: Place) -> Iterator[None]:
    """Raise StorageError ``SOW-SPK-060`` if a staged file cannot be written; for a URL, the matching remote error."""
    try:
        yield
    except OSError as problem:
        if isinstance(place, RemotePath):
            raise convert_error(problem, place, "written") from problem
        raise StorageError(
            "SOW-SPK-060",
            f"cannot write a staged file: {problem.strerror or problem}",
            place=str(place),
            hint="free space, or give another --staging directory",
        ) from problem


def write_pairs(place: Place, parts: Iterator[Pairs]) -> tuple[int, int]:
    """Write a file of keys and stored values; return the number of pairs and the total size of the values in bytes."""
    with PairFile(place) as file:
        for part in parts:
            file.add(part)
    return file.count, file.size


def read_pairs(place: Place) -> Iterator[Pairs]:
    """Yield the parts of a file that :func:`write_pairs` wrote. Raises DamageError ``SOW-SPK-061`` if the file is
    truncated, and ``SOW-SPK-158`` if it is missing."""
    with _open_place(place) as file:
        try:
            for keys, values in read_parts(file):
                if not keys:
                    return
                # SOW keys are 8 bytes each, without separators.
                yield [keys[at : at + 8] for at in range(0, len(keys), 8)], values
        except EOFError as problem:
            raise build_incomplete_error(place) from problem
    raise build_incomplete_error(place)


def _open_place(place: Place) -> IO[bytes] | RemoteStream:
    if not isinstance(place, RemotePath):
        return open_staged_file(place)
    from sowctl.remote.remote_files import RemoteStream

    try:
        return RemoteStream(place)
    except MissingError as error:
        if error.code != "SOW-RMT-002":
            raise
        raise build_missing_error(place) from error


def open_staged_file(path: Path) -> IO[bytes]:
    """Open a local staged file for reading. Raises DamageError ``SOW-SPK-158`` if it is missing."""
    try:
        return path.open("rb")
    except FileNotFoundError as error:
        raise build_missing_error(path) from error


def read_part(file: IO[bytes], offset: int, path: Place) -> tuple[bytes, list[bytes]]:
    """Read the part at ``offset`` of an open file: the concatenated keys, and the values.

    Raises DamageError ``SOW-SPK-061`` with the file's ``path`` if the file is truncated."""
    file.seek(offset)
    try:
        return next(read_parts(file), (b"", []))
    except EOFError as problem:
        raise build_incomplete_error(path) from problem


def build_incomplete_error(place: Place) -> DamageError:
    """Build the error for a truncated staged file."""
    return DamageError("SOW-SPK-061", "a staged file is incomplete", place=str(place))


def build_missing_error(place: Place) -> DamageError:
    """Build the error for a missing staged file."""
    return DamageError(
        "SOW-SPK-158",
        "a staged file is missing, although its task wrote it",
        place=str(place),
        hint="the output was not created; run the job again, and check whether another program removes files",
    )
