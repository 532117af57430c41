"""reindex: which indexes it builds for which requests, and what prevents it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from sowctl.engine.topics.targets import Target, resolve_targets
from sowctl.engine.verbs.reindex import rebuild_indexes
from sowctl.errors import LockedError, StorageError
from tests.support.instances import Lab, config_xml, message, topic_xml


@pytest.fixture
def indexed(tmp_path: Path) -> Lab:
    parts = "<HashIndex><Key>/a</Key><Key>/b/c</Key></HashIndex><Index>/price</Index>"
    lab = Lab(tmp_path, config_xml(topic_xml("t", parts), ("t",)))
    lab.publish("t", *(message(id=n, a=f"a{n}", b={"c": n % 3}, price=n / 4) for n in range(100)))
    return lab


def _files(lab: Lab) -> list[Path]:
    return sorted(lab.directory.rglob("*.memo"))


def test_what_the_configuration_names_and_what_was_used(indexed: Lab) -> None:
    indexed.query("t", "/other = 5", index_from=0)
    instance = indexed.open()
    (report,) = rebuild_indexes(instance, resolve_targets(instance, "t"))
    assert report.paths == ("/id", "/a", "/b/c", "/price", "/other")
    assert (report.records, len(_files(indexed))) == (100, 7)
    assert report.bytes == sum(path.stat().st_size for path in _files(indexed))
    assert indexed.open().topic("t").info().index_bytes == report.bytes
    before = {path: path.read_bytes() for path in _files(indexed)}
    rebuild_indexes(instance, resolve_targets(instance, "t"))
    assert {path: path.read_bytes() for path in _files(indexed)} == before


def test_drop(indexed: Lab) -> None:
    instance = indexed.open()
    (built,) = rebuild_indexes(instance, resolve_targets(instance, "t"))
    (dropped,) = rebuild_indexes(instance, resolve_targets(instance, "t"), drop=True)
    assert dropped.removed == built.bytes > 0
    assert not list(indexed.directory.rglob("*-memo"))
    assert rebuild_indexes(instance, resolve_targets(instance, "t"), drop=True)[0].removed == 0
    assert indexed.open().topic("t").info().index_bytes == 0


def test_a_bare_file(indexed: Lab) -> None:
    instance = indexed.open()
    (report,) = rebuild_indexes(instance, [Target(path=indexed.store("t"))])
    assert report.paths == ()
    indexed.query("t", "/price > 3", index_from=0)
    assert len(rebuild_indexes(instance, [Target(path=indexed.store("t"))])[0].paths) == 1


def test_somebody_else_builds(indexed: Lab) -> None:
    instance = indexed.open()
    rebuild_indexes(instance, resolve_targets(instance, "t"))
    lock = next(indexed.directory.rglob("*-memo")) / "lock"
    fd = os.open(lock, os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        with pytest.raises(LockedError) as caught:
            rebuild_indexes(instance, resolve_targets(instance, "t"))
        assert (caught.value.code, caught.value.exit_status) == ("SOW-ENG-063", 11)
        assert len(indexed.query("t", "/new > 3", index_from=0)) == 0
        assert len(_files(indexed)) == 6
    finally:
        os.close(fd)


def test_a_directory_that_cannot_be_written(indexed: Lab) -> None:
    instance = indexed.open()
    place = indexed.store("t").with_name(indexed.store("t").name + "-memo")
    place.write_text("in the way")
    with pytest.raises(StorageError) as caught:
        rebuild_indexes(instance, resolve_targets(instance, "t"))
    assert (caught.value.code, caught.value.exit_status) == ("SOW-ENG-064", 6)
    assert len(indexed.query("t", "/price < 1", index_from=0)) == 4
    place.unlink()
