"""Schemes for which there is no server here: what is told of them without one, in one line and with a hint."""

from __future__ import annotations

import sys

import pytest

from sowctl.errors import SowError
from sowctl.remote import remote_files
from sowctl.remote.place import parse_url, resolve_place

pytest.importorskip("pyarrow.fs")

CLOSED = "127.0.0.1:1"
"""Nothing listens there."""


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "HADOOP_HOME", "CLASSPATH", "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)
    remote_files._get_filesystem.cache_clear()
    yield
    remote_files._get_filesystem.cache_clear()


def told(url: str) -> SowError:
    with pytest.raises(SowError) as caught:
        remote_files.read_file(parse_url(url))
    error = caught.value
    assert "\n" not in error.message and error.hint and "secret" not in f"{error.place}{error.message}"
    return error


def test_google_is_not_asked_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    error = told(f"gs://anonymous@lake/x?endpoint_override={CLOSED}&scheme=http&retry_limit_seconds=1")
    assert error.code == "SOW-RMT-005"
    # what a user does not say is said for them: the library would go on for a quarter of an hour
    asked: list[str] = []
    connected = remote_files._connect_filesystem
    monkeypatch.setattr(remote_files, "_connect_filesystem", lambda root: (asked.append(root), connected(root))[1])
    _, path = remote_files._locate_path(parse_url("gs://anonymous@lake/some/x"))
    assert path == "lake/some/x" and asked == [
        f"gs://anonymous@lake/x?retry_limit_seconds={remote_files.RETRY_SECONDS}"
    ]


def test_azure_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"TENANT_ID": "0", "CLIENT_ID": "x", "CLIENT_SECRET": "secret", "AUTHORITY_HOST": f"https://{CLOSED}/"}
    for name, value in facts.items():
        monkeypatch.setenv(f"AZURE_{name}", value)
    # the library would end this process: it is asked something first that it only refuses
    error = told("abfs://lake@account.dfs.core.windows.net/x")
    assert error.code == "SOW-RMT-004" and "az login" in str(error.hint)


@pytest.mark.parametrize("url", [f"hdfs://{CLOSED}/x", "viewfs://cluster/x"])
def test_hdfs_without_its_library(url: str) -> None:
    error = told(url)
    assert (error.code, error.exit_status) == ("SOW-RMT-001", 2) and "native library" in str(error.hint)


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("oss://lake/x", "oss"),
        ("abfs://lake@account.dfs.core.windows.net/x?no=option", "'no'"),
        ("gs://lake/x?no=option", "'no'"),
        ("s3://lake/x?no=option", "'no'"),
    ],
)
def test_what_no_file_system_takes_is_named(url: str, word: str) -> None:
    error = told(url)
    assert error.code == "SOW-RMT-001" and word in error.message


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for url in ("s3://lake/x", "gs://lake/x", "abfs://lake@account/x", "hdfs://host/x"):
        error = told(url)
        assert error.code == "SOW-RMT-007" and "sowctl[arrow]" in str(error.hint)


def test_places_of_options(tmp_path) -> None:  # type: ignore[no-untyped-def]
    assert (
        resolve_place(tmp_path, "a b") == tmp_path / "a b" and resolve_place(tmp_path, "/a%20b").as_posix() == "/a%20b"
    )
    assert resolve_place(tmp_path, "file:///a%20b").as_posix() == "/a b"
    assert resolve_place(tmp_path, "S3A://lake/x/") == parse_url("s3://lake/x")
