"""The files of a store, and what this process may do with them (``sow-store(5)``, "Files", "Without locks").

Asked before a store is opened, and by ``sowctl doctor``; loads no LMDB.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from msgspec import Struct

from sowctl.errors import RefusedError

DAMAGED_SUFFIX, REPLACED_SUFFIX = ".damaged-", ".replaced-"
"""What the name of a file that a rebuild put aside has after that of its store, before a number: the second where
nothing was found wrong with it."""
# By default access(2) asks for the real user, while opening a file is decided for the effective one.
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
        """The files of the store at ``path``."""
        real = Path(path).resolve()
        lock, gate, writer = (real.with_name(f"{real.name}-{end}") for end in ("lock", "gate", "writer"))
        return cls(real, lock, gate, writer, real.parent)


def require_regular_file(path: Path) -> None:
    """Refuse the place of a store where a directory, a device, a pipe or a socket stands.

    A rename would put a store in the place of a device for all programs, and opening it would leave lock files beside
    it. Raises RefusedError ``SOW-STO-070``.
    """
    if path.exists() and not path.is_file():
        raise RefusedError(
            "SOW-STO-070",
            "the path of the store is not a regular file",
            place=str(path),
            hint="give another path for the store",
        )


def can_lock(files: StoreFiles) -> bool:
    """Return whether this process may enter itself in the store's lock table and read the gate.

    On a read-only file system no process may. Missing files can be made where the directory may be changed.
    """
    return _may_use(files, files.lock, _READ_WRITE) and _may_use(files, files.gate, os.R_OK)


def can_hold_gate(files: StoreFiles) -> bool:
    """Return whether this process may hold the gate alone."""
    return _may_use(files, files.gate, _READ_WRITE)


def can_discard_lock(files: StoreFiles) -> bool:
    """Return whether it may discard a lock file that belonged to another data file: of a copied or restored store."""
    return _has_access(files.gate, _READ_WRITE) and _may_change(files)


def determine_access(path: Path) -> Literal["write", "read", "unlocked", "none"]:
    """Return how the store at ``path`` can be used: written, read, read without locks, or not at all."""
    files = StoreFiles.from_path(path)
    if not _has_access(files.path, os.R_OK):
        return "none"
    if not can_lock(files):
        return "unlocked"
    # A writer takes every lock of the store, so one file that it may not write to makes it a reader.
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
