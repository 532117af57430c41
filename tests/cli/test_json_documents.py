"""``--json`` prints one document on standard output, also where all is well; streams print a line for each event."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml


@pytest.fixture
def shop(cli: Cli) -> Cli:
    Path("sowctl.xml").write_text(config_xml(topic_xml("t") + topic_xml("u"), ("t", "u")))
    for topic in ("t", "u"):
        cli("publish", topic, stdin=b'{"id":1,"a":"x"}\n{"id":2,"a":"y"}\n')
    cli("export", "t", "rows.ndjson")
    return cli


OBJECTS = ("check", "store check", "journal check", "validate", "lint", "doctor", "publish t rows.ndjson", "hash t")
OBJECTS = (*OBJECTS, "export t out.csv", "snapshot t --at now --output s.sow", "replay --verify t")
ARRAYS = (
    "replay",
    "store reindex",
    "diff t u",
    "info",
    "query t",
    "history t 1 --journal",
    "expire",
    "delete t --key 1 --dry-run",
)
ARRAYS = (*ARRAYS, "get t 1 2", "journal list", "schema t", "upkeep list", "view list", "queue list", "lint --list")


@pytest.mark.parametrize("line", [*OBJECTS, *ARRAYS])
def test_one_document(line: str, shop: Cli) -> None:
    said = shop(*line.split(), "--json")
    found = json.loads(said.out)
    kind = list if line in ARRAYS or line.startswith("replay") else dict
    assert isinstance(found, kind), said.out
    # Where nothing is found there is a document all the same.
    assert said.status in (0, 1), said.err


def test_findings_come_with_their_counts(shop: Cli) -> None:
    sound = json.loads(shop("check", "--json").out)
    assert (sound["findings"], sound["errors"]) == ([], 0)
    Path("bad.xml").write_text("<AMPSConfig><SOW><Topic/></SOW></AMPSConfig>")
    said = shop("validate", "bad.xml", "sowctl.xml", "--json")
    wrong = json.loads(said.out)
    assert said.status == 4 and wrong["errors"] == len(wrong["findings"]) > 0 and wrong["files"] == 2
    assert {one["file"] for one in wrong["findings"]} == {"bad.xml"}
    store = next(Path("sow").glob("t*.sow"))
    store.write_bytes(b"\0" * store.stat().st_size)
    said = shop("check", "--json")
    assert said.status == 5 and json.loads(said.out)["errors"] > 0


def test_differences_are_an_array_and_none_is_an_empty_one(shop: Cli) -> None:
    assert json.loads(shop("diff", "t", "t", "--json").out) == []
    shop("publish", "u", stdin=b'{"id":2,"a":"z"}\n{"id":3}\n')
    found = shop("diff", "t", "u", "--json")
    assert found.status == 1 and len(json.loads(found.out)) == 2
    assert len(json.loads(shop("diff", "t", "u", "--json", "--stat").out)) == 1
    lines = shop("diff", "t", "u", "--format", "json").out.splitlines()
    assert [json.loads(line) for line in lines] == json.loads(found.out)


def test_lines_stay_what_format_json_means_there(shop: Cli) -> None:
    assert shop("check", "--format", "json").out == ""
    reports = [json.loads(line) for line in shop("replay", "--summary", "json").out.splitlines()]
    assert [one["topic"] for one in reports] == ["t", "u"]
    assert "SOW-CLI-012" in shop("validate", "--format", "sarif", "--json").err


def test_events_are_lines_on_a_terminal_too(shop: Cli) -> None:
    piped = shop("subscribe", "t", "--until-now", "--json").out
    assert len([json.loads(line) for line in piped.splitlines()]) > 2
    shown = shop("subscribe", "t", "--until-now", "--json", tty="out").out
    assert [json.loads(line).keys() for line in shown.splitlines()] == [
        json.loads(line).keys() for line in piped.splitlines()
    ]
