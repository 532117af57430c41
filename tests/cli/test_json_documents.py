"""``--json`` prints one document on standard output, also if there is nothing to report; streams print one line per
event."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sowctl.cli.parsing.loader import load_command
from sowctl.cli.parsing.options import OutputChoice, choose_stream_output
from sowctl.cli.parsing.table import COMMANDS
from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml
from tests.support.queues import lab_xml, queue_xml


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
ARRAYS = (*ARRAYS, "functions upper", "explain SOW-ENG-011", "config schema Name", "config diff sowctl.xml sowctl.xml")
ARRAYS = (*ARRAYS, "query t --explain", "journal tail", "conflate", "eval /id rows.ndjson", "eval -f /id=1 rows.ndjson")
OBJECTS = (*OBJECTS, "backup copies", "lint --explain B001", "demo morning", "config init new.xml --topic u=/id")
OBJECTS = (*OBJECTS, "config add topic new=/id", "config add queue jobs --source t --dry-run")

WITHOUT_JSON = {
    "browse": "is a terminal program",
    "shell": "is a terminal program; the commands in it have the option",
    "man": "prints pages for people",
    "completion": "prints a script for a shell",
    "pipeline submit-args": "prints a command line for a shell",
}
"""Commands without ``--json``, and why."""


def test_every_other_command_has_the_option() -> None:
    without = {
        command.name
        for command in COMMANDS
        if not any("--json" in getattr(one.declared, "names", ()) for one in load_command(command).parameters)
    }
    assert without == WITHOUT_JSON.keys()


@pytest.mark.parametrize("line", [*OBJECTS, *ARRAYS])
def test_one_document(line: str, shop: Cli) -> None:
    said = shop(*line.split(), "--json")
    found = json.loads(said.out)
    kind = list if line in ARRAYS or line.startswith("replay") else dict
    assert isinstance(found, kind), said.out
    # If nothing is found there is still a document.
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


def test_outcomes_of_queue_messages_are_an_array(cli: Cli) -> None:
    Path("sowctl.xml").write_text(lab_xml(queue_xml(), topics_xml=topic_xml("orders"), logged=("orders", "failed")))
    cli("publish", "work", stdin=b"".join(b'{"id":%d}\n' % number for number in range(1, 8)))
    leased = [json.loads(line) for line in cli("queue", "lease", "work", "-n", "5").out.splitlines()]
    names = [one["bookmark"] for one in leased]
    for verb, name in zip(("ack", "cancel", "renew", "expire"), names, strict=False):
        found = cli("queue", verb, "work", name, "--json")
        assert (found.status, json.loads(found.out)) == (0, [{"bookmark": name, "outcome": "done"}]), found.err
    twice = cli("queue", "ack", "work", names[0], names[4], "--json")
    assert twice.status == 1 and [one["outcome"] for one in json.loads(twice.out)] == ["unknown", "done"]
    # Messages acknowledged before an invalid operand are in the array.
    wrong = cli("queue", "cancel", "work", names[2], "x", "--json")
    assert wrong.status == 2 and json.loads(wrong.out) == [{"bookmark": names[2], "outcome": "done"}]
    assert json.loads(cli("queue", "requeue", "work", "--dead", "--json").out) == []
    purged = json.loads(cli("queue", "purge", "work", "--yes", "--json").out)
    assert purged == {"queue": "work", "message_type": "json", "removed": 4, "removed_dead": 0}


def test_a_position_is_an_object(cli: Cli) -> None:
    store = topic_xml("places", key="/clientName</Key><Key>/subId")
    Path("sowctl.xml").write_text(config_xml(topic_xml("t") + store, ("t",)))
    cli("publish", "t", stdin=b'{"id":1}\n')
    who = ("--client", "a", "--sub-id", "1")
    unknown = json.loads(cli("bookmark", "get", "places", *who, "--json").out)
    assert unknown == {"client": "a", "sub_id": "1", "bookmark": "0", "stored": None}
    stored = json.loads(cli("bookmark", "set", "places", "now-15m", *who, "--json").out)
    assert stored["bookmark"].endswith("Z") and stored["stored"].endswith("Z")
    assert json.loads(cli("bookmark", "get", "places", *who, "--json").out) == stored


def test_values_and_messages_of_eval_are_an_array(shop: Cli) -> None:
    assert json.loads(shop("eval", "/a", "rows.ndjson", "--json").out) == ["y", "x"]
    assert json.loads(shop("eval", "-f", "/id = 9", "rows.ndjson", "--json").out) == []
    assert "SOW-CLI-012" in shop("eval", "-f", "/55 = 1", "--message-type", "fix", "--json", stdin=b"55=1\x01\n").err
    assert "SOW-CLI-012" in shop("eval", "/a", "--explain", "--json").err


def test_differences_of_configurations_are_an_array(shop: Cli) -> None:
    Path("b.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    found = shop("config", "diff", "sowctl.xml", "b.xml", "--json")
    lines = shop("config", "diff", "sowctl.xml", "b.xml", "--format", "json").out.splitlines()
    assert found.status == 1 and json.loads(found.out) == [json.loads(line) for line in lines] != []


def test_formats_of_files_are_not_the_flag() -> None:
    for name in ("pipeline snapshot", "pipeline view", "pipeline export"):
        command = next(one for one in COMMANDS if one.name == name)
        flag = next(one for one in load_command(command).parameters if one.name == "json")
        assert flag.stands_for == ("summary", "json")


def test_what_follows_prints_lines(cli: Cli) -> None:
    for name in ("journal tail", "conflate", "query"):
        command = next(one for one in COMMANDS if one.name == name)
        loaded = load_command(command)
        flag = next(one for one in loaded.parameters if one.name == "json")
        assert "--follow" in flag.declared.help
    both = (
        choose_stream_output(OutputChoice(), json=True, follow=True),
        choose_stream_output(OutputChoice(), json=True, follow=False),
    )
    assert [one.format for one in both] == ["ndjson", "json"]
    assert "SOW-CLI-012" in cli("query", "t", "--json", "--format", "csv").err


def test_json_beside_format_json_prints_the_document(cli: Cli) -> None:
    Path("sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    cli("publish", "t", stdin=b'{"id":"A"}\n')
    for command in ("check", "validate", "lint"):
        assert cli(command, "--json", "--format", "json").out == cli(command, "--json").out != ""


def test_an_array_that_an_error_ends_is_closed(cli: Cli) -> None:
    said = cli("eval", "/a", "--json", stdin=b'{"a":1}\n{"a":2}\n{"a"\n{"a":3}\n')
    assert said.status == 3 and json.loads(said.out) == [1, 2]
    assert json.loads(cli("eval", "/a", "--json", stdin=b"").out) == []


def test_a_statement_without_rows_is_an_empty_array_and_two_are_refused(shop: Cli) -> None:
    pytest.importorskip("duckdb", reason="the extra 'sql' is not installed")
    assert json.loads(shop("sql", "--json", "CREATE TABLE x (a INT)").out) == []
    said = shop("sql", "--json", "SELECT 1; SELECT 2")
    assert said.status == 2 and json.loads(said.out) == [{"1": 1}]


def test_no_store_to_compact_is_an_empty_array(cli: Cli) -> None:
    Path("sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    assert json.loads(cli("store", "compact", "--json").out) == []


def test_an_array_of_entries_that_damage_ends_is_closed(shop: Cli) -> None:
    [file] = Path("journal").glob("*.journal")
    for _ in range(40):
        shop("publish", "t", stdin=b'{"id":3,"a":"zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"}\n')
    data = bytearray(file.read_bytes())
    data[len(data) * 2 // 3 : len(data) * 2 // 3 + 50] = b"\xff" * 50
    file.write_bytes(data)
    said = shop("journal", "dump", "--json")
    assert said.status == 5 and len(json.loads(said.out)) > 4
