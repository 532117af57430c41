"""The files of a store, and the permissions of this process on them (``sow-store(5)``, "Files", "Without locks").

Used before a store is opened, and by ``sowctl doctor``; does not import LMDB.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from msgspec import Struct

from sowctl.errors import RefusedError

DAMAGED_SUFFIX, REPLACED_SUFFIX = ".damaged-", ".replaced-"
"""Suffixes of a file that a rebuild put aside, after the store's name and before a number: the second for a file
without problems."""
# By default access(2) checks the real user, while opening a file depends on the effective one.
_EFFECTIVE = os.access in os.supports_effective_ids
_READ_WRITE = os.R_OK | os.W_OK


class StoreFiles(Struct, frozen=True):
    """The names that belong to one store. Links are followed first: two names of one store must share its locks."""

    path: Path
    lock: Path
    gate: Path
    writer: Path
    directory: Path

    @classmethod
    def from_path(cls, path: str | os.PathLike[str]) -> StoreFiles:
        """Return the files of the store at ``path``."""
        real = Path(path).resolve()
        lock, gate, writer = (real.with_name(f"{real.name}-{end}") for end in ("lock", "gate", "writer"))
        return cls(real, lock, gate, writer, real.parent)


def require_regular_file(path: Path) -> None:
    """Reject a path of a store that is a directory, a device, a pipe or a socket.

    A rename would replace a device by a store for all programs, and opening it would leave lock files beside it. Raises
    RefusedError ``SOW-STO-070``.
    """
    if path.exists() and not path.is_file():
        raise RefusedError(
            "SOW-STO-070",
            "the path of the store is not a regular file",
            place=str(path),
            hint="give another path for the store",
        )


def can_lock(files: StoreFiles) -> bool:
    """Return whether this process can register in the store's lock table and read the gate.

    On a read-only file system no process can. Missing files can be created if the directory is writable.
    """
    return _may_use(files, files.lock, _READ_WRITE) and _may_use(files, files.gate, os.R_OK)


def can_hold_gate(files: StoreFiles) -> bool:
    """Return whether this process can hold the gate exclusively."""
    return _may_use(files, files.gate, _READ_WRITE)


def can_discard_lock(files: StoreFiles) -> bool:
    """Return whether it can discard a lock file of another data file, as of a copied or restored store."""
    return _has_access(files.gate, _READ_WRITE) and _may_change(files)


def determine_access(path: Path) -> Literal["write", "read", "unlocked", "none"]:
    """Return how the store at ``path`` can be used: written, read, read without locks, or not at all."""
    files = StoreFiles.from_path(path)
    if not _has_access(files.path, os.R_OK):
        return "none"
    if not can_lock(files):
        return "unlocked"
    # A writer needs every lock of the store, so without write permission on one file it is a reader.
    writes = _has_access(files.path, _READ_WRITE) and all(
        _may_use(files, one, _READ_WRITE) for one in (files.gate, files.writer)
    )
    return "write" if writes else "read"


def _may_use(files: StoreFiles, path: Path, how: int) -> bool:
    return _has_access(path, how) or (not path.exists() and _may_change(files))


def _may_change(files: StoreFiles) -> bool:
    return _has_access(files.directory, os.W_OK | os.X_OK)


def _has_access(path: Path, how: int) -> bool:
    return os.access(path, how, effective_ids=_EFFECTIVE)
