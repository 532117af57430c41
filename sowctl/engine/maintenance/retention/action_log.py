"""The last runs of a configuration's actions: the file ``INSTANCE.upkeep``, and the lock for running actions.

Only this module packs and unpacks the file. Specified in ``sow-upkeep(5)``.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.checksum import crc32
from sowctl.directories import FILE_MODE, make_directories, sync_directory
from sowctl.errors import LockedError, StorageError, VersionError
from sowctl.journal.lock import JournalLock
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.seam import Seam
    from sowctl.values.times import Micros

FILE_MAGIC = b"\x89upkeep\n"
FORMAT_VERSION = 1
_HEADER = struct.Struct("<8sII")
_LOCK_SUBJECT = "the running of actions"


class ActionState(DescribedStruct, frozen=True):
    """The state of an action: last complete run, last attempt (microseconds UTC, 0 is never), outcome, error."""

    name: str
    ran: Micros = 0
    tried: Micros = 0
    outcome: str = ""
    problem: str | None = None


def find_actions_path(instance: Instance) -> Path:
    """Return the path of the file: in the journal's directory, or in the root directory of the configuration's
    paths."""
    assert instance.config is not None
    directory = instance.log.directory if instance.log is not None else instance.config.root
    return directory / f"{instance.config.name}.upkeep"


def encode_rows(rows: Mapping[str, ActionState]) -> bytes:
    """Return the content of the file."""
    import msgpack

    body: bytes = msgpack.packb(
        [[key, one.name, one.ran, one.tried, one.outcome, one.problem] for key, one in rows.items()]
    )
    return _HEADER.pack(FILE_MAGIC, FORMAT_VERSION, crc32(body)) + body


def decode_rows(raw: bytes, place: str) -> dict[str, ActionState] | None:
    """Return the rows of a file; None if it is damaged. Raises VersionError ``SOW-UPK-005``."""
    import msgpack

    if len(raw) < _HEADER.size:
        return None
    magic, version, crc = _HEADER.unpack_from(raw)
    body = raw[_HEADER.size :]
    # Before the version: a damaged number must not look like a newer release.
    if magic != FILE_MAGIC or crc != crc32(body):
        return None
    if version > FORMAT_VERSION:
        raise VersionError(
            "SOW-UPK-005",
            f"the file of action runs has format version {version}; this release reads up to {FORMAT_VERSION}",
            place=place,
            hint="use the release that wrote it, or a later one; or remove the file, which makes every action due",
        )
    try:
        # The checksum proves the bytes, not that this program wrote them.
        return {
            str(key): ActionState(str(name), int(ran), int(tried), str(outcome), problem and str(problem))
            for key, name, ran, tried, outcome, problem in msgpack.unpackb(body)
        }
    except Exception:  # msgpack raises a family of unrelated classes
        return None


def read_rows(path: Path, instance: Instance) -> dict[str, ActionState]:
    """Read the saved rows; empty without a file, or after a notification if it is damaged.

    Raises StorageError ``SOW-UPK-004``, VersionError ``SOW-UPK-005``.
    """
    try:
        raw: bytes = instance.seam.call("file.read", path.read_bytes)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _build_error(path, error) from error
    found = decode_rows(raw, str(path))
    if found is None:
        instance.notify(f"{path} is damaged: the times of the last runs are unknown, so all actions are due")
    return found or {}


def write_rows(path: Path, rows: Mapping[str, ActionState], seam: Seam) -> None:
    """Replace the file. Raises StorageError ``SOW-UPK-004``."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = seam.call("file.open", os.open, temporary, flags, FILE_MODE)
        try:
            rest = memoryview(encode_rows(rows))
            while rest:
                rest = rest[seam.call("file.write", os.write, fd, rest) :]
            seam.call("file.sync", os.fsync, fd)
        finally:
            os.close(fd)
        # Synced before the rename: the name always refers to the complete old or the complete new file.
        seam.call("file.rename", os.rename, temporary, path)
        sync_directory(path.parent, seam)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise _build_error(path, error) from error


@contextmanager
def hold_actions(path: Path, instance: Instance) -> Iterator[None]:
    """Hold the lock for running actions during the block. Raises LockedError ``SOW-UPK-006``, StorageError
    ``SOW-UPK-004``."""
    assert instance.config is not None
    name, held = instance.config.name, path.with_name(f".{path.name}-run.lock")
    try:
        make_directories(path.parent, instance.seam)
        lock = JournalLock(
            path.parent,
            name,
            instance.seam,
            instance.holder,
            instance.now,
            instance.notify,
            path=held,
            what=_LOCK_SUBJECT,
        )
    except OSError as error:
        raise _build_error(held, error) from error
    try:
        try:
            lock.acquire(instance.lock_wait)
        except OSError as error:
            raise _build_error(held, error) from error
        except LockedError as error:
            raise LockedError(
                "SOW-UPK-006", error.message, place=error.place, hint=error.hint, **error.facts
            ) from error
        yield
    finally:
        lock.close()


def _build_error(path: Path, error: OSError) -> StorageError:
    return StorageError(
        "SOW-UPK-004",
        f"cannot read or write the file of action runs: {error.strerror or error}",
        place=str(path),
        hint="check permissions and disk; an action whose run was not recorded is due again",
    )
