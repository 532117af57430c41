"""``tail``: published messages, with the filters and formats of ``subscribe``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml

NOON = {"SOWCTL_NOW": "2027-01-05T12:00:00Z"}


@pytest.fixture
def shop(cli: Cli) -> Cli:
    Path("sowctl.xml").write_text(config_xml(topic_xml("t") + topic_xml("u"), ("t", "u")))
    for topic in ("t", "u"):
        cli("publish", topic, stdin=b'{"id":1,"a":"x"}\n{"id":2,"a":"y"}\n')
    return cli


def test_it_prints_no_records_and_what_subscribe_prints_of_messages(shop: Cli) -> None:
    assert "sow" not in {json.loads(line)["command"] for line in shop("tail", "t", "--until-now").out.splitlines()}
    for words in (["t"], ["t", "/a = 'y'"], ["^[tu]$"], ["t", "--key", "2"], ["t", "--max", "1"]):
        told = shop("tail", *words, "--since", "0", "--until-now", environ=NOON)
        assert told == shop("subscribe", *words, "--no-sow", "--bookmark", "0", "--until-now", environ=NOON)
        assert "publish" in told.out


@pytest.mark.parametrize("command", ["tail", "subscribe"])
def test_formats(command: str, shop: Cli) -> None:
    def run(*words: str, tty: str = "") -> str:
        out: str = shop(command, "t", "--since", "0", "--until-now", *words, tty=tty, environ=NOON).out
        return out

    assert sorted(run("--format", "raw").splitlines()[-2:]) == ['{"id":1,"a":"x"}', '{"id":2,"a":"y"}']
    assert run() == run("--json") == run("--format", "ndjson") == run("--json", tty="out")
    text = run("--format", "text")
    assert text and not text.startswith("{")
    assert run(tty="out").split() == text.split()


def test_formats_that_exclude_each_other(shop: Cli) -> None:
    assert "SOW-CLI-012" in shop("subscribe", "t", "--data-only", "--format", "text").err
    assert "SOW-CLI-012" in shop("tail", "t", "--json", "--format", "raw").err


def test_deletions_are_events_or_one_note(shop: Cli) -> None:
    shop("delete", "t", "/id > 0", "--yes")
    told = shop("tail", "t", "--since", "4", "--until-now", "--deletes", environ=NOON)
    gone = [event for event in map(json.loads, told.out.splitlines()) if event["command"] == "sow_delete"]
    assert sorted(event["data"]["id"] for event in gone) == [1, 2]
    assert {event["reason"] for event in gone} == {"deleted"}
    assert told.err == ""
    told = shop("subscribe", "t", "--no-sow", "--since", "0", "--until-now", "--data-only", environ=NOON)
    assert len(told.out.splitlines()) == 2
    assert told.err.count("--deletes") == 1
    # A payload alone does not show that its record was deleted.
    refused = shop("tail", "t", "--deletes", "--format", "raw")
    assert (refused.status, "SOW-CLI-012" in refused.err) == (2, True)
    assert "SOW-FOL-024" in shop("subscribe", "t", "--deletes", "--until-now").err
