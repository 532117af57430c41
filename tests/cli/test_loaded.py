"""Indexes after a bulk load from the command line: up to date when the process ends, after its report was printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.verbs import reindex
from tests.cli.conftest import Cli
from tests.support.instances import Lab, config_xml, message, topic_xml


def _columns(lab: Lab) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in lab.directory.rglob("*.memo")}


def test_publish_and_replay_bring_indexes_up_to_date(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QUERY_LIMITS, "index_tolerated_changes", 3)
    monkeypatch.setattr(QUERY_LIMITS, "index_min_records", 20)
    lab = Lab(tmp_path / "lab", config_xml(topic_xml("t"), ("t",)))
    lab.publish("t", *(message(id=number, n=0) for number in range(30)))
    for _ in range(2):
        lab.query("t", "/n = 5", index_from=0)
    first = _columns(lab)
    assert len(first) == 3

    def load(count: int, value: int, *more: str) -> None:
        lines = b"".join(b'{"id":%d,"n":%d}\n' % (number, value) for number in range(count))
        result = cli("-c", str(lab.config), "publish", "t", *more, stdin=lines)
        assert result.status == 0 and "30" in result.err

    load(30, 4, "--dry-run")
    assert _columns(lab) == first
    load(30, 5)
    second = _columns(lab)
    assert second.keys() == first.keys() and all(second[path] != first[path] for path in first)
    assert len(lab.query("t", "/n = 5", index_from=0)) == 30 and _columns(lab) == second

    asked: list[object] = []
    monkeypatch.setattr(reindex, "reindex_loaded", lambda _, loaded: asked.append(loaded))
    for more in (("--rebuild",), ("--verify",), ("--into", str(tmp_path / "into"))):
        assert cli("-c", str(lab.config), "replay", "t", *more).status == 0
    assert asked == [[("t", "json", 30)]]


def test_a_small_load_does_not_even_ask(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(tmp_path / "lab", config_xml(topic_xml("t"), ("t",)))
    lab.open()
    monkeypatch.setattr(reindex, "reindex_loaded", None)
    assert cli("-c", str(lab.config), "publish", "t", stdin=b'{"id":1}\n').status == 0
