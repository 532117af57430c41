"""Parameters with the same meaning have the same names in all commands: keys, filters, configurations."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from sowctl.cli.parsing.application import read_with_typer
from sowctl.cli.parsing.dispatch import split_argv
from sowctl.cli.parsing.loader import load_command
from sowctl.cli.parsing.parameters import Parameter
from sowctl.cli.parsing.table import COMMANDS, split_command
from sowctl.declarations import Argument, Option
from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml

TWO_FIELDS = "<Topic><Name>pairs</Name><MessageType>json</MessageType><Key>/a</Key><Key>/b</Key>"
TOPICS = topic_xml("t") + TWO_FIELDS + "<FileName>sow/%n.sow</FileName></Topic>"


@pytest.fixture
def shop(cli: Cli) -> Cli:
    Path("sowctl.xml").write_text(config_xml(TOPICS, ("t",)))
    cli("publish", "t", stdin=b'{"id":"A"}\n{"id":"B"}\n{"id":"C,D"}\n')
    cli("publish", "pairs", stdin=b'{"a":"1","b":"x"}\n{"a":"1","b":"y"}\n{"a":"2","b":"x"}\n')
    return cli


def ids(out: str, name: str = "id") -> list[str]:
    return sorted(json.loads(line)[name] for line in out.splitlines())


def test_key_names_records_by_the_values_of_their_key_fields(shop: Cli) -> None:
    assert ids(shop("query", "t", "--key", "A", "--key", "C,D", "--key", "none").out) == ["A", "C,D"]
    assert ids(shop("query", "pairs", "--key", "1,y").out, "b") == ["y"]
    assert shop("query", "pairs", "--key", "1").err.partition("]")[0] == "error[SOW-QRY-002"
    assert ids(shop("subscribe", "t", "--key", "B", "--until-now", "--data-only").out) == ["B"]
    assert shop("export", "t", "one.ndjson", "--key", "A").status == 0
    assert ids(Path("one.ndjson").read_text()) == ["A"]
    [row] = [json.loads(line) for line in shop("query", "t", "--key", "A", "--meta").out.splitlines()]
    # A topic that cannot have the key is refused before the records of another one are printed.
    said = shop("query", ".*", "--key", "1")
    assert "SOW-QRY-002" in said.err and said.out == ""
    # Together with a SOW key, both count.
    assert ids(shop("query", "t", "--sow-key", row["sow_key"], "--key", "B").out) == ["A", "B"]
    assert shop("delete", "t", "--key", "A", "--key", "none", "--yes").status == 0
    assert ids(shop("query", "t").out) == ["B", "C,D"]


def test_a_delete_takes_one_way_to_name_records(shop: Cli) -> None:
    assert (
        shop("delete", "t", "--key", "A", "--filter", "/id = 'B'", "--yes").err.partition("]")[0] == "error[SOW-CLI-014"
    )
    assert shop("delete", "t", "/id = 'B'", "--yes").status == 0
    assert ids(shop("query", "t").out) == ["A", "C,D"]
    assert (
        shop("delete", "t", "/id = 'A'", "--filter", "/id = 'A'", "--yes").err.partition("]")[0] == "error[SOW-CLI-013"
    )


def test_several_targets_stand_before_the_filter(shop: Cli) -> None:
    both = [json.loads(line) for line in shop("query", "t", "pairs").out.splitlines()]
    assert [row.get("id", row.get("b")) for row in both] == ["A", "B", "C,D", *[row["b"] for row in both[3:]]]
    assert len(both) == 6 == len(shop("query", "t", "pairs", "t", ".*").out.splitlines())
    assert ids(shop("query", "t", "pairs", "/id = 'B'").out) == ["B"]
    assert shop("query", "pairs", "t", "--filter", "/id = 'B'").out == shop("query", "pairs", "t", "/id = 'B'").out
    assert shop("query", "t", "TRUE", "--count").out == "3\n"
    assert "SOW-CLI-013" in shop("query", "t", "pairs", "/a = 1", "--filter", "/a = 1").err
    for words in (("/id", "=", "B"), ("/id = 'B'", "pairs")):
        assert "SOW-CLI-003" in shop("query", "t", *words).err
    said = shop("query", "t", "nope")
    assert said.status == 10 and "--key" in said.err
    assert len(shop("subscribe", "t", "pairs", "--until-now", "--data-only").out.splitlines()) == 6
    assert len(shop("tail", "t", "t", "/id = 'B'", "--since", "0", "--until-now").out.splitlines()) == 2
    assert {row["topic"] for row in json.loads(shop("schema", "t", "pairs", "--json").out)} == {"t", "pairs"}
    assert shop("delete", "t", "pairs", "/id = 'B' OR /b = 'y'", "--yes").status == 0
    assert ids(shop("query", "t").out) == ["A", "C,D"] and ids(shop("query", "pairs").out, "b") == ["x", "x"]


def test_keys_that_publishers_chose_are_keys_too(cli: Cli) -> None:
    topic = "<Topic><Name>u</Name><MessageType>json</MessageType><FileName>sow/%n.sow</FileName></Topic>"
    Path("sowctl.xml").write_text(config_xml(topic, ("u",)))
    for key in ("k1", "k2", "3"):
        cli("publish", "u", "--sow-key", key, stdin=b'{"id":"%s"}\n' % key.encode())
    assert ids(cli("query", "u", "--key", "k1", "--key", "3").out) == ["3", "k1"] == ids(cli("get", "u", "k1", "3").out)
    assert ids(cli("subscribe", "u", "--key", "k2", "--until-now", "--data-only").out) == ["k2"]
    for names in ((), ("u",)):
        dumped = [json.loads(line) for line in cli("journal", "dump", *names, "--sow-key", "k2,3").out.splitlines()]
        assert [row["data"]["id"] for row in dumped] == ["k2", "3"]
    assert cli("delete", "u", "--key", "k1", "--yes").status == 0
    assert ids(cli("query", "u").out) == ["3", "k2"]


PARTS = "<Topic><Name>log</Name><MessageType>json</MessageType><Key>/id</Key><Pattern>^log\\..*</Pattern>"
PARTS += "<FileName>sow/%n.sow</FileName></Topic>" + topic_xml("m")


@pytest.fixture
def parts(cli: Cli) -> Cli:
    Path("sowctl.xml").write_text(config_xml(PARTS, ("log", "m")))
    for topic in ("log.a", "log.b", "log.c", "m"):
        cli("publish", topic, stdin=b'{"id":"%s"}\n' % topic.encode())
    return cli


@pytest.mark.parametrize(
    "targets",
    [
        "log.a log.b",
        "log.b m log.a",
        "log log.a",
        "log.a log",
        "^log\\.[ab] log.c",
        "log.c ^log\\.a ^log\\.b",
        ".* log.a ^m",
    ],
)
def test_several_parts_of_a_pattern_topic_are_read_once_each(targets: str, parts: Cli) -> None:
    names = targets.split()
    alone = [ids(parts("query", name).out) for name in names]
    expected = sorted({name for found in alone for name in found})
    assert ids(parts("query", *names).out) == expected
    assert parts("query", *names, "--count").out == f"{len(expected)}\n"
    assert ids(parts("subscribe", *names, "--until-now", "--format", "raw").out) == expected
    assert ids(parts("tail", *names, "--since", "0", "--until-now", "--format", "raw").out) == expected
    dry = json.loads(parts("delete", *names, "--regex", "/id IS NOT NULL", "--dry-run", "--json").out)
    assert sum(one["matched"] for one in dry if one["topic"] is not None) == len(expected)


@pytest.mark.parametrize("text", ["NOT(1)", "(1 = 0)", "LENGTH('') > 0", "[id] = 'x'", "1e3 < 0"])
def test_a_filter_is_no_pattern(text: str, parts: Cli) -> None:
    for command, *more in (("query",), ("hash",), ("subscribe", "--until-now", "--data-only")):
        there, named = parts(command, "m", text, *more), parts(command, "m", "--filter", text, *more)
        assert (there.status, there.out) == (named.status, named.out), command


@pytest.mark.parametrize("text", ["", "1e3", "NaN", "true"])
def test_an_empty_filter_and_constants_are_filters(text: str, parts: Cli) -> None:
    assert parts("query", "m", text).out == parts("query", "m", "--filter", text).out


def test_hash_and_snapshot_take_a_filter(shop: Cli) -> None:
    whole, chosen = shop("hash", "t").out, shop("hash", "t", "/id = 'B'").out
    assert chosen == shop("hash", "t", "--filter", "/id = 'B'").out != whole
    assert shop("hash", "t", "1 = 1").out == whole
    assert ids(shop("snapshot", "t", "/id > 'A'", "--at", "now").out) == ["B", "C,D"]
    assert shop("snapshot", "t", "/id = 'B'", "--at", "now", "--output", "b.sow").status == 0
    assert shop("hash", "b.sow").out.split()[0] == chosen.split()[0]
    assert "SOW-EXP" in shop("hash", "t", "/id =").err


def test_a_bisection_takes_its_topic_as_an_operand(shop: Cli) -> None:
    words = ("--count", "> 1", "--json")
    assert shop("journal", "bisect", "t", *words).out == shop("journal", "bisect", "--topic", "t", *words).out != ""
    assert "SOW-CLI-013" in shop("journal", "bisect", "t", "--topic", "t").err


def test_since_last_goes_on_where_the_last_run_ended(shop: Cli) -> None:
    line = ("tail", "t", "--since-last", "--deletes", "--until-now", "--format", "ndjson")

    def run(*words: str) -> list[str]:
        rows = [json.loads(row) for row in shop(*line, *words).out.splitlines()]
        return [row["command"] for row in rows if row["command"] in ("publish", "sow_delete")]

    assert run() == ["publish"] * 3
    assert run() == []
    shop("delete", "t", "--key", "A", "--yes")
    shop("publish", "t", stdin=b'{"id":"D"}\n')
    assert run() == ["sow_delete", "publish"]
    # Another filter is another subscription.
    assert run("--filter", "/id = 'D'")[-1:] == ["publish"]
    assert Path("sowctl.bookmarks").exists()
    for other in (("--store", "x.bookmarks"), ("--client", "c")):
        assert "SOW-CLI-012" in shop(*line, *other).err


def test_the_name_of_a_file_is_no_order(shop: Cli) -> None:
    said = shop("query", "t", "-o", "out.csv.gz")
    assert said.status == 2 and "--output out.csv.gz" in said.err


@pytest.mark.parametrize("text", ["A", "10001", "'A'", "/id", "-5", "1 + 1", "(7)", " 7 "])
def test_a_delete_refuses_a_value_that_is_no_condition(text: str, shop: Cli) -> None:
    for words in ([text], ["--filter", text]):
        said = shop("delete", "t", "--yes", *([f"({text})"] if text.startswith("-") and len(words) == 1 else words))
        assert said.status == 2 and ("SOW-DEL-007" in said.err or text == "A"), (words, said.err)
    assert ids(shop("query", "t").out) == ["A", "B", "C,D"]
    assert shop("delete", "t", "--filter", "1 = 1", "--yes").status == 0
    assert shop("query", "t").out == ""


def test_a_directory_stands_for_its_configuration(shop: Cli) -> None:
    place = str(Path.cwd())
    elsewhere = Path("elsewhere")
    elsewhere.mkdir()
    os.chdir(elsewhere)
    assert ids(shop("-c", place, "query", "t").out) == ["A", "B", "C,D"]
    assert ids(shop("query", "t", environ={"SOWCTL_CONFIG": place}).out) == ["A", "B", "C,D"]
    assert shop("validate", place).status == 0
    assert shop("-c", str(Path(place) / "elsewhere"), "info").err.partition("]")[0] == "error[SOW-CLI-005"
    (Path(place) / "amps.xml").write_text("<AMPSConfig/>")
    said = shop("-c", place, "info")
    assert said.err.partition("]")[0] == "error[SOW-CLI-004" and str(Path(place) / "sowctl.xml") in said.err


def declared() -> list[tuple[str, Parameter]]:
    return [(one.name, parameter) for one in COMMANDS for parameter in load_command(one).parameters]


def test_a_filter_is_an_operand_wherever_nothing_is_left_out_before_it() -> None:
    for command, parameters in ((one.name, load_command(one).parameters) for one in COMMANDS):
        operands = [one for one in parameters if isinstance(one.declared, Argument) and one.stands_for is None]
        takes = any(isinstance(one.declared, Option) and one.declared.operand for one in parameters)
        sure = bool(operands) and all(one.required or one.declared.comes_first for one in operands)
        has = any(one.stands_for == ("filter", None) for one in parameters)
        assert has == (takes and sure), command


MIXED = {"--count", "--explain", "--fields", "--filter", "--journal", "--regex", "--summary"}
"""Options that take a value in some commands and none in others. They are older than the rule; no new one is allowed.
"""


def test_a_word_takes_a_value_everywhere_or_nowhere() -> None:
    shapes: dict[str, dict[bool, list[str]]] = {}
    for command, parameter in declared():
        for name in getattr(parameter.declared, "names", ()):
            if name.startswith("--"):
                shapes.setdefault(name, {}).setdefault(parameter.takes_value, []).append(command)
    mixed = {name: found for name, found in shapes.items() if len(found) > 1}
    assert set(mixed) == MIXED, mixed


def test_topics_are_operands_of_the_journal_too(shop: Cli) -> None:
    shop("publish", "pairs", stdin=b'{"a":"9","b":"x"}\n')
    rows = shop("journal", "dump", "t").out
    assert rows and rows == shop("journal", "dump", "--topic", "t").out == shop("journal", "dump", "journal", "t").out
    assert shop("journal", "search", "t", "--count").out == "3\n" == shop("journal", "search", "journal", "--count").out
    assert shop("journal", "search", "nope").status == shop("journal", "dump", "nope").status == 10
    assert "SOW-CLI-013" in shop("journal", "dump", "journal", "sow").err


@pytest.mark.parametrize(("old", "new"), [("--from", "--since"), ("--to", "--until"), ("--key", "--sow-key")])
def test_former_spellings_work_and_are_said_to_be_old(old: str, new: str, shop: Cli) -> None:
    value = "12" if new == "--sow-key" else "2"
    assert shop("journal", "dump", old, value).out == shop("journal", "dump", new, value).out
    assert f"Old spelling: {old}." in " ".join(shop("journal", "dump", "--help").out.split())


LINES = Path(__file__).with_name("released_lines.txt").read_text().splitlines()


@pytest.mark.parametrize("line", LINES)
def test_command_lines_of_earlier_pages_are_still_read(line: str) -> None:
    words = shlex.split(line)[1:]
    parts = split_argv(words)
    command, rest = split_command([parts.word or "", *parts.rest])
    assert command is not None
    assert read_with_typer("sowctl", load_command(command).parameters, [*parts.leading, *rest]) is not None


def test_advice_on_what_other_commands_print(shop: Cli) -> None:
    shop("publish", "pairs", stdin=b'{"a":"3","b":"z"}\n')
    lines = shop("diff", "t@1", "t", "--format", "envelopes").out
    assert lines
    said = shop("publish", "t", stdin=lines.encode())
    assert said.status == 3 and "--framing envelope" in said.err
    said = shop("publish", "t", stdin=b"id,a\n1,x\n")
    assert said.status == 3 and "--format csv" in said.err


@pytest.mark.parametrize("command", ["dump", "search"])
def test_an_operand_of_the_journal_that_is_no_topic(command: str, shop: Cli) -> None:
    for word in ("", "./nowhere", "nope"):
        said = shop("journal", command, word)
        # An empty operand is not the working directory.
        assert said.status == 10 and "SOW-ENG-012" in said.err and "directory" in said.err.partition("hint: ")[2]
    assert ("--regex" in shop("journal", command, "nope").err) == (command == "search")
