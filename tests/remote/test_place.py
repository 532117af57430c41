"""Places: paths of this machine and URLs, told apart by their text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.errors import UsageError
from sowctl.remote.place import RemotePath, is_url, parse_local_path, parse_place, parse_url


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("data/x.journal", Path("data/x.journal")),
        ("file:///srv/a%20b", Path("/srv/a b")),
        ("FILE:///srv/a", Path("/srv/a")),
        ("file:/srv/a", Path("/srv/a")),
        ("file://localhost/srv/a", Path("/srv/a")),
        ("/srv/100%", Path("/srv/100%")),
        ("s3://lake/a/b/", RemotePath("s3", "lake", "a/b")),
        ("s3a://lake/a", RemotePath("s3", "lake", "a")),
        ("S3://lake", RemotePath("s3", "lake", "")),
        ("hdfs://name:8020/a?x=y", RemotePath("hdfs", "name:8020", "a", "x=y")),
        ("s3://lake/a#b%20c", RemotePath("s3", "lake", "a#b%20c")),
    ],
)
def test_what_a_text_means(text: str, place: Path | RemotePath) -> None:
    assert parse_place(text) == place
    assert is_url(text) == isinstance(place, RemotePath)


def test_a_path_as_a_url_is_one_of_the_scheme_file() -> None:
    assert parse_url("/srv/a b") == RemotePath("file", "", "srv/a b") == parse_url("file:///srv/a%20b")
    assert str(parse_url("/srv/a")) == "file:///srv/a"


@pytest.mark.parametrize("read", [parse_place, parse_url, parse_local_path])
def test_a_slash_that_was_forgotten_leads_nowhere(read: Callable[[str], object]) -> None:
    with pytest.raises(UsageError) as caught:
        read("file://relative/y")
    assert caught.value.code == "SOW-RMT-001" and caught.value.place == "file://relative/y"
    assert "'relative'" in caught.value.message and "file:///relative/y" in str(caught.value.hint)


@pytest.mark.parametrize("text", ["file:///srv/run#1/out", "file:///srv/part-?.ndjson"])
def test_a_file_url_that_would_be_cut_leads_nowhere(text: str) -> None:
    for read in (parse_place, parse_url, parse_local_path):
        with pytest.raises(UsageError) as caught:
            read(text)
        assert caught.value.code == "SOW-RMT-001" and caught.value.place == text
        assert "%3F" in str(caught.value.hint) and "%23" in str(caught.value.hint)
    assert parse_place("file:///srv/run%231/part-%3F") == Path("/srv/run#1/part-?") == parse_place("/srv/run#1/part-?")


def test_names_below_a_place_keep_the_options_of_the_connection() -> None:
    place = parse_place("s3://lake/log?scheme=http") / "inst.0000000001.journal.gz"
    assert isinstance(place, RemotePath)
    assert (place.name, place.suffix, place.query) == ("inst.0000000001.journal.gz", ".gz", "scheme=http")


def test_what_is_shown_has_no_password_and_no_options() -> None:
    assert str(parse_place("s3://key:secret@lake/a?scheme=http")) == "s3://lake/a"
    assert str(parse_place("ftp://key:secret@host/a")) == "ftp://host/a"
    assert str(parse_place("abfs://box@account.dfs.core.windows.net/a")) == "abfs://box@account.dfs.core.windows.net/a"
