"""The list of bookmark store files used by subscriptions of an instance, next to the journal.

The removal of journal files must respect the entries that these subscriptions still need. A subscription adds its file
to the list once, before it reads its position. Specified in ``sow-bookmark(5)``, "Known stores".
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.directories import sync_directory
from sowctl.errors import StorageError

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance

_LIST_FILE_MODE = 0o640


def list_known_stores(instance: Instance) -> list[Path]:
    """Return the listed files in order of addition; some of them may no longer exist.

    Raises StorageError ``SOW-BKM-012``.
    """
    path = _get_list_path(instance)
    if path is None:
        return []
    try:
        return _parse_list_lines(instance.seam.call("file.read", path.read_bytes))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(
            "SOW-BKM-012",
            f"cannot read the list of bookmark stores: {error.strerror or error}",
            place=str(path),
            hint="correct the permissions; without the list it is unknown which subscriptions need journal entries",
        ) from error


def note_store(instance: Instance, store: Path) -> None:
    """Add a store file to the list unless it is listed. A failure is reported with ``instance.notify_once``."""
    path = _get_list_path(instance)
    line = os.fsencode(store.resolve()) + b"\n"
    if path is None or line.count(b"\n") > 1:
        return
    try:
        if path.is_file() and store.resolve() in _parse_list_lines(path.read_bytes()):
            return
        fd = instance.seam.call(
            "file.open",
            os.open,
            path,
            os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW,
            _LIST_FILE_MODE,
        )
        try:
            instance.seam.call("file.lock", fcntl.flock, fd, fcntl.LOCK_EX)
            there = os.pread(fd, os.fstat(fd).st_size, 0)
            if store.resolve() not in _parse_list_lines(there):
                # Terminate a line torn by a crash, so that it does not corrupt the new one.
                torn = b"\n" if there and not there.endswith(b"\n") else b""
                instance.seam.call("file.write", os.write, fd, torn + line)
                instance.seam.call("file.sync", os.fsync, fd)
                sync_directory(path.parent, instance.seam)
        finally:
            os.close(fd)
    except OSError as error:
        instance.notify_once(
            f"list of {store}",
            f"cannot write {path} ({error.strerror or error}): sowctl journal prune protects "
            f"{store} only if it is named with --bookmarks",
        )


def _get_list_path(instance: Instance) -> Path | None:
    """Return the path of the list; None without a journal to remove files from."""
    if instance.config is None or instance.log is None or not instance.log.directory.is_dir():
        return None
    return instance.log.directory / f"{instance.config.name}.places"


def _parse_list_lines(raw: bytes) -> list[Path]:
    """Return the paths of complete lines; a line without an end was interrupted."""
    return list(dict.fromkeys(Path(os.fsdecode(line)) for line in raw.split(b"\n")[:-1] if line.startswith(b"/")))
