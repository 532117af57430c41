"""``--output``: complete or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sowctl.cli.io.output_file import open_whole_file
from sowctl.errors import RefusedError
from sowctl.seam import SEAM, Seam


class Failing(Seam):
    """Fails at one point, and remembers all."""

    def __init__(self, point: str = "") -> None:
        self.point = point
        self.points: list[str] = []

    def call(self, point: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self.points.append(point)
        if point == self.point:
            raise OSError(28, "No space left on device")
        return function(*args, **kwargs)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_the_file_is_there_when_the_block_ended(tmp_path: Path) -> None:
    path, seam = tmp_path / "out.csv", Failing()
    with open_whole_file(path, force=True, seam=seam) as stream:
        stream.write(b"data")
        assert not path.exists()
    assert path.read_bytes() == b"data"
    assert names(tmp_path) == ["out.csv"]
    assert seam.points == ["file.open", "file.sync", "file.rename", "dir.sync"]
    assert path.stat().st_mode & 0o777 & ~0o640 == 0


@pytest.mark.parametrize("point", ["file.open", "file.sync", "file.rename"])
@pytest.mark.parametrize("before", [None, b"old"])
def test_a_failure_leaves_what_was_there(point: str, before: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    if before is not None:
        path.write_bytes(before)
    with pytest.raises(OSError, match="No space"), open_whole_file(path, force=True, seam=Failing(point)) as stream:
        stream.write(b"new")
    assert (path.read_bytes() if path.exists() else None) == before
    assert names(tmp_path) in ([], ["out.csv"])


def test_an_interrupted_block_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), open_whole_file(tmp_path / "x", force=False, seam=SEAM):
        raise KeyboardInterrupt
    assert names(tmp_path) == []


def test_no_file_is_replaced_unasked(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with pytest.raises(RefusedError) as caught, open_whole_file(path, force=False, seam=SEAM) as stream:
        stream.write(b"late")
        path.write_bytes(b"somebody else was faster")
    assert caught.value.code == "SOW-CLI-011"
    assert path.read_bytes() == b"somebody else was faster"
    with pytest.raises(RefusedError), open_whole_file(path, force=False, seam=SEAM):
        pytest.fail("the block must not run")
    assert names(tmp_path) == ["x"]


def test_devices_are_written_to_directly() -> None:
    with open_whole_file(Path(os.devnull), force=False, seam=SEAM) as stream:
        stream.write(b"gone")


@pytest.mark.parametrize("directory", ["missing", "forbidden"])
def test_an_error_names_the_file_and_not_the_one_that_stands_for_it_meanwhile(directory: str, tmp_path: Path) -> None:
    path = tmp_path / directory / "out.csv"
    if directory == "forbidden":
        path.parent.touch()
    with pytest.raises(OSError) as caught, open_whole_file(path, force=False, seam=SEAM):
        raise AssertionError("the block is not reached")
    assert caught.value.filename == str(path)
    assert ".tmp" not in str(caught.value)


def test_an_error_about_another_file_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, open_whole_file(tmp_path / "out", force=False, seam=SEAM):
        (tmp_path / "other").read_bytes()
    assert caught.value.filename == str(tmp_path / "other")
