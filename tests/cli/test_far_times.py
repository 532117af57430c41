"""Lifetimes and stamps beyond all dates, and expired messages, as input and output of the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml

NOW = {"SOWCTL_NOW": "2026-01-05T08:00:00Z"}


@pytest.fixture(autouse=True)
def instance(tmp_path: Path) -> None:
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("x", "<Expiration>30s</Expiration>"), ("x",)))


@pytest.mark.parametrize("lifetime", ["500000w", "20000000w", "9" * 400 + "w"])
def test_a_lifetime_without_an_end(cli: Cli, lifetime: str) -> None:
    assert cli("publish", "x", "--expiration", lifetime, stdin=b'{"id":1}', environ=NOW).status == 0
    for command in (("query", "x", "--meta"), ("journal", "dump"), ("get", "x", "1", "--meta")):
        result = cli(*command, environ=NOW)
        assert (result.status, json.loads(result.out)["expiration"]) == (0, None)


def test_the_last_instant_of_all(cli: Cli) -> None:
    stamp = "9999-12-31T23:59:59.999999Z"
    result = cli("--error-format", "json", "publish", "x", "--timestamp", stamp, stdin=b'{"id":1}', environ=NOW)
    notes = [json.loads(line) for line in result.err.splitlines() if line.startswith("{")]
    assert [stamp in note["message"] for note in notes if note["level"] == "note"][:1] == [True]
    row = json.loads(cli("query", "x", "--meta", environ=NOW).out)
    assert (row["timestamp"], row["expiration"]) == (stamp, None)
    result = cli("publish", "x", "--summary", "json", stdin=b'{"id":2}\n{"id":3}', environ=NOW)
    assert json.loads(result.out)["ahead"] == stamp
    assert result.err.count(stamp) == 1


@pytest.mark.parametrize("mode", [(), ("--dry-run",)])
def test_messages_that_are_over(cli: Cli, mode: tuple[str, ...]) -> None:
    lines = b'{"data":{"id":1},"expiration":"2026-01-05T07:59:59Z"}\n{"data":{"id":2}}'
    argv = ("publish", "x", "--framing", "envelope", *mode)
    assert "2 inserted, 0 updated, 1 already expired" in cli(*argv, stdin=lines, environ=NOW).err
    row = json.loads(cli(*argv, "--summary", "json", stdin=lines, environ=NOW).out)
    assert (row["published"], row["already_expired"], row["topics"][0]["already_expired"]) == (2, 1, 1)
