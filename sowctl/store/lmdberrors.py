"""Convert errors of LMDB and the operating system to plain messages (``sow-store(5)``, "Errors").

Called by every module of the package where a foreign exception would leave it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from sowctl.errors import DamageError, LockedError, MissingError, SowError, StorageError
from sowctl.store.codec import REBUILD_HINT

# Errors that LMDB raises, as this package calls it, only for contents that it did not write itself.
_DAMAGE_ERRORS = (
    lmdb.InvalidError,
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.VersionMismatchError,
    lmdb.IncompatibleError,
    lmdb.BadTxnError,
    lmdb.NotFoundError,
    lmdb.BadDbiError,
    lmdb.CursorFullError,
    lmdb.PageFullError,
    lmdb.KeyExistsError,
)
_FULL_DISK_BYTES = 1 << 16
"""If ordinary users have less free space than this, an unexplained write error counts as a full disk."""


def missing_store_error(path: Path) -> MissingError:
    """Return the error for a missing store at ``path``."""
    return MissingError(
        "SOW-STO-020",
        "the store does not exist",
        place=str(path),
        hint="publish to the topic, or rebuild the store with sowctl replay",
    )


def build_store_error(problem: Exception, path: Path, action: str) -> SowError:
    """Return the error to raise for ``problem``, which occurred during ``action`` (an infinitive) on the store
    ``path``."""
    # Already converted: an error of a lower layer keeps its code.
    if isinstance(problem, SowError):
        return problem
    if isinstance(problem, lmdb.ReadersFullError):
        return LockedError(
            "SOW-STO-032", "no reader slot is free", place=str(path), hint="end some readers, then try again"
        )
    if isinstance(problem, _DAMAGE_ERRORS):
        return damaged_page_error(problem, path)
    # py-lmdb has the system's error number in `code` of its own classes.
    number = problem.errno if isinstance(problem, OSError) else getattr(problem, "code", 0)
    text = _describe_reason(problem)
    if isinstance(problem, (lmdb.MemoryError, MemoryError)) or number == errno.ENOMEM:
        return StorageError(
            "SOW-STO-043",
            f"not enough address space to {action}",
            place=str(path),
            hint="increase the limit on virtual memory (ulimit -v)",
        )
    if number == errno.ENOENT:
        return missing_store_error(path)
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StorageError(
            "SOW-STO-041",
            f"permission denied: cannot {action}: {text}",
            place=str(path),
            hint="to read a queue, grant read permission on the file and its -lock file; to lease from "
            "it, write permission on both and on their directory"
            if path.suffix == ".queue"
            else "to read a store, grant read permission on the file and its directory; to write to it, "
            "write permission on both and on its -lock, -gate and -writer files",
        )
    # LMDB reports any short write as EIO: limit and free space are checked to find the reason.
    if number == errno.EFBIG or (number == errno.EIO and _has_reached_limit(path)):
        return StorageError(
            "SOW-STO-040",
            f"file size limit reached: cannot {action}",
            place=str(path),
            hint="increase the limit on file sizes (ulimit -f)",
        )
    if number in (errno.ENOSPC, errno.EDQUOT) or (number == errno.EIO and is_disk_full(path)):
        message = f"disk full: cannot {action}"
        return StorageError("SOW-STO-040", message, place=str(path), hint="free space on the disk")
    return StorageError("SOW-STO-042", f"cannot {action}: {text}", place=str(path))


def _describe_reason(problem: Exception) -> str:
    if isinstance(problem, OSError):
        return problem.strerror or str(problem)
    return str(getattr(problem, "reason", "") or problem)


def damaged_page_error(problem: Exception, path: Path) -> DamageError:
    """Return the error for contents that LMDB did not write."""
    return DamageError(
        "SOW-STO-023", f"LMDB found a damaged page: {_describe_reason(problem)}", place=str(path), hint=REBUILD_HINT
    )


def build_failed_commit_errors(
    cause: SowError, path: Path, state: str, stored: bool | None
) -> tuple[SowError, StorageError]:
    """Return the error for a commit or sync that failed because of ``cause``, and the error for later writes.

    ``state`` describes the current content of the file; ``stored``: whether it includes the transaction, None if
    unknown.
    """
    # A commit may fail because of a damaged page or because of the disk: the code distinguishes them, as exit statuses
    # differ.
    damaged = isinstance(cause, DamageError)
    kind: type[SowError] = DamageError if damaged else StorageError
    error = kind(
        cause.code if isinstance(cause, kind) else "SOW-STO-042",
        f"{cause.message}; {state}",
        place=str(path),
        hint=cause.hint,
        transaction_stored=stored,
    )
    later = StorageError(
        "SOW-STO-044",
        f"this store handle failed before and refuses further writes: {error.message}",
        place=str(path),
        hint=cause.hint if damaged else "check the disk, then start the program again",
    )
    return error, later


def is_disk_full(path: Path) -> bool:
    """Return whether the file system of ``path`` is practically full. LMDB reports a full disk as an I/O error."""
    try:
        stat = os.statvfs(path.parent)
    except OSError:
        return False
    return stat.f_bavail * stat.f_frsize < _FULL_DISK_BYTES


def _has_reached_limit(path: Path) -> bool:
    """Return whether a store, or its replacement under construction, has reached the limit on file size.

    A write that crosses the limit is cut there, which LMDB reports as an I/O error; the next one fails with EFBIG.
    """
    import resource  # here, because only failures need it

    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit == resource.RLIM_INFINITY:
        return False
    try:
        beside = (file for file in path.parent.iterdir() if file.name.startswith(path.name))
        return any(file.stat().st_size >= limit for file in beside)
    except OSError:
        return False


@contextmanager
def translate_errors(path: Path, action: str) -> Iterator[None]:
    """Convert all errors of LMDB and the operating system. MapFull and MapResized pass: callers handle them."""
    try:
        yield
    # No failures: callers respond with a larger map.
    except (lmdb.MapFullError, lmdb.MapResizedError):
        raise
    except (lmdb.Error, OSError, MemoryError) as problem:
        raise build_store_error(problem, path, action) from problem
