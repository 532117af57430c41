"""Stores of another instance: read with a note, never written, not even by a second name of their file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sowctl.errors import RefusedError
from sowctl.store.opening.access import StoreFiles
from tests.support.instances import Lab, config_xml, message, topic_xml


def lab(root: Path, name: str, key: str = "/id", logged: tuple[str, ...] = ()) -> Lab:
    return Lab(root, config_xml(topic_xml("t", key=key), logged, name=name))


def test_both_instances_are_named_once(tmp_path: Path) -> None:
    lab(tmp_path, "mine").publish("t", message(id=1))
    other = lab(tmp_path, "yours")
    with other.open() as instance:
        for _ in range(2):
            assert len(list(instance.topic("t").query().records())) == 1
        assert instance.topic("t").get("1", fields=True) is not None
    assert len(other.notes) == 1
    assert "'mine'" in other.notes[0] and "'yours'" in other.notes[0] and "'t'" in other.notes[0]
    with pytest.raises(RefusedError) as raised:
        other.publish("t", message(id=2))
    assert raised.value.code == "SOW-STO-024"


def test_other_keys_are_named(tmp_path: Path) -> None:
    lab(tmp_path, "mine").publish("t", message(id=1, k=2))
    other = lab(tmp_path, "mine", "/k")
    assert len(other.query("t")) == 1
    assert len(other.notes) == 1 and "/id" in other.notes[0] and "/k" in other.notes[0]


def test_nothing_is_said_of_ones_own(tmp_path: Path) -> None:
    mine = lab(tmp_path, "mine")
    mine.publish("t", message(id=1))
    assert len(mine.query("t")) == 1
    assert mine.notes == []


@pytest.mark.parametrize("logged", [(), ("t",)])
def test_two_configurations_over_links_of_one_store(tmp_path: Path, logged: tuple[str, ...]) -> None:
    """Formerly each had a separate lock, and both wrote to one file."""
    one, two = lab(tmp_path / "a", "mine", logged=logged), lab(tmp_path / "b", "mine", logged=logged)
    one.publish("t", message(id=1))
    (tmp_path / "b" / "sow").mkdir()
    os.link(one.store("t"), two.store("t"))
    assert StoreFiles.from_path(one.store("t")).writer != StoreFiles.from_path(two.store("t")).writer
    for each in (one, two):
        with pytest.raises(RefusedError) as raised:
            each.publish("t", message(id=2))
        assert (raised.value.code, raised.value.exit_status) == ("SOW-STO-062", 8)
    assert one.query("t") == [message(id=1)]
    if not logged:
        assert two.query("t") == [message(id=1)]
    if logged:  # a rebuild replaces the file by another one
        one.open().topic("t").replay(rebuild=True)
        one.publish("t", message(id=2))
        assert len(one.query("t")) == 2
