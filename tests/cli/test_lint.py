"""The command lint: its formats, statuses, lists and pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sowctl.config.rules.table import index_rules
from tests.cli.conftest import Cli

GOOD = "<AMPSConfig><Name>x</Name></AMPSConfig>"
BAD = (
    "<AMPSConfig><Name>x</Name><SOW><Topic>\n<Topic>a</Topic><MessageType>json</MessageType></Topic></SOW></AMPSConfig>"
)


@pytest.fixture
def files(cli: Cli) -> Cli:
    Path("good.xml").write_text(GOOD)
    Path("bad.xml").write_text(BAD)
    return cli


def test_statuses(files: Cli) -> None:
    assert files("lint", "-i", "B", "good.xml").status == 0
    assert files("lint", "-i", "B", "bad.xml").status == 1
    assert files("lint", "-s", "D", "bad.xml").status == 0
    assert files("lint", "-s", "D", "--strict", "bad.xml").status == 1
    assert files("lint", "-s", "D", "--strict", "--severity", "warning", "bad.xml").status == 0
    assert files("lint", "-s", "S999", "bad.xml").status == 2
    assert files("lint", "-i", "B", "gone.xml", "bad.xml").status == 4
    Path("empty").mkdir()
    assert files("lint", "empty").status == 2
    assert files("lint").status == 4, "there is no configuration with a usual name here"


def test_text_and_the_count(files: Cli) -> None:
    said = files("lint", "--ignore", "B", "good.xml", "bad.xml")
    assert said.out.splitlines()[0].startswith("bad.xml:1:32: /AMPSConfig/SOW/Topic: error[S022]: ")
    assert "  hint: write Name" in said.out
    assert said.err == "1 error, 1 note in 2 files\n"
    assert files("lint", "--ignore", "B", "good.xml", "--quiet").err == ""


def test_json_has_one_object_for_each_finding(files: Cli) -> None:
    rows = [json.loads(line) for line in files("lint", "-i", "B", "-F", "json", "bad.xml", "gone.xml").out.splitlines()]
    keys = ["rule", "severity", "file", "line", "column", "path", "message", "hint"]
    assert all(list(row)[:8] == keys for row in rows)
    assert [(row["rule"], row["severity"], row["line"]) for row in rows] == [
        ("S022", "error", 1),
        ("D002", "info", 2),
        ("SOW-CFG-030", "error", None),
    ]


def test_validate_writes_the_same_objects(files: Cli) -> None:
    (row,) = [json.loads(line) for line in files("validate", "-F", "json", "bad.xml").out.splitlines()]
    assert row == json.loads(files("lint", "-F", "json", "-s", "S022", "bad.xml").out)


def test_sarif_is_one_document(files: Cli) -> None:
    log = json.loads(files("lint", "-F", "sarif", "-i", "B", "good.xml", "bad.xml").out)
    assert [result["ruleId"] for result in log["runs"][0]["results"]] == ["S022", "D002"]
    assert json.loads(files("lint", "-F", "sarif", "-i", "B", "good.xml").out)["runs"][0]["results"] == []


def test_workflow_commands(files: Cli) -> None:
    lines = files("lint", "-F", "github", "-i", "B", "bad.xml").out.splitlines()
    assert [line.split(" ")[0] for line in lines] == ["::error", "::notice"]


def test_a_fragment_and_variables(files: Cli) -> None:
    Path("part.xml").write_text("<Topic><Name>a</Name><MessageType>${KIND}</MessageType></Topic>")
    assert files("lint", "-s", "S,X", "--fragment", "-D", "KIND=json", "part.xml", "-F", "github").out.count("\n") == 1
    assert "X009" in files("lint", "--fragment", "part.xml").out
    assert "X005" in files("lint", "part.xml").out


@pytest.mark.parametrize("rule", index_rules())
def test_every_rule_is_explained(cli: Cli, rule: str) -> None:
    said = cli("lint", "--explain", rule)
    assert said.status == 0
    assert said.out.startswith(f"{rule} {index_rules()[rule].title} (")
    for heading in ("What: ", "Why: ", "Example: ", "Instead: "):
        assert f"\n{heading}" in said.out
    assert cli("lint", "--explain", index_rules()[rule].title).out == said.out


def test_a_rule_that_is_none(cli: Cli) -> None:
    said = cli("lint", "--explain", "S0222")
    assert (said.status, "did you mean S022?" in said.err) == (1, True)


def test_the_list(cli: Cli) -> None:
    assert len(cli("lint", "--list").out.splitlines()) == len(index_rules())
    rows = [json.loads(line) for line in cli("lint", "--list", "--select", "D00", "-F", "json").out.splitlines()]
    assert [row["rule"] for row in rows] == [f"D00{number}" for number in range(1, 10)]
    assert rows[0] == {
        "rule": "D001",
        "code": "SOW-CFG-401",
        "severity": "warning",
        "title": "topic-definition",
        "path": "SOW/TopicDefinition",
    }


@pytest.mark.parametrize("command", ["validate", "lint", "config show"])
def test_a_configuration_from_standard_input(command: str, files: Cli) -> None:
    said = files(*command.split(), "-", stdin=GOOD.encode())
    assert said.status == 0
    broken = files(*command.split(), "-", stdin=b"<AMPSConfig><Nme>x</Nme></AMPSConfig>")
    assert broken.status in (1, 4)
    assert "(standard input):1:13" in broken.out + broken.err


def test_includes_of_standard_input_count_from_here(files: Cli) -> None:
    Path("part.xml").write_text("<Name>x</Name>")
    text = b"<AMPSConfig><Include>part.xml</Include></AMPSConfig>"
    assert files("validate", "-", stdin=text).err == "(standard input): no errors\n"


def test_standard_input_beside_files_of_any_name(files: Cli) -> None:
    Path("(standard input)").write_text(BAD)
    said = files("lint", "-i", "B", "-F", "json", "-", "bad.xml", stdin=GOOD.encode())
    assert {json.loads(line)["file"] for line in said.out.splitlines()} == {"bad.xml"}


def test_validate_takes_several_files(files: Cli) -> None:
    assert files("validate", "good.xml", "good.xml").err == "2 files: no errors\n"
    said = files("validate", "bad.xml", "gone.xml", "good.xml")
    assert said.status == 4
    assert "bad.xml:1:32" in said.out
    assert "error[SOW-CFG-030]: gone.xml" in said.err
    for kind in ("sarif", "github"):
        assert "S022" in files("validate", "--format", kind, "bad.xml").out


def test_commands_on_data_take_no_configuration_from_standard_input(files: Cli) -> None:
    said = files("query", "orders", "--config", "-", stdin=GOOD.encode())
    assert (said.status, said.err.split(":")[0]) == (2, "error[SOW-CLI-090]")


def test_fix_and_diff(files: Cli) -> None:
    shown = files("lint", "--diff", "bad.xml")
    assert (shown.status, "-<Topic>a</Topic>" in shown.out, "+<Name>a</Name>" in shown.out) == (1, True, True)
    assert Path("bad.xml").read_text() == BAD
    Path("bad.xml").chmod(0o604)
    done = files("lint", "-s", "D", "--strict", "--fix", ".")
    assert (done.status, done.out) == (0, "")
    assert "bad.xml: fixed D002" in done.err
    assert Path("bad.xml").read_text() == BAD.replace("<Topic>a</Topic>", "<Name>a</Name>")
    assert Path("bad.xml").stat().st_mode & 0o777 == 0o604
    again = files("lint", "--diff", "bad.xml")
    assert (again.status, "nothing to fix" in again.err) == (0, True)
    assert "SOW-CLI-093" in files("lint", "--fix", "-").err


def test_a_junit_report_names_the_command(files: Cli) -> None:
    for command in ("lint", "validate"):
        assert f'<testsuites name="sowctl {command}">' in files(command, "--format", "junit", "bad.xml").out
