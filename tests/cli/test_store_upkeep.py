"""Maintenance of stores on the command line: options, statuses, output streams."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.support.instances import Lab, config_xml, message, topic_xml
from tests.support.stores import tamper, value_of


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab(tmp_path, config_xml(topic_xml("t") + topic_xml("u") + topic_xml("none"), ("t",)))
    for topic in "tu":
        lab.publish(topic, *(message(id=n, text="x" * 100) for n in range(3000)))
    return lab


def spoil(lab: Lab, topic: str) -> int:
    key = int(lab.records(topic, "/id = 7")[0].sow_key)
    tamper(lab.store(topic), b"records", key.to_bytes(8, "big"), value_of(bytes(8), 1, b"of another key"))
    return key


def test_check(lab: Lab, cli: Cli) -> None:
    result = cli("store", "check", "--read-data", "1/2", "--summary", "json")
    row = json.loads(result.out.splitlines()[-1])
    assert result.status == 0
    assert row["stores"] == 2
    assert 0.4 < row["data_read"] < 0.6
    assert row["oldest_read"].endswith("Z")
    for text in ("3/2", "0/5", "x", "101%", "5"):
        assert cli("store", "check", "--read-data", text).status == 2


def test_repair(lab: Lab, cli: Cli) -> None:
    keys = {topic: spoil(lab, topic) for topic in "tu"}
    assert cli("store", "repair").status == 8, "it needs --yes"
    plan = cli("store", "repair", "--dry-run")
    assert plan.status == 5
    done = cli("store", "repair", "--yes", "--summary", "json")
    assert done.status == 5, "a record of the topic without a journal is lost"
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [(row["sow_key"], row["state"]) for row in rows[:2]] == [
        (str(keys["t"]), "restored"),
        (str(keys["u"]), "lost"),
    ]
    assert [(row["restored"], row["lost"], row["complete"]) for row in rows[2:]] == [(1, 0, True), (0, 1, False)]
    assert all(Path(row["moved"]).exists() for row in rows[2:])
    assert cli("store", "repair", "--yes").status == 0
    assert cli("check").status == 0


def test_compact(lab: Lab, cli: Cli) -> None:
    lab.open().topic("t").delete(filter="/id > 100")
    plan = cli("store", "compact", "t", "--dry-run")
    assert "dry run, " in plan.err
    done = cli("store", "compact", "--summary", "json")
    assert done.status == 0
    first, second = (json.loads(line) for line in done.out.splitlines()[:2])
    assert first["bytes_after"] < first["bytes_before"] / 4
    assert second["records"] == 3000
    assert cli("store", "compact", "--min-free", "101").status == 2
    assert "less than 50%" in cli("store", "compact", "u", "--min-free", "50").err
    spoil(lab, "u")
    damaged = cli("store", "compact", "u")
    assert damaged.status == 5
    assert "sowctl store repair" in damaged.err
