"""What executors see, told without a cluster: each probe looked at in a place where something is different."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest
from msgspec.structs import replace

from sowctl.errors import ConfigError
from sowctl.remote.place import parse_url
from sowctl.remote.remote_files import write_file
from sowctl.spark.jobs.visibility import TOKEN_FILE, Probe, build_probe, find_unseen, list_probes, raise_unseen
from tests.support.instances import Lab, config_xml, message, topic_xml
from tests.support.objectstore import ObjectStore


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab(tmp_path / "lab", config_xml(topic_xml("t") + topic_xml("u"), ("t",)), journal_size=600)
    for number in range(4):
        lab.publish("t", message(id=number, text="x" * 200))
        lab.clock.tick(1)
    return lab


def elsewhere(probes: list[Probe], lab: Lab, root: Path) -> list[Probe]:
    """The probes as another machine sees them, on which the instance lies in ``root``."""
    return [replace(one, place=root / Path(str(one.place)).relative_to(lab.directory)) for one in probes]


def test_the_same_files_are_seen(lab: Lab, tmp_path: Path) -> None:
    shared = tmp_path / "lab" / "shared"
    shared.mkdir()
    probes = list_probes(lab.open(), shared)
    assert [one.what for one in probes] == ["a journal file"] * 2 + ["a store", "the staging directory"]
    assert find_unseen(probes) == []
    # publishing goes on meanwhile
    lab.publish("t", message(id=77, text="y" * 100))
    assert find_unseen(probes) == []
    raise_unseen([])


@pytest.mark.parametrize(
    ("what", "spoil", "problem"),
    [
        ("a journal file", lambda path: path.unlink(), "missing"),
        ("a journal file", lambda path: path.write_bytes(b"another journal"), "the file differs"),
        ("a journal file", lambda path: path.write_bytes(path.read_bytes()[:50]), "the file differs"),
        ("a store", lambda path: path.unlink(), "missing"),
        ("a store", lambda path: (path.unlink(), path.mkdir()), "cannot be read"),
        ("the staging directory", lambda path: path.unlink(), "missing"),
        ("the staging directory", lambda path: path.write_bytes(bytes(32)), "the file differs"),
    ],
)
def test_what_is_different_is_named(lab: Lab, tmp_path: Path, what: str, spoil, problem: str) -> None:  # type: ignore[no-untyped-def]
    shared = lab.directory / "shared"
    shared.mkdir()
    probes = list_probes(lab.open(), shared)
    there = tmp_path / "there"
    shutil.copytree(lab.directory, there)
    probes = elsewhere(probes, lab, there)
    assert find_unseen(probes) == []
    chosen = next(one for one in probes if one.what == what)
    spoil(chosen.place)
    (unseen,) = find_unseen(probes)
    with pytest.raises(ConfigError) as caught:
        raise_unseen([unseen, replace(unseen, host="worker7")])
    error = caught.value
    assert (error.code, error.exit_status, error.place) == ("SOW-SPK-141", 4, str(chosen.place))
    assert what in error.message and problem in error.message
    assert "worker7" in error.message and socket.gethostname() in error.message and "\n" not in error.message


def test_an_archive_at_a_url(lake: ObjectStore) -> None:
    place = parse_url(lake.url("inst.manifest"))
    assert build_probe("the archive", place) is None
    write_file(place, [b"one"])
    seen = build_probe("the archive", place)
    assert seen is not None and find_unseen([seen]) == []
    lake.refused.add("lake/inst.manifest")
    (unseen,) = find_unseen([seen])
    assert "access denied" in unseen.problem
    with pytest.raises(ConfigError) as caught:
        raise_unseen([unseen])
    assert caught.value.hint is not None and "credentials" in caught.value.hint


def test_a_token_at_a_url(lab: Lab, lake: ObjectStore) -> None:
    *_, token = list_probes(lab.open(), parse_url(lake.url("stage/run")))
    assert token.what == "the staging directory" and find_unseen([token]) == []
    # a store that shows a new file late, or another one under its name
    lake.objects["lake/stage/run/" + TOKEN_FILE] = bytes(32)
    (unseen,) = find_unseen([token])
    assert "differs" in unseen.problem
    del lake.objects["lake/stage/run/" + TOKEN_FILE]
    (unseen,) = find_unseen([token])
    assert "not" in unseen.problem and unseen.probe == token


def test_the_token_is_new_each_time(tmp_path: Path, lab: Lab) -> None:
    first = [one.digest for one in list_probes(lab.open(), tmp_path)][-1]
    assert (tmp_path / TOKEN_FILE).is_file()
    assert [one.digest for one in list_probes(lab.open(), tmp_path)][-1] != first
