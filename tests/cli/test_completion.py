"""Completion of command lines, and the scripts of shells that use it, in each installed shell."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sowctl.cli.completion import filters
from sowctl.cli.completion.scripts import SHELLS, build_script, unquote_words
from sowctl.cli.parsing.loader import load_command
from sowctl.cli.parsing.table import COMMANDS, PAGES, PREFIXES
from sowctl.declarations import Option
from sowctl.engine.api import InstanceHandle
from tests.cli.conftest import Cli

MAN = Path(__file__).parents[2] / "man"
CONFIG = """<AMPSConfig><Name>t</Name><SOW>
<Topic><Name>orders</Name><MessageType>json</MessageType><Key>/id</Key><FileName>%n.sow</FileName></Topic>
<Topic><Name>/a/$(touch owned)</Name><MessageType>json</MessageType><Key>/id</Key><FileName>o.sow</FileName></Topic>
<View><Name>totals</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic>
<Projection><Field>/id</Field><Field>SUM(/qty) AS /sum</Field></Projection>
<Grouping><Field>/id</Field></Grouping></View>
<ConflatedTopic><Name>slow</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic>
</ConflatedTopic>
<Queue><Name>work</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic></Queue>
</SOW><TransactionLog><JournalDirectory>j</JournalDirectory>
<Topic><Name>orders</Name><MessageType>json</MessageType></Topic></TransactionLog></AMPSConfig>"""
RECORDS = [
    {"id": "A1", "side": "buy", "qty": 5, "at": {"city": "O'Hara"}},
    {"id": "B2", "side": "sell", "qty": 7, "lines": [{"item": True}], "an odd name": 1},
    {"id": "B3", "side": "x" * 100, "qty": None},
]


@pytest.fixture
def here(cli: Cli, tmp_path: Path) -> Path:
    """A working directory with a configuration, some records and some files."""
    (tmp_path / "sowctl.xml").write_text(CONFIG)
    (tmp_path / "other.xml").write_text(CONFIG.replace(">orders<", ">trades<"))
    for name in ("here.sow", "order book.ndjson", "data.ndjson"):
        (tmp_path / name).touch()
    (tmp_path / "dir").mkdir()
    InstanceHandle.open(tmp_path / "sowctl.xml").topic("orders").publish(RECORDS)
    return tmp_path


def asked(cli: Cli, *words: str) -> tuple[list[str], list[str]]:
    """The parts of the first line of an answer, and its words."""
    done = cli("completion", "zsh", "--", *words)
    assert (done.status, done.err) == (0, "")
    head, *lines = done.out.split("\n")[:-1]
    return head.split("\t"), [line.split("\t")[0] for line in lines]


@pytest.mark.parametrize(
    ("words", "paths", "wanted", "unwanted"),
    [
        ([""], "-", {"query", "publish", "journal", "completion"}, {"list", "--help", "journal list"}),
        (["qu"], "-", {"query", "queue"}, {"publish"}),
        (["--c"], "-", {"--config", "--color"}, {"query", "--count"}),
        (["--v"], "-", {"--verbose", "--version"}, set()),
        (["-c", "amps.xml", "ge"], "-", {"get"}, {"query"}),
        (["-F", "csv", "ge"], "-", {"get"}, {"query"}),
        (["-F", "t"], "-", {"table", "tsv", "template"}, {"csv"}),
        (["help", "jou"], "-", {"journal"}, {"query"}),
        (["--config", "amps.xml", "query", "--fo"], "-", {"--format", "--force"}, {"--filter"}),
        (["query", "orders", "--format", ""], "-", {"ndjson", "table", "msgpack"}, {"orders"}),
        (["query", "orders", "--format=t"], "-", {"--format=table", "--format=tsv"}, {"--format=csv"}),
        (["query", "orders", "--count=t"], "-", set(), {"--count=true"}),
        (["journal", ""], "-", {"list", "dump"}, {"query"}),
        (["journal", "dump", "--si"], "-", {"--since"}, {"--framing"}),
        (["no-such", ""], "-", set(), {"query", "orders"}),
        (["publish", "orders", "--on-error", ""], "-", {"stop", "skip", "abort"}, set()),
        (["query", "--color", "a"], "-", {"always", "auto"}, {"never"}),
        (["completion", ""], "-", {"bash", "zsh", "fish"}, set()),
        (["publish", "orders", "ord"], "file", set(), {"orders"}),
        (["publish", "orders", "--rejects", "da"], "file", set(), {"orders"}),
        (["replay", "--into", ""], "directory", set(), {"orders"}),
        (["--config", ""], "file", set(), {"query"}),
        (["--config="], "file", set(), {"query"}),
        (["man", "sow-s"], "-", {"sow-store"}, set()),
        (["man", "sowctl-jo"], "-", {"sowctl-journal-dump"}, set()),
        (["functions", "SUB"], "-", {"SUBSTR"}, set()),
        (["explain", "SOW-STO-02"], "-", {"SOW-STO-024"}, {"SOW-STO-030"}),
        (["query", "orders", "--message-type", "m"], "-", {"msgpack"}, {"json"}),
        (["query", ""], "store", {"orders", "totals", "slow", "work", "/a/$(touch owned)"}, {"--filter"}),
        (["info", "t"], "store", {"totals"}, {"orders"}),
        (["-c", "other.xml", "query", ""], "store", {"trades"}, {"orders"}),
        (["query", "-c", "other.xml", ""], "store", {"trades"}, {"orders"}),
        (["view", "show", ""], "-", {"totals"}, {"orders"}),
        (["conflate", ""], "-", {"slow"}, {"orders"}),
        (["queue", "lease", ""], "-", {"work"}, {"orders"}),
        (["publish", ""], "-", {"work", "orders"}, {"totals"}),
        (["check", "o"], "store", {"orders"}, {"totals"}),
        (["store", "check", "orders", ""], "store", {"orders"}, set()),
        (["get", "orders", ""], "-", {"A1", "B2"}, {"'A1'"}),
        (["get", "orders", "A1", "B"], "-", {"B2", "B3"}, {"A1"}),
        (["get", "orders", "--", "-"], "-", set(), {"--at"}),
        (["query", "orders", "--columns", "/id,s"], "-", {"/id,sow_key"}, {"sow_key"}),
        (["query", "orders", "--columns", "/id,[/last,"], "-", set(), {"/id,[/last,/id"}),
        (["query", "orders", "-o", "/qty D"], "-", {"/qty DESC"}, {"/qty ASC"}),
        (["query", "orders", "-o", "/qty DESC, /s"], "-", {"/qty DESC, /side"}, set()),
        (["query", "orders", "--select", "-/,+/a"], "-", {"-/,+/at", "-/,+/at/city"}, set()),
        (["query", "orders", "--options", "top_n=1,sk"], "-", {"top_n=1,skip_n="}, set()),
        (["query", "orders", "--options", "top_n="], "-", set(), {"top_n=skip_n="}),
        (["query", "orders", "/lin"], "-", {"/lines", "/lines/item"}, set()),
        (["query", "orders", "--filter", "/side = "], "-", {"/side = 'buy'", "/side = 'sell'"}, set()),
        (["query", "nothing", "/side"], "-", set(), {"/side"}),
        (["query", "totals", "/"], "-", {"/id", "/sum"}, {"/qty", "/side"}),
        (["query", "slow", "/side = '"], "-", {"/side = 'buy'"}, set()),
        (["query", "work", "/q"], "-", {"/qty"}, set()),
        (["get", "totals", ""], "-", set(), {"A1"}),
        (["eval", "LENG"], "-", {"LENGTH("}, set()),
        (["query", "orders", "/id = 'A1'", "more"], "-", set(), {"/id"}),
    ],
)
def test_what_completes_a_line(
    words: list[str], paths: str, wanted: set[str], unwanted: set[str], cli: Cli, here: Path
) -> None:
    head, found = asked(cli, *words)
    assert head[0] == paths
    assert wanted <= set(found)
    assert not unwanted & set(found)
    assert all(word.startswith(words[-1]) for word in found)
    # Content of a configuration is offered, never executed.
    assert not (here / "owned").exists()


VALUES = {"/side": ["'buy'", "'sell'"], "/qty": ["5", "7"], "/at/city": ["'O''Hara'"]}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", ["/side", "/qty", "/at/city"]),
        ("/s", ["/side"]),
        ("NOT /q", ["NOT /qty"]),
        ("(/side = 'buy' OR ", [f"(/side = 'buy' OR {path}" for path in VALUES]),
        ("/qty ", [f"/qty {one}" for one in ("=", "!=", "<", "<=", ">", ">=", "LIKE ", "IN (", "BETWEEN ", "IS NULL")]),
        ("/qty>", ["/qty>5", "/qty>7"]),
        ("/qty BETWEEN 5", ["/qty BETWEEN 5"]),
        ("/side = 's", ["/side = 'sell'"]),
        ("/side IN ('buy', 's", ["/side IN ('buy', 'sell'"]),
        ("/side NOT LIKE 'b", ["/side NOT LIKE 'buy'"]),
        ("/at/city = 'O''", ["/at/city = 'O''Hara'"]),
        ("/unknown = 's", []),
        ("CONCAT('s", []),
        ("/qty = 5 ", ["/qty = 5 AND ", "/qty = 5 OR "]),
        ("/qty = 5 o", ["/qty = 5 OR "]),
        ("len", ["LENGTH("]),
        ("/qty = 5)", []),
    ],
)
def test_what_completes_a_filter(text: str, wanted: list[str]) -> None:
    assert filters.complete_filter(text, VALUES, ["LENGTH", "SUBSTR"]) == wanted


def test_an_offer_of_values_is_no_longer_than_it_can_be_read(cli: Cli, here: Path) -> None:
    _, found = asked(cli, "query", "orders", "/side = '")
    assert found == ["/side = 'buy'", "/side = 'sell'"] or found == ["/side = 'sell'", "/side = 'buy'"]
    assert "/an odd name" not in asked(cli, "query", "orders", "/")[1]


def test_every_option_of_every_command_is_offered(cli: Cli) -> None:
    for command in COMMANDS:
        _, found = asked(cli, *command.words, "-")
        for parameter in load_command(command).parameters:
            if isinstance(parameter.declared, Option):
                assert set(parameter.declared.names) <= set(found)


def test_offers_say_what_they_are(cli: Cli, here: Path) -> None:
    assert "query\tprint the records" in cli("completion", "fish", "--", "que").out
    assert "orders\tTopic, json\n" in cli("completion", "fish", "--", "query", "o").out
    for prefix, about in PREFIXES.items():
        *before, last = prefix.split()
        assert f"{last}\t{about}\n" in cli("completion", "fish", "--", *before, last).out


def test_without_a_configuration_nothing_is_said(cli: Cli) -> None:
    assert asked(cli, "query", "") == (["store", "-", ""], [])
    assert cli("completion", "--names", "topic").status == 4


def test_names_are_printed_or_a_script(cli: Cli, here: Path) -> None:
    assert cli("completion", "--names", "published").out.split("\n") == ["orders", "/a/$(touch owned)", "work", ""]
    for arguments in ((), ("bash", "--names", "view")):
        done = cli("completion", *arguments)
        assert (done.status, "SOW-CLI-098" in done.err) == (2, True)
    for shell in SHELLS:
        assert cli("completion", shell).out == build_script(shell)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("plain", "plain"),
        ("order\\ book", "order book"),
        ("'/a = \"b", '/a = "b'),
        ("\"/a = 'b", "/a = 'b"),
        ('"/a = 1"', "/a = 1"),
        ("a\\", "a"),
        ("", ""),
    ],
)
def test_words_of_bash_have_their_quotation_marks(word: str, meant: str) -> None:
    assert unquote_words([word], "bash") == [meant]
    assert unquote_words([word], "fish") == [word]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_can_read_its_script(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "script"
    path.write_text(build_script(shell))
    done = subprocess.run([program, "-n", str(path)], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


BASH = """
sowctl() {{ {python} -m sowctl "$@"; }}
compopt() {{ :; }}
source ./script
try() {{
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
    _sowctl
    printf '<%s>' "${{COMPREPLY[@]}}"; echo
}}
try sowctl query ord
try sowctl --config = sowctl.xml view show ''
try sowctl query orders --format = t
try sowctl query orders "'/side = \\"s"
try sowctl query orders "\\"/side = 'b"
try sowctl publish orders da
try sowctl query '/a'
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash(here: Path) -> None:
    (here / "script").write_text(build_script("bash"))
    program = BASH.format(python=sys.executable)
    done = subprocess.run(["bash", "--norc", "-c", program], cwd=here, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "<orders><orders.json.sow>",
        "<totals>",
        "<table><tsv><template>",
        "<>",
        "<\"/side = 'buy'>",
        "<data.ndjson>",
        "</a/\\$\\(touch\\ owned\\)>",
    ]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish(here: Path) -> None:
    (here / "script").write_text(build_script("fish"))
    lines = ["sowctl query ord", "sowctl view show ", "sowctl query orders --format=t", "sowctl -c ot", "sowctl info d"]
    calls = "\n".join(f"complete -C'{line}'; echo =" for line in lines)
    program = f"function sowctl; {sys.executable} -m sowctl $argv; end\nsource ./script\n{calls}"
    done = subprocess.run(["fish", "--no-config", "-c", program], cwd=here, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    found = [{line.split("\t")[0] for line in part.splitlines()} - {""} for part in done.stdout.split("=\n")]
    # ``=`` also ends the first part of an option, so the splitting leaves its last part.
    assert {"orders"} <= found[0]
    assert {"totals"} == found[1]
    assert "--format=table" in done.stdout
    assert "other.xml" in done.stdout
    assert "dir/" in done.stdout
    assert "data.ndjson" not in done.stdout


ZSH = """
sowctl() {{ {python} -m sowctl "$@" }}
compadd() {{ print -r -- "$@"; print -rl -- "${{(@)plain}}" }}
_files() {{ print -r -- files "$@" }}
compset() {{ print -r -- compset "$@" }}
compdef() {{ : }}
source ./script
try() {{ words=(sowctl "$@"); CURRENT=$#words; PREFIX="${{words[-1]}}"; QIPREFIX=""; _sowctl; print = }}
try query ord
try view show ''
try --config=so
try query orders /si
"""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh(here: Path) -> None:
    (here / "script").write_text(build_script("zsh"))
    program = ZSH.format(python=sys.executable)
    done = subprocess.run(["zsh", "-f", "-c", program], cwd=here, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert [part.split("\n")[1:-1] for part in done.stdout.split("=\n")[:2]] == [
        ["orders", "files -g *.sow(-.)"],
        ["totals"],
    ]
    assert "compset -P --config=\nfiles\n" in done.stdout
    assert "-S  -a plain\n/side\n" in done.stdout


def test_the_pages_that_complete_are_those_written_by_hand() -> None:
    made = {command.page for command in COMMANDS} | {"sowctl", "sowctl-lint"}
    assert {path.stem for path in MAN.glob("*.[157]")} - made == set(PAGES)
