"""Output files that cannot be written completely: an error of the operating system, and no file."""

from __future__ import annotations

import errno
import json
import os
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="the extra 'arrow' is not installed")

import sowctl
from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml

ENDINGS = ["parquet", "arrow", "arrows", "db", "msgpack", "csv", "csv.gz", "tsv", "ndjson", "ndjson.zst", "json"]
RECORDS = 600


@pytest.fixture
def shop(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    rows = [{"id": number, "text": os.urandom(40).hex(), "part": {"x": number}} for number in range(RECORDS)]
    assert cli("publish", "t", stdin="".join(json.dumps(row) + "\n" for row in rows).encode()).status == 0
    for name in ("temporary", "out"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return cli


@contextmanager
def limit_file_size(size: int) -> Iterator[None]:
    """Prevent this process from writing files beyond a size in bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def find_error(text: str) -> dict[str, object]:
    return next(row for row in map(json.loads, text.splitlines()) if row["level"] == "error")


def read_error(text: str) -> tuple[object, object, object]:
    error = find_error(text)
    return error["code"], error["exit"], error.get("errno")


@pytest.mark.parametrize("size", [0, 1000, 4096, 10_000, 16_384])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_limit_of_file_sizes_ends_every_format_alike(ending: str, size: int, shop: Cli) -> None:
    for words in (
        ("query", "t", "--output", f"out/o.{ending}"),
        ("query", "t", "--columns", "/id,/text,/part", "--output", f"out/o.{ending}"),
        ("export", "t", f"out/o.{ending}"),
    ):
        with limit_file_size(size):
            done = shop(*words, "--error-format", "json")
        assert done.status == 6, (words, done.err)
        assert read_error(done.err) == ("SOW-CLI-060", 6, "EFBIG")
        assert not list(Path("out").iterdir())
        assert not list(Path("temporary").iterdir())


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_directory_that_cannot_be_written_to_is_named(ending: str, shop: Cli) -> None:
    done = shop("query", "t", "--output", f"/proc/o.{ending}", "--error-format", "json")
    code, status, number = read_error(done.err)
    assert (code, status, done.status) == ("SOW-CLI-060", 6, 6)
    assert number in {errno.errorcode[one] for one in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS)}


@pytest.mark.parametrize("words", [("query", "t"), ("get", "t", *map(str, range(RECORDS)))], ids=["query", "get"])
@pytest.mark.parametrize("ending", ["db", "arrow", "parquet"])
def test_a_full_disk_of_temporary_files_is_named(ending: str, words: tuple[str, ...], shop: Cli) -> None:
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("this user may not mount anything")
    line = shlex.join([sys.executable, "-m", "sowctl", "--error-format", "json", *words])
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"mount -t tmpfs -o size=16k none temporary && {line} --output out/o.{ending}"],
        capture_output=True,
        text=True,
        env={
            "PATH": "/usr/sbin:/usr/bin:/bin",
            "PYTHONPATH": str(Path(sowctl.__file__).parent.parent),
            "TMPDIR": str(Path("temporary").absolute()),
        },
    )
    assert done.returncode == 6, done.stderr
    assert read_error(done.stderr) == ("SOW-CLI-060", 6, "ENOSPC")
    assert find_error(done.stderr)["place"] == str(Path("temporary").absolute())
    assert not list(Path("out").iterdir())
