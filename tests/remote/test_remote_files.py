"""The door to files at URLs: what is written is read, by offset too, and what goes wrong is said in one line."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sowctl.errors import SowError
from sowctl.remote import remote_files
from sowctl.remote.place import RemotePath, parse_url
from tests.support.objectstore import ObjectStore


@pytest.fixture(params=["s3", "file", "subtree"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemotePath:
    """A directory in an object store, of this machine, and below a directory of a file system."""
    if request.param == "s3":
        return parse_url(request.getfixturevalue("lake").url("some/where"))
    if request.param == "subtree":
        fs = pytest.importorskip("pyarrow.fs")
        system = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
        monkeypatch.setattr(remote_files, "_connect_filesystem", lambda root: (system, "x"))
        remote_files._get_filesystem.cache_clear()
        request.addfinalizer(remote_files._get_filesystem.cache_clear)
        return parse_url("hdfs://cluster/some/where")
    pytest.importorskip("pyarrow")
    return parse_url(str(tmp_path / "some" / "where"))


def test_what_is_written_is_there(root: RemotePath) -> None:
    place = root / "one"
    assert not remote_files.place_exists(place) and remote_files.find_size(place) is None
    assert remote_files.write_file(place, [b"ab", b"", b"cd"]) == 4
    assert remote_files.read_file(place) == b"abcd" == b"".join(remote_files.iterate_chunks(place))
    assert remote_files.find_size(place) == 4 and remote_files.place_exists(root)
    remote_files.write_file(place, [b"new"])
    remote_files.write_file(root / "below" / "two", [b"2"])
    assert [one[:2] for one in remote_files.list_files(root)] == [(place, 3)]
    assert [one[:2] for one in remote_files.list_files(root, below=True)] == [(root / "below/two", 1), (place, 3)]
    assert all(abs(one.changed - time.time()) < 600 for one in remote_files.list_files(root))
    assert (
        remote_files.list_directories(root) == [root / "below"]
        and remote_files.list_directories(root / "nowhere") == []
    )
    with remote_files.create_file(root / "below" / "part") as file:
        file.write(b"a")
        file.write(b"bc")
    assert remote_files.read_file(root / "below" / "part") == b"abc"
    assert remote_files.list_files(root / "nowhere") == []
    remote_files.delete_file(place)
    remote_files.delete_file(place)
    assert not remote_files.place_exists(place)
    remote_files.delete_directory(root)
    remote_files.delete_directory(root)
    assert remote_files.list_files(root, below=True) == []


def test_a_file_gets_another_name_once(root: RemotePath, monkeypatch: pytest.MonkeyPatch) -> None:
    first, then = root / "hidden/7 a=é%" / "one", root / "kind=x%2F é" / "two"
    remote_files.write_file(first, [b"content"])
    remote_files.write_file(then, [b"older"])
    remote_files.rename_file(first, then)
    assert remote_files.read_file(then) == b"content"
    # A task that is run again comes upon what it has done; in an object store the first name is still there.
    remote_files.rename_file(first, then)
    assert remote_files.read_file(then) == b"content" and (remote_files.find_size(first) is not None) == (
        root.scheme == "s3"
    )
    with pytest.raises(SowError) as caught:
        remote_files.rename_file(root / "nothing", root / "three")
    assert caught.value.code == "SOW-RMT-002" and remote_files.find_size(root / "three") is None
    # What is too large for one request is copied by reading it.
    monkeypatch.setattr(remote_files.REMOTE_LIMITS, "max_copy_bytes", 3)
    remote_files.write_file(first, [b"large ", b"content"])
    remote_files.rename_file(first, then)
    assert remote_files.read_file(then) == b"large content"


def test_a_file_of_this_machine_is_for_those_who_may_read_the_journal(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    left = tmp_path / "far" / ".one.new"
    left.parent.mkdir(mode=0o755)
    left.touch(0o644)
    before = os.umask(0o022)
    try:
        remote_files.write_file(parse_url(str(tmp_path / "far" / "one")), [b"x"])
        remote_files.write_file(parse_url(str(tmp_path / "far" / "a" / "b" / "two")), [b"x"])
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "far").rglob("*")}
    assert modes == {"one": 0o640, "a": 0o750, "b": 0o750, "two": 0o640}


class _Interrupting(bytes):
    """Content in the middle of whose writing Ctrl-C is pressed."""

    def __len__(self) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        return super().__len__()


def test_a_file_whose_writing_ends_early_is_as_before_or_missing(root: RemotePath) -> None:
    place, chunks = root / "one", root / "two"

    def broken(error: BaseException) -> Iterator[bytes]:
        yield b"half"
        raise error

    for before, error in ((b"before", OSError("no disk")), (b"before", KeyboardInterrupt())):
        remote_files.write_file(chunks, [before])
        with pytest.raises(SowError if isinstance(error, OSError) else KeyboardInterrupt):
            remote_files.write_file(chunks, broken(error))
        assert remote_files.find_size(chunks) in (None, len(before))
    remote_files.write_file(place, [b"before"])
    with pytest.raises(KeyboardInterrupt):
        remote_files.write_file(place, [_Interrupting(b"new"), b"er"])
    assert remote_files.read_file(place) in (b"before", b"newer")


def test_a_file_is_read_at_any_offset(root: RemotePath) -> None:
    content = random.Random(3).randbytes(300_000)
    remote_files.write_file(root / "file", [content])
    file = remote_files.RemoteFile(root / "file")
    assert file.size == len(content)
    rng = random.Random(4)
    for _ in range(200):
        at, size = rng.randrange(310_000), rng.choice((1, 500, 70_000, 400_000))
        assert bytes(file.read(at, size)) == content[at : at + size], (at, size)
    file.close()
    file.close()


def test_reading_that_goes_on_asks_for_much_at_once(lake: ObjectStore) -> None:
    content = os.urandom(12 << 20)
    place = parse_url(lake.url("file"))
    remote_files.write_file(place, [content])
    lake.requests.clear()
    file = remote_files.RemoteFile(place)
    for at in range(0, len(content), 5000):
        assert bytes(file.read(at, 5000)) == content[at : at + 5000]
    # the first is of 64 KiB, each then four times as large, up to 4 MiB
    assert [method for method, _ in lake.requests] == ["HEAD"] + ["GET"] * 6
    file.close()


def error_of(place: RemotePath, *, write: bool = False) -> SowError:
    with pytest.raises(SowError) as caught:
        if write:
            remote_files.write_file(place, [b"x"])
        else:
            remote_files.read_file(place)
    error = caught.value
    assert "\n" not in error.message and error.hint
    assert "secret" not in f"{error.place}{error.message}{error.hint}" and "endpoint_override=" not in str(error.place)
    return error


def test_what_is_not_there_is_told_from_what_holds_it(lake: ObjectStore) -> None:
    assert error_of(parse_url(lake.url("file"))).code == "SOW-RMT-002"
    elsewhere = parse_url(lake.url("file").replace("//lake/", "//pond/"))
    for write in (False, True):
        error = error_of(elsewhere, write=write)
        assert (error.code, error.exit_status, error.place) == ("SOW-RMT-003", 10, "s3://pond/file")
    for look in (remote_files.place_exists, remote_files.list_files):
        with pytest.raises(SowError) as caught:
            look(elsewhere)
        assert caught.value.code == "SOW-RMT-003"
        assert not look(parse_url(lake.url("file")))


def test_access_that_is_refused(lake: ObjectStore) -> None:
    place = parse_url(lake.url("file"))
    remote_files.write_file(place, [b"x"])
    lake.refused.add("lake/file")
    for write in (False, True):
        error = error_of(place, write=write)
        assert (error.code, error.exit_status) == ("SOW-RMT-004", 6)
    lake.refused.clear()
    # other credentials, in the URL: Arrow keeps a connection for each
    stranger = parse_url(lake.url("file").replace("s3://", "s3://stranger:secret@"))
    assert error_of(stranger).code == "SOW-RMT-004"


def test_a_store_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        def open_input_file(self, path: str) -> None:
            raise OSError(
                "When reading: AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 7, Could "
                "not connect to server (Request ID: 1)"
            )

    monkeypatch.setattr(remote_files, "_get_filesystem", lambda *_: (Silent(), "lake/"))
    error = error_of(parse_url("s3://lake/file"))
    assert (error.code, error.exit_status) == ("SOW-RMT-005", 6)
    assert "Request ID" not in error.message and "Could not connect" in error.message


def test_a_store_that_is_not_reached_is_no_wrong_url(monkeypatch: pytest.MonkeyPatch) -> None:
    def connected(root: str) -> None:
        raise OSError(
            "When resolving region for bucket 'far': AWS Error NETWORK_CONNECTION during HeadBucket operation: "
            "curlCode: 6, Could not resolve hostname"
        )

    monkeypatch.setattr(remote_files, "_connect_filesystem", connected)
    error = error_of(parse_url("s3://far/file"))
    assert (error.code, error.exit_status, error.place) == ("SOW-RMT-005", 6, "s3://far/file")
    assert error.message.endswith("Could not resolve hostname")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("oss://a/b", "oss://a/b"),
        ("ftp://key:secret@a/b/c?k=secret", "ftp://a/b/c"),
        ("s3://a/b?no=option", "s3://a/b"),
        ("hdfs://localhost:1/x", "hdfs://localhost:1/x"),
    ],
)
def test_a_url_that_no_file_system_takes(url: str, shown: str) -> None:
    pytest.importorskip("pyarrow")
    error = error_of(parse_url(url))
    assert (error.code, error.exit_status, error.place) == ("SOW-RMT-001", 2, shown)
    if "Unrecognized" in error.message:
        assert error.message.endswith(f": {shown}")


def test_what_cannot_be_read_here_is_told_of_the_file_here(root: RemotePath, tmp_path: Path) -> None:
    remote_files.write_file(root / "file", [b"before"])
    for path in (tmp_path / "gone", tmp_path):
        with pytest.raises(SowError) as caught:
            remote_files.upload_file(path, root / "file")
        error = caught.value
        assert (error.code, error.exit_status, error.place) == ("SOW-RMT-008", 6, str(path))
    # as it was where that can be, and never a part: in an object store an upload cannot be given up
    assert not remote_files.place_exists(root / "file") or remote_files.read_file(root / "file") == b"before"
    (tmp_path / "sent").write_bytes(b"after")
    assert (
        remote_files.upload_file(tmp_path / "sent", root / "file") == 5
        and remote_files.read_file(root / "file") == b"after"
    )


def test_what_cannot_be_written_here_is_told_of_the_file_here(root: RemotePath, tmp_path: Path) -> None:
    remote_files.write_file(root / "file", [b"content"])
    full = Path("/dev/full")  # takes any name, and no byte
    for path in (tmp_path / "no" / "directory", tmp_path, *([full] if full.exists() else [])):
        with pytest.raises(SowError) as caught:
            remote_files.download_file(root / "file", path)
        error = caught.value
        assert (error.code, error.exit_status, error.place) == ("SOW-RMT-009", 6, str(path)) and error.hint
    with pytest.raises(SowError, match="gone") as caught:
        remote_files.download_file(root / "gone", tmp_path / "fetched")
    assert caught.value.code == "SOW-RMT-002"
    remote_files.download_file(root / "file", tmp_path / "fetched")
    assert (tmp_path / "fetched").read_bytes() == b"content"
