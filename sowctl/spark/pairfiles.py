"""Files of keys and stored values that a task leaves for the driver or for other tasks.

The tasks of a fold, of a view and of a new store write them into a staging directory. Jobs that put a store
together, read a state or write a data set read them part by part, so that none is ever in memory as a whole. Where a
source is planned, the states at several instants are left in them.
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
    """Pairs in parts of at most ``size``, as :func:`write_pairs` takes them."""
    for start in range(0, len(pairs), size):
        part = pairs[start : start + size]
        yield [key for key, _ in part], [value for _, value in part]


class PairFile:
    """A file of keys and stored values that is written part by part; whole once the ``with`` has ended well.

    Raises StorageError ``SOW-SPK-060``, and what writing at a URL raises.
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
        # A part without pairs is the end mark, so an empty one is left out on the way.
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
            # A file that is cut between two parts would be a whole one otherwise.
            if error is None:
                self._write(encode_part(b"", []))
                self._file.flush()


@contextmanager
def translate_write_errors(place: Place) -> Iterator[None]:
    """Raise StorageError ``SOW-SPK-060`` where a staged file cannot be written, at a URL what fits."""
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
    """A file of keys and stored values in parts; returns how many pairs and how many bytes of values there are."""
    with PairFile(place) as file:
        for part in parts:
            file.add(part)
    return file.count, file.size


def read_pairs(place: Place) -> Iterator[Pairs]:
    """Read what :func:`write_pairs` wrote, part by part. Raises DamageError ``SOW-SPK-061`` for a file that is cut, and
    ``SOW-SPK-158`` for one that is missing."""
    with _open_place(place) as file:
        try:
            for keys, values in read_parts(file):
                if not keys:
                    return
                # SOW keys are 8 bytes each, written side by side.
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
    """A file here that a task has left. Raises DamageError ``SOW-SPK-158``."""
    try:
        return path.open("rb")
    except FileNotFoundError as error:
        raise build_missing_error(path) from error


def read_part(file: IO[bytes], offset: int, path: Place) -> tuple[bytes, list[bytes]]:
    """One part of an open file, which begins at ``offset``: keys back to back, and values.

    Raises DamageError ``SOW-SPK-061`` with the file's ``path``."""
    file.seek(offset)
    try:
        return next(read_parts(file), (b"", []))
    except EOFError as problem:
        raise build_incomplete_error(path) from problem


def build_incomplete_error(place: Place) -> DamageError:
    """The error that says that a staged file is cut."""
    return DamageError("SOW-SPK-061", "a staged file is incomplete", place=str(place))


def build_missing_error(place: Place) -> DamageError:
    """The error that says that a staged file is gone."""
    return DamageError(
        "SOW-SPK-158",
        "a staged file is missing, although its task wrote it",
        place=str(place),
        hint="the output was not created; run the job again, and check whether another program removes files",
    )
