"""Directories that outlive a power failure: each is on disk before a name is put into it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from sowctl.directories import DIRECTORY_MODE, make_directories, sync_directory
from sowctl.seam import SEAM, Seam

R = TypeVar("R")


class Steps(Seam):
    """Writes down which directories are made and synced, in order."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, str]] = []

    def call(self, point: str, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:  # type: ignore[override]
        path = str(args[0]) if point == "dir.make" else str(Path(f"/proc/self/fd/{args[0]}").readlink())
        self.steps.append((point, Path(path).name))
        return function(*args, **kwargs)


def test_missing_directories_are_made_from_the_top_down(tmp_path: Path) -> None:
    seam = Steps()
    top = tmp_path / "a"
    make_directories(top / "b" / "c", seam)
    assert seam.steps == [
        ("dir.make", "a"),
        ("dir.sync", tmp_path.name),
        ("dir.make", "b"),
        ("dir.sync", "a"),
        ("dir.make", "c"),
        ("dir.sync", "b"),
    ]
    assert top.stat().st_mode & 0o777 == DIRECTORY_MODE & ~_umask()
    seam.steps.clear()
    make_directories(top / "b" / "c", seam)
    assert seam.steps == []


def test_a_directory_that_another_process_makes_first_is_used(tmp_path: Path) -> None:
    class Beaten(Seam):
        def call(self, point: str, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:  # type: ignore[override]
            if point == "dir.make":
                args[0].mkdir()
            return function(*args, **kwargs)

    make_directories(tmp_path / "a" / "b", Beaten())
    assert (tmp_path / "a" / "b").is_dir()


def test_failures_are_passed_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        make_directories(tmp_path / "file" / "below", SEAM)
    with pytest.raises(FileNotFoundError):
        sync_directory(tmp_path / "none", SEAM)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
