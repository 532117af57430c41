"""Conversion of errors of LMDB and of the operating system: their codes, kinds and hints."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import lmdb
import pytest

from sowctl.errors import DamageError, LockedError, MissingError, RefusedError, SowError, StorageError
from sowctl.store import lmdberrors
from sowctl.store.lmdberrors import build_failed_commit_errors, build_store_error, translate_errors


def _system(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _lmdb(number: int) -> lmdb.Error:
    problem = lmdb.Error("mdb_x")
    problem.code = number  # as the library sets it where the system refused
    return problem


CASES = (
    (lmdb.ReadersFullError("x"), LockedError, "SOW-STO-032"),
    (lmdb.CorruptedError("x"), DamageError, "SOW-STO-023"),
    (lmdb.PageNotFoundError("x"), DamageError, "SOW-STO-023"),
    (lmdb.InvalidError("x"), DamageError, "SOW-STO-023"),
    (lmdb.MemoryError("x"), StorageError, "SOW-STO-043"),
    (MemoryError(), StorageError, "SOW-STO-043"),
    (_system(errno.ENOENT), MissingError, "SOW-STO-020"),
    *((_system(number), StorageError, "SOW-STO-041") for number in (errno.EACCES, errno.EPERM, errno.EROFS)),
    *((_system(number), StorageError, "SOW-STO-040") for number in (errno.EFBIG, errno.ENOSPC, errno.EDQUOT)),
    (_system(errno.ENOMEM), StorageError, "SOW-STO-043"),
    (_system(errno.EIO), StorageError, "SOW-STO-042"),
    (_system(errno.EINVAL), StorageError, "SOW-STO-042"),
    (_lmdb(errno.ENOSPC), StorageError, "SOW-STO-040"),
    (_lmdb(errno.EACCES), StorageError, "SOW-STO-041"),
)


@pytest.mark.parametrize(("problem", "kind", "code"), CASES)
def test_every_problem_has_its_kind_and_code(
    problem: Exception, kind: type[SowError], code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lmdberrors, "is_disk_full", lambda _: False)
    error = build_store_error(problem, tmp_path / "x.sow", "write")
    assert (type(error), error.code, error.place) == (kind, code, str(tmp_path / "x.sow"))


def test_an_error_of_a_deeper_layer_keeps_its_words(tmp_path: Path) -> None:
    own = RefusedError("SOW-STO-027", "in use")
    assert build_store_error(own, tmp_path, "write") is own


def test_a_write_that_was_cut_is_a_full_disk_or_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LMDB reports EIO for both; the free space and the file size limit show which."""
    store = tmp_path / "x.sow"
    limits = [(resource.RLIM_INFINITY, resource.RLIM_INFINITY)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    free = [lmdberrors._FULL_DISK_BYTES]
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((0, 1, 0, 0, free[-1], 0, 0, 0, 0, 0)))
    cut = _system(errno.EIO)
    assert build_store_error(cut, store, "commit").code == "SOW-STO-042"
    free.append(lmdberrors._FULL_DISK_BYTES - 1)
    assert build_store_error(cut, store, "commit").message == "disk full: cannot commit"
    store.with_name("x.sow-building").write_bytes(bytes(100))
    for limit, words in ((101, "disk full"), (100, "file size limit")):
        limits.append((limit, limit))
        assert build_store_error(cut, store, "commit").message.startswith(words)
    assert build_store_error(cut, tmp_path / "other.sow", "commit").message.startswith("disk full")


@pytest.mark.parametrize("stored", [True, False, None])
def test_a_failed_commit_ends_a_handle_with_the_code_of_its_cause(stored: bool | None, tmp_path: Path) -> None:
    path = tmp_path / "x.sow"
    damage = DamageError("SOW-STO-023", "a bad page", hint="rebuild")
    full = StorageError("SOW-STO-040", "disk full", hint="free space on the disk")
    locked = LockedError("SOW-STO-032", "no slot")
    for cause, kind, code in (
        (damage, DamageError, "SOW-STO-023"),
        (full, StorageError, "SOW-STO-040"),
        (locked, StorageError, "SOW-STO-042"),
    ):
        error, later = build_failed_commit_errors(cause, path, "nothing is written", stored)
        assert (type(error), error.code, error.hint) == (kind, code, cause.hint)
        assert error.message == f"{cause.message}; nothing is written"
        assert error.facts["transaction_stored"] is stored
        assert (type(later), later.code) == (StorageError, "SOW-STO-044")
        assert (later.hint == cause.hint) is (cause is damage)


def test_questions_for_a_larger_map_pass_and_others_are_explained(tmp_path: Path) -> None:
    for question in (lmdb.MapFullError("x"), lmdb.MapResizedError("x")):
        with pytest.raises(type(question)), translate_errors(tmp_path, "write"):
            raise question
    with pytest.raises(StorageError) as caught, translate_errors(tmp_path, "write"):
        raise _system(errno.EROFS)
    assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(KeyError), translate_errors(tmp_path, "write"):
        raise KeyError


def test_who_may_not_write_is_told_what_the_state_of_a_queue_needs(tmp_path: Path) -> None:
    hints = {
        name: build_store_error(_system(errno.EACCES), tmp_path / name, "lock it").hint or ""
        for name in ("q.queue", "s")
    }
    assert "lease from it" in hints["q.queue"] and "-gate" in hints["s"]
