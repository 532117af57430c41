"""Finding the command, global options before or after it, and the configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.cli.context import Invocation
from sowctl.cli.parsing import synonyms
from sowctl.cli.parsing.global_options import GLOBAL_PARAMETERS, GLOBAL_VARIABLES
from sowctl.cli.parsing.loader import load_command
from sowctl.cli.parsing.table import COMMANDS, GROUPS, PREFIXES, Command
from sowctl.declarations import Option
from sowctl.version import VERSION
from tests.cli.conftest import Cli

Plant = Callable[[Callable[..., int]], None]


def test_version(cli: Cli) -> None:
    for argv in (["--version"], ["-V"], ["--version", "--quiet"]):
        assert cli(*argv).out == f"sowctl {VERSION}\n"
    assert json.loads(cli("--version", "--json").out)["libraries"]["lmdb"]


@pytest.mark.parametrize("argv", [["--help"], ["help"], ["-q", "--help"]])
def test_overview(argv: list[str], cli: Cli) -> None:
    result = cli(*argv)
    assert result.status == 0
    assert max(map(len, result.out.splitlines())) <= 80
    for command in COMMANDS:
        assert f"  {command.name} " in result.out
    for group in GROUPS:
        assert f"\n{group}:\n" in result.out


def test_help_of_a_command_three_ways(cli: Cli) -> None:
    text = cli("query", "--help").out
    assert text.startswith("Usage: sowctl query [OPTIONS] TARGET... [FILTER]\n\nExamples:\n")
    assert cli("help", "query").out == cli("-q", "query", "--help").out == text
    assert cli("journal", "dump", "--help").out == cli("help", "journal", "dump").out


@pytest.mark.parametrize(
    ("argv", "code", "hint"),
    [
        (["qurey"], "SOW-CLI-001", "did you mean query?"),
        (["zzz"], "SOW-CLI-001", "sowctl --help lists"),
        (["orders"], "SOW-CLI-001", "sowctl query orders"),
        (["select"], "SOW-CLI-001", "did you mean query?"),
        (["journal", "zzz"], "SOW-CLI-001", "sowctl journal --help"),
        (["query", "o", "--head", "3"], "SOW-CLI-003", "did you mean --top-n?"),
        (["query", "o", "--where", "/a"], "SOW-CLI-003", "did you mean --filter?"),
        (["query", "o", "--csv"], "SOW-CLI-003", "did you mean --format csv?"),
        (["query", "o", "--group-by", "/a"], "SOW-CLI-003", "did you mean --grouping?"),
        (["query", "o", "--format", "jsn"], "SOW-CLI-003", "sowctl query --help"),
        (["journal", "dmup"], "SOW-CLI-001", "did you mean journal dump?"),
        (["journal"], "SOW-CLI-002", "sowctl journal --help"),
        (["--confg", "x"], "SOW-CLI-001", "sowctl --help"),
        (["--confg"], "SOW-CLI-003", "global options"),
        (["query", "o", "--tpo-n", "3"], "SOW-CLI-003", "--top-n"),
        (["query", "o", "-/a + 5 < 0"], "SOW-CLI-003", "after the word --;"),
        (["eval", "-5 % 3"], "SOW-CLI-003", "after the word --;"),
        (["query"], "SOW-CLI-003", "sowctl query --help"),
        (["query", "o", "--top-n", "x"], "SOW-CLI-003", "sowctl query --help"),
        (["query", "o", "--batch-size", "0"], "SOW-CLI-003", "sowctl query --help"),
        (["query", "o", "--batch-size", "10001"], "SOW-CLI-003", "sowctl query --help"),
        (["query", "o", "--format", "yaml"], "SOW-CLI-003", "sowctl query --help"),
        (["query", "o", "/a", "--filter", "b"], "SOW-CLI-013", "not both"),
        (["query", "o", "/a", "b"], "SOW-CLI-003", "in quotes"),
        (["pipeline", "view", "v", "/a > 1", "--output", "x"], "SOW-CLI-003", "--filter"),
        (["delete", "o"], "SOW-CLI-014", "1 = 1"),
        (["delete", "o", "--filter", "a", "--sow-key", "1"], "SOW-CLI-014", "1 = 1"),
        (["replay", "--until", "-1h"], "SOW-CLI-015", "--into"),
        (["hash", "o", "--expect", "xyz"], "SOW-CLI-016", "32 hex"),
        (["journal", "dump", "--txid", "a:b"], "SOW-CLI-018", "1000:1010"),
        (["validate", "--define", "X", "f.xml"], "SOW-CLI-010", "PORT=9000"),
        (["query", "o", "-0", "--delimiter", "1"], "SOW-CLI-012", "one of them"),
        (["query", "o", "--columns", "price"], "SOW-OUT-001", "/price"),
        (["query", "o", "--lock-wait", "soon"], "SOW-CLI-006", "forever"),
        (["query", "o", "--now", "noonish"], "SOW-VAL-010", "examples"),
    ],
)
def test_wrong_usage(argv: list[str], code: str, hint: str, cli: Cli) -> None:
    Path("sowctl.xml").write_text("<AMPSConfig/>")
    result = cli(*argv)
    assert result.status == 2
    assert result.out == ""
    assert result.err.startswith(f"error[{code}]: ")
    assert hint in result.err


def test_global_options_on_either_side(cli: Cli, planted: Plant) -> None:
    seen: list[Invocation] = []

    def run(invocation: Invocation) -> int:
        """Look."""
        seen.append(invocation)
        return 0

    planted(run)
    options = ["-c", "a.xml", "--lock-wait=3s", "-qvv", "--root", "."]
    assert cli(*options, "completion").status == cli("completion", *options).status == 0
    first, second = seen
    assert first.settings == second.settings
    assert (first.settings.config, first.settings.verbose, first.settings.quiet, first.lock_wait) == (
        "a.xml",
        2,
        True,
        3.0,
    )
    assert cli("-ca.xml", "completion").status == 0
    assert seen[2].settings.config == "a.xml"


def test_clock(cli: Cli, planted: Plant) -> None:
    times: list[int] = []

    def run(invocation: Invocation) -> int:
        """Look."""
        times.append(invocation.clock())
        return 0

    planted(run)
    cli("completion", environ={"SOWCTL_NOW": "1000s"})
    cli("completion", "--now", "2000s", environ={"SOWCTL_NOW": "1000s"})
    assert times == [1_000_000_000, 2_000_000_000]


@pytest.fixture
def config_of(cli: Cli, planted: Plant) -> Callable[..., str]:
    def run(invocation: Invocation) -> int:
        """Look."""
        invocation.streams.stdout.write(str(invocation.find_config_path()).encode())
        return 0

    planted(run)

    def look(*argv: str, environ: dict[str, str] | None = None) -> str:
        result = cli("completion", *argv, environ=environ)
        return result.out or f"{result.status} {result.err}"

    return look


def test_which_configuration(config_of: Callable[..., str]) -> None:
    missing = config_of()
    assert missing.startswith("4 error[SOW-CLI-005]")
    assert "hint: use --config FILE" in missing
    Path("amps.xml").touch()
    assert config_of() == "amps.xml"
    Path("config.xml").touch()
    assert re.match(r"2 error\[SOW-CLI-004\]: .*: amps\.xml, config\.xml\n", config_of())
    assert config_of(environ={"SOWCTL_CONFIG": "env.xml"}) == "env.xml"
    assert config_of("--config", "option.xml", environ={"SOWCTL_CONFIG": "env.xml"}) == "option.xml"


def test_that_a_store_at_a_url_is_not_read_needs_no_configuration(cli: Cli) -> None:
    result = cli("query", "s3://bucket/x.sow")
    assert result.status == 10 and "SOW-ENG-013" in result.err and "copy the file" in result.err


@pytest.mark.parametrize("words", [("journal", "--help"), ("journal", "-h"), ("help", "journal")])
def test_a_word_that_commands_begin_with_explains_itself(cli: Cli, words: tuple[str, ...]) -> None:
    result = cli(*words)
    assert (result.status, result.err) == (0, "")
    assert result.out.splitlines()[0] == "Usage: sowctl journal COMMAND [ARGUMENTS]..."
    assert re.search(r"\n  list +list journal files", result.out)
    assert re.search(r"\n  dump +print journal entries\n", result.out)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (
            ["query", "o", "--top-n", "abc"],
            "invalid value for '--top-n' / '-n' / '--limit': 'abc'; it must be an integer from 0 to 1" + "0" * 18,
        ),
        (
            ["query", "o", "-n", "-1"],
            "invalid value for '--top-n' / '-n' / '--limit': '-1'; it must be an integer from 0 to 1" + "0" * 18,
        ),
        (
            ["query", "o", "--batch-size", "0"],
            "invalid value for '--batch-size': '0'; it must be an integer from 1 to 10000",
        ),
        (["query", "o", "--format", "jsn"], "invalid value for '--format' / '-F': 'jsn'; did you mean json?"),
        (["query", "o", "--format", "jsonl"], "invalid value for '--format' / '-F': 'jsonl'; did you mean ndjson?"),
        (["completion", "csh"], "invalid value for 'SHELL': 'csh'; did you mean zsh?"),
        (["completion", "x"], "invalid value for 'SHELL': 'x'; use one of bash, zsh, fish"),
        (["get"], "missing argument 'TARGET'"),
        (["query", "o", "--sideways"], "no such option: --sideways"),
    ],
)
def test_words_about_a_wrong_value_are_this_program_s(argv: list[str], words: str, cli: Cli) -> None:
    assert cli(*argv).err.splitlines()[0] == f"error[SOW-CLI-003]: {words}"


@pytest.mark.parametrize(
    ("argv", "usage"),
    [
        (["history", "o", "--key", "x"], "sowctl history TOPIC KEY"),
        (["blame", "o", "--key", "x"], "sowctl blame TOPIC KEY"),
        (["bookmark", "get", "--store", "x"], "sowctl bookmark get STORE"),
        (["pipeline", "export", "o", "s3://b/x"], "--output s3://"),
    ],
)
def test_hints_show_the_usage_of_the_command_itself(argv: list[str], usage: str, cli: Cli) -> None:
    assert usage in cli(*argv).err.splitlines()[1]


def test_what_is_suggested_exists() -> None:
    names = {command.name for command in COMMANDS} | {"--version", *PREFIXES}
    assert {own.split(" --")[0] for own in synonyms.COMMAND_SYNONYMS.values()} <= names
    # a word that is a command is never looked up
    assert not names & {*synonyms.COMMAND_SYNONYMS, *synonyms.COMMAND_ADVICE}
    assert not set(synonyms.COMMAND_SYNONYMS) & set(synonyms.COMMAND_ADVICE)
    for command, operand in synonyms.MISSING_ADVICE:
        words = [
            word
            for parameter in load_command(next(one for one in COMMANDS if one.name == command)).parameters
            for word in (*getattr(parameter.declared, "names", ()), parameter.declared.metavar)
        ]
        assert operand in words, command
    spelled = {
        name
        for command in COMMANDS
        for parameter in load_command(command).parameters
        if isinstance(parameter.declared, Option)
        for name in parameter.declared.names
    }
    for other, own in synonyms.OPTION_SYNONYMS.items():
        assert own.split()[0] in spelled, other
    for name, table in synonyms.COMMAND_OPTION_SYNONYMS.items():
        own_options = {
            word
            for parameter in load_command(next(command for command in COMMANDS if command.name == name)).parameters
            if isinstance(parameter.declared, Option)
            for word in parameter.declared.names
        }
        assert not own_options & set(table), name
        assert {own.split()[0] for own in table.values()} <= own_options, name
    assert synonyms.find_near("--limit", ["--meta"], synonyms.OPTION_SYNONYMS) == []
    choices = {
        choice
        for command in COMMANDS
        for parameter in load_command(command).parameters
        for choice in parameter.declared.choices or ()
    }
    assert set(synonyms.VALUE_SYNONYMS.values()) <= choices


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["compare", "a", "b"], "did you mean diff?"),
        (["compact", "orders"], "did you mean store compact?"),
        (["repair"], "did you mean store repair or journal repair?"),
        (["describe", "orders"], "did you mean schema?"),
        (["count", "orders"], "did you mean query --count?"),
        (["repl"], "did you mean shell?"),
        (["truncate", "orders"], "did you mean delete --filter '1 = 1'?"),
        (["join", "a", "b"], "did you mean sql?"),
        (["purge"], "did you mean bookmark purge or queue purge?"),
        (["orders"], "sowctl --help lists the commands; the records of a topic of this name: sowctl query orders"),
        (["query", "o", "--jsonl"], "did you mean --format ndjson?"),
        (["query", "o", "--first", "3"], "did you mean --top-n?"),
        (["query", "o", "-l", "3"], "did you mean -n?"),
        (["query", "o", "--distinct"], "did you mean --grouping?"),
        (["delete", "o", "--all"], "did you mean --filter '1 = 1'?"),
        (["export", "o", "o.csv", "--incremental"], "did you mean --changes?"),
        (["changes", "o"], "did you mean export --changes?"),
        (["lint", "--fix", "--dry-run"], "did you mean --fix --diff?"),
        (["shell", "s.txt"], "pass commands on standard input: sowctl shell < FILE"),
    ],
)
def test_what_was_meant_is_told_by_meaning(argv: list[str], hint: str, cli: Cli) -> None:
    assert cli(*argv).err.splitlines()[1] == f"  hint: {hint}"


@pytest.mark.parametrize("columns", [60, 80, 160])
@pytest.mark.parametrize("argv", [["--help"], ["query", "--help"], ["pipeline", "--help"]])
def test_help_fits_the_terminal_and_breaks_no_word(argv: list[str], columns: int, cli: Cli) -> None:
    shown = cli(*argv, environ={"COLUMNS": str(columns), "NO_COLOR": "1"}, tty="out").out
    words = set(cli(*argv).out.split())
    # A long example is continued after a backslash.
    assert set(shown.split()) - {"\\"} == words
    head = {line for line in shown.splitlines() if line.startswith(("Usage:", "  sowctl ", "sowctl - "))}
    assert all(len(line) <= columns for line in set(shown.splitlines()) - head)


@pytest.mark.parametrize(
    ("variable", "value", "field", "given"),
    [
        ("SOWCTL_COLOR", "always", "color", ("--color", "never")),
        ("SOWCTL_ERROR_FORMAT", "json", "error_format", ("--error-format", "text")),
        ("SOWCTL_LOCK_WAIT", "3s", "lock_wait", ("--lock-wait", "4s")),
        ("SOWCTL_PROGRESS", "never", "progress", ("--progress", "always")),
        ("SOWCTL_ROOT", "/r", "root", ("--root", "/s")),
        ("SOWCTL_NOW", "1000s", "now", ("--now", "2000s")),
        ("SOWCTL_TIMEOUT", "60s", "timeout", ("--timeout", "61s")),
    ],
)
def test_variables_stand_for_global_options(
    variable: str, value: str, field: str, given: tuple[str, str], cli: Cli, planted: Plant
) -> None:
    seen: list[object] = []

    def run(invocation: Invocation) -> int:
        seen.append(getattr(invocation.settings, field))
        return 0

    planted(run)
    for argv, environ in (((), {variable: value}), (given, {variable: value}), ((), {variable: ""}), ((), {})):
        cli("completion", *argv, environ=environ)
    assert seen[:2] == [value, given[1]]
    assert seen[2] == seen[3] != value


def test_variables_switch_flags_on(cli: Cli, planted: Plant) -> None:
    seen: list[tuple[object, ...]] = []

    def run(invocation: Invocation) -> int:
        settings = invocation.settings
        seen.append((settings.quiet, settings.debug, settings.verbose))
        return 0

    planted(run)
    for values in (("1", "yes", "2"), ("0", "off", "TRUE"), ("", "", "")):
        variables = dict(zip(("SOWCTL_QUIET", "SOWCTL_DEBUG", "SOWCTL_VERBOSE"), values, strict=True))
        cli("completion", environ=variables)
    assert seen == [(True, True, 2), (False, False, 1), (False, False, 0)]


def test_the_variables_are_those_of_all_global_options() -> None:
    assert set(GLOBAL_VARIABLES) == {parameter.name for parameter in GLOBAL_PARAMETERS}


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("SOWCTL_COLOR", "red", "SOWCTL_COLOR is 'red'; it takes auto, always, never"),
        ("SOWCTL_PROGRESS", "x", "SOWCTL_PROGRESS is 'x'; it takes"),
        ("SOWCTL_LOCK_WAIT", "soon", "SOWCTL_LOCK_WAIT: "),
        ("SOWCTL_QUIET", "maybe", "SOWCTL_QUIET is 'maybe'; it takes 1, true, yes"),
    ],
)
def test_a_wrong_variable_is_named(variable: str, value: str, words: str, cli: Cli) -> None:
    said = cli("functions", environ={variable: value})
    assert (said.status, words in said.err) == (2, True)


def test_errors_in_options_are_written_as_the_environment_says(cli: Cli) -> None:
    said = cli("query", "--nope", environ={"SOWCTL_ERROR_FORMAT": "json"})
    assert json.loads(said.err)["code"] == "SOW-CLI-003"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_short_help_fits_a_screen(command: Command, cli: Cli) -> None:
    done = cli(*command.words, "-h")
    lines = done.out.splitlines()
    assert done.status == 0 and len(lines) <= 24
    assert lines[0].startswith(f"Usage: sowctl {command.name}") and f"sowctl man {command.name}" in done.out


@pytest.mark.parametrize("argv", [[], ["-h"]])
def test_without_a_command_the_overview_fits_a_screen(argv: list[str], cli: Cli) -> None:
    done = cli(*argv)
    assert done.status == 0 and len(done.out.splitlines()) <= 24
    assert {command.words[0] for command in COMMANDS} <= set(done.out.split())


def test_common_options_exist() -> None:
    for command in COMMANDS:
        loaded = load_command(command)
        assert set(loaded.common) <= {parameter.name for parameter in loaded.parameters}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("query orders --join customers", {"sowctl sql", "sowctl config add view"}),
        ("sql --join x", {"sowctl sql"}),
        ("query orders --reverse", {"DESC"}),
        ("query orders --last 5", {"--order-by", "--top-n"}),
        ("tail orders -n 3", {"--max"}),
        ("delete orders --since yesterday", {"filter", "/time"}),
        ("stats --journal --by topic", {"--by-topic"}),
        ("query orders --sum qty", {"--projection", "--grouping"}),
        ("query orders --nl", {"--format ndjson"}),
        ("publish orders --nl", {"--format ndjson"}),
        ("publish orders --csv", {"--format csv"}),
        ("publish orders --pk id", {"sowctl config add topic"}),
        ("subscribe orders --group g", {"queue run"}),
        ("subscribe orders --from-beginning", {"--bookmark EPOCH"}),
        ("history orders 1 -p", {"--diff"}),
        ("get orders 1 --field x", {"--columns"}),
        ("history orders", {"key-field values", "orders@history"}),
        ("blame orders", {"sowctl blame orders"}),
        ("export orders", {".parquet"}),
        ("restore copies", {"--to"}),
        ("undo", {"sowctl history", "--format envelopes | sowctl publish", "sowctl restore"}),
        ("revert", {"sowctl history"}),
        ("dump", {"sowctl export", "sowctl journal dump", "sowctl backup"}),
        ("checkout", {"--at", "sowctl snapshot"}),
        ("stash", {"sowctl snapshot"}),
        ("rows", {"did you mean query?"}),
        ("monitor", {"did you mean tail?"}),
        ("hgetall", {"did you mean get?"}),
        ("xadd", {"did you mean publish?"}),
        ("snapshots", {"did you mean backup --list?"}),
        ("create-view", {"did you mean config add view?"}),
        ("queue create", {"did you mean config add queue?"}),
        ("config add topic t --pk /id", {"did you mean --key?"}),
        ("config add topic t --ttl 1d", {"did you mean --expiration?"}),
        ("config add view v --from orders", {"did you mean --source?"}),
        ("config add view v --group-by /id", {"did you mean --grouping?"}),
        ("config add queue q --retries 3", {"did you mean --max-deliveries?"}),
    ],
)
def test_words_of_other_tools_lead_on(line: str, told: set[str], cli: Cli) -> None:
    done = cli(*line.split())
    (hint,) = [row for row in done.err.splitlines() if "hint: " in row]
    assert (done.status, {part for part in told if part not in hint}) == (2, set())


def test_the_types_of_other_tools_lead_on(cli: Cli) -> None:
    Path("x.csv").write_text("id,price\n1,2.5\n")
    Path("sowctl.xml").write_text("<AMPSConfig><Name>x</Name></AMPSConfig>")
    for other, own in (("float", "number"), ("int", "integer"), ("string", "text"), ("bool", "boolean")):
        done = cli("publish", "orders", "--from", "x.csv", "--type", f"price={other}")
        assert (done.status, f"--type price={own}?" in done.err) == (2, True), done.err


@pytest.mark.parametrize(
    ("line", "told"),
    [("publish orders --format kafka", "--envelope kafka"), ("schema orders --format ddl", "--ddl prints")],
)
def test_values_of_other_tools_lead_on(line: str, told: str, cli: Cli) -> None:
    done = cli(*line.split())
    assert done.status == 2 and told in done.err
