"""``--output``: complete or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sowctl
from sowctl.engine.api import InstanceHandle
from sowctl.errors import RefusedError
from sowctl.output_file import open_whole_file, refuse_existing
from sowctl.seam import SEAM, Seam
from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml

ROOT = str(Path(sowctl.__file__).parent.parent)


class Failing(Seam):
    """Fails at one point, and records all."""

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


def test_files_of_killed_processes_are_removed_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], stdout=subprocess.PIPE, check=True)
    # In a container each run may have the process id of the one that was killed.
    for pid in (int(ended.stdout), os.getpid()):
        (tmp_path / f".out.csv.{pid}.tmp").write_bytes(b"part")
    (tmp_path / ".other.csv.1.tmp").touch()
    kept = [".other.csv.1.tmp", f".out.csv.{os.getppid()}.tmp"]
    (tmp_path / kept[1]).touch()
    with open_whole_file(path, force=True, seam=SEAM) as stream:
        stream.write(b"data")
        with pytest.raises(FileExistsError), open_whole_file(path, force=True, seam=SEAM):
            pytest.fail("two writers of one temporary file")
    assert path.read_bytes() == b"data"
    assert names(tmp_path) == sorted([*kept, "out.csv"])


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


def run_with_stdout(tmp_path: Path, *words: str, mode: str) -> subprocess.CompletedProcess[bytes]:
    """A command whose standard output is the file ``out``, which the shell has opened and written to before."""
    script = f'{{ echo before; "$@"; status=$?; echo after; exit $status; }} {mode} out'
    command = [sys.executable, "-m", "sowctl", *words]
    return subprocess.run(
        ["sh", "-c", script, "sh", *command], cwd=tmp_path, capture_output=True, env=os.environ | {"PYTHONPATH": ROOT}
    )


@pytest.mark.parametrize("mode", [">", ">>"])
@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"])
def test_standard_output_that_is_a_file_is_continued(name: str, mode: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/stdout")
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    InstanceHandle.open(tmp_path / "sowctl.xml").topic("t").publish([{"id": 1}])
    (tmp_path / "out").write_text("old\n")
    for more in ((), ("--force",)):
        done = run_with_stdout(tmp_path, "query", "t", "--output", name, *more, mode=mode)
        assert (done.returncode, done.stderr) == (0, b"")
    begin = "old\n" if mode == ">>" else ""
    text = 'before\n{"id":1}\nafter\n'
    assert (tmp_path / "out").read_text() == begin + text * (2 if mode == ">>" else 1)
    assert (tmp_path / "link").is_symlink()


def test_a_descriptor_that_is_not_open_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError) as caught, open_whole_file(Path("/dev/fd/987654"), force=False, seam=SEAM):
        pytest.fail("the block must not run")
    assert caught.value.filename == "/dev/fd/987654"


def test_a_file_with_a_number_for_a_name_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "1"
    path.write_bytes(b"old")
    with pytest.raises(RefusedError):
        refuse_existing(path, force=False)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    refuse_existing(tmp_path / "loop", force=False)


@pytest.mark.parametrize(
    "words",
    [
        ("query", "t", "--output", ""),
        ("query", "t", "--output="),
        ("export", "t", ""),
        ("sql", "SELECT 1", "--output", ""),
        ("snapshot", "t", "--at", "-1s", "--output", ""),
        ("publish", "t", ""),
        ("publish", "t", "--rejects", ""),
        ("backup", ""),
        ("demo", ""),
        ("config", "show", ""),
    ],
)
def test_an_empty_name_is_not_the_working_directory(words: tuple[str, ...], cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    done = cli(*words)
    assert done.status == 2
    assert "error[SOW-CLI-003]" in done.err and "is empty" in done.err
    assert names(tmp_path) == ["sowctl.xml"]


def test_no_name_of_a_configuration_is_its_default(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    assert cli("info", "--config", "").status == 0


def test_the_files_of_snapshots_and_statements_are_reported(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("orders"), ("orders",)))
    rows = b"".join(b'{"id":%d}\n' % number for number in range(1234))
    assert cli("publish", "orders", stdin=rows).status == 0
    done = cli("snapshot", "orders", "--at", "now", "--output", "now.ndjson")
    assert (done.status, done.out) == (0, "")
    assert "now.ndjson: 1,234 records" in done.err
    assert cli("snapshot", "orders", "--at", "now", "--output", "again.csv", "--quiet").err == ""
    assert cli("snapshot", "orders", "--at", "now").err == ""
    # No size is reported for a file that is not regular.
    assert cli("snapshot", "orders", "--at", "now", "--output", "/dev/null").err == ""
    pytest.importorskip("duckdb")
    for name in ("rows.csv", "rows.parquet", "rows.json"):
        done = cli("sql", "SELECT * FROM orders WHERE id < 12", "--output", name)
        assert (done.status, done.out, f"{name}: 12 rows" in done.err) == (0, "", True), done.err
    assert cli("sql", "SELECT 1 AS a").err == ""
