"""No content of names, fields, keys, clients and paths lets a command control a terminal or deceive its reader.

The command lines of every command in the table are here, each run with standard output and standard error as a
terminal.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import pytest

import sowctl
from sowctl.cli.main import main
from sowctl.cli.parsing.table import COMMANDS
from sowctl.output.terminal import SafeTerminal
from tests.cli.conftest import Tty

UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]"
)
MARKS = "\x9b31m\x85\x7f\u202e\u2066\u2069\u200e\u200f\u061c\u2028\u2029"
"""Characters that XML allows in a name of a configuration."""
HOSTILE = MARKS + "\x1b]0;owned\x07\x1b[31m\r"
TOPIC, VIEW, SLOW, QUEUE, SHOP = (f"{name}{MARKS}" for name in ("t", "v", "s", "q", "shop"))
FIELD = f"f{HOSTILE}"
DIRECTORY = f"d{HOSTILE}\n\udcff"
T = "2030-01-01T00:00:00Z"
XML = f"""<AMPSConfig><Name>{SHOP}</Name><SOW>
<Topic><Name>{TOPIC}</Name><MessageType>json</MessageType><Key>/id</Key><FileName>{MARKS}/t.sow</FileName>
 <History><Window>1w</Window><Granularity>1s</Granularity></History></Topic>
<Topic><Name>b{MARKS}</Name><MessageType>bflat</MessageType><FileName>{MARKS}/b.sow</FileName></Topic>
<Topic><Name>places{MARKS}</Name><MessageType>json</MessageType><Key>/client</Key><Key>/topic</Key><Key>/sub_id</Key>
 <FileName>{MARKS}/places.sow</FileName></Topic>
<View><Name>{VIEW}</Name><MessageType>json</MessageType><UnderlyingTopic>{TOPIC}</UnderlyingTopic>
 <Projection><Field>/id AS /id</Field><Field>COUNT(/id) AS /n{MARKS[6:8]}</Field></Projection>
 <Grouping><Field>/id</Field></Grouping></View>
<ConflatedTopic><Name>{SLOW}</Name><MessageType>json</MessageType><UnderlyingTopic>{TOPIC}</UnderlyingTopic>
 <Interval>10s</Interval></ConflatedTopic>
<Queue><Name>{QUEUE}</Name><MessageType>json</MessageType><UnderlyingTopic>{TOPIC}</UnderlyingTopic>
 <LeasePeriod>1m</LeasePeriod></Queue></SOW>
<TransactionLog><JournalDirectory>j{MARKS}</JournalDirectory><JournalArchiveDirectory>a{MARKS}</JournalArchiveDirectory>
<JournalSize>10MB</JournalSize><Topic><Name>{TOPIC}</Name><MessageType>json</MessageType></Topic></TransactionLog>
<Actions><Action><On><Module>amps-action-on-schedule</Module><Options><Every>03:00</Every><Name>{MARKS}</Name></Options>
</On><Do><Module>amps-action-do-remove-journal</Module><Options><Age>521w</Age></Options></Do></Action></Actions>
</AMPSConfig>"""
ROWS = "".join(
    json.dumps({"id": f"{number}{HOSTILE}", FIELD: HOSTILE, "text": HOSTILE}, ensure_ascii=number % 2 == 0) + "\n"
    for number in range(6)
)
NAMED = HOSTILE.replace("\r", "\n")
NO_SUCH = f"no{NAMED}.json"
CALLS: dict[str, list[list[str]]] = {
    "publish": [
        ["publish", TOPIC, "in.json", "--client", f"c{MARKS}"],
        ["publish", TOPIC, NO_SUCH],
        ["publish", NAMED],
    ],
    "query": [
        ["query", TOPIC, "--format", "table"],
        ["query", TOPIC, "--format", "csv", "--meta"],
        ["query", TOPIC, "--format", "tsv"],
        ["query", TOPIC, "--format", "raw"],
        ["query", TOPIC, "--format", "ndjson"],
        ["query", TOPIC, "--format", "json"],
        ["query", TOPIC, "--format", "msgpack"],
        ["query", TOPIC, "--template", "{/text} {/id}\x1b[31m"],
        ["query", TOPIC, f"/no{MARKS[6:8]}x = 1"],
        ["query", TOPIC, "/'nothing'", "--explain"],
        ["query", VIEW, "--explain"],
        ["query", NAMED],
        ["query", f"./{NAMED}.sow"],
        ["query", TOPIC, "--statistics"],
    ],
    "export": [["export", TOPIC, f"out{NAMED}.ndjson"], ["export", TOPIC, f"out{NAMED}.nothing"]],
    "get": [["get", TOPIC, f"1{HOSTILE}"], ["get", TOPIC, f"none{HOSTILE}"]],
    "sql": [
        ["sql", f'select * from "{TOPIC}"'],
        ["sql", f"select '{NAMED}' as \"{NAMED}\""],
        ["sql", f'from "{NAMED}"'],
    ],
    "tail": [["tail", TOPIC, "--until-now"], ["tail", NAMED]],
    "subscribe": [["subscribe", TOPIC, "--until-now"], ["subscribe", NAMED]],
    "delete": [["delete", TOPIC, "--filter", "/id BEGINS WITH ('5')", "--yes"], ["delete", NAMED, "--filter", "1=1"]],
    "expire": [["expire", TOPIC], ["expire", NAMED]],
    "history": [["history", TOPIC, f"1{HOSTILE}"], ["history", TOPIC, f"1{HOSTILE}", "--changes"]],
    "blame": [["blame", TOPIC, f"1{HOSTILE}"], ["blame", TOPIC, f"none{HOSTILE}"]],
    "diff": [["diff", TOPIC, VIEW], ["diff", TOPIC, TOPIC, "--stat"], ["diff", f"./{NAMED}.sow", TOPIC]],
    "snapshot": [["snapshot", TOPIC, "--at", T], ["snapshot", TOPIC, "--at", T, "--output", f"snap{NAMED}.sow"]],
    "replay": [["replay", TOPIC, "--verify"], ["replay", NAMED]],
    "info": [["info"], ["info", "--format", "ndjson"], ["info", NAMED]],
    "schema": [["schema", TOPIC], ["schema", TOPIC, "--format", "ndjson"]],
    "stats": [["stats", TOPIC], ["stats", TOPIC, "--format", "ndjson"], ["stats", "--journal"]],
    "browse": [["browse", TOPIC]],
    "hash": [["hash", TOPIC], ["hash", TOPIC, "--expect", "0" * 32]],
    "key": [["key", TOPIC, "in.json"], ["key", TOPIC, NO_SUCH]],
    "eval": [["eval", "/text", "in.json"], ["eval", "/text", NO_SUCH], ["eval", f"/a{NAMED} +", "in.json"]],
    "functions": [["functions"]],
    "view list": [["view", "list"]],
    "view show": [["view", "show", VIEW], ["view", "show", NAMED]],
    "view refresh": [["view", "refresh", VIEW]],
    "view check": [["view", "check", VIEW]],
    "conflate": [["conflate"], ["conflate", SLOW, "--format", "table"]],
    "bookmark list": [["bookmark", "list", f"places{MARKS}"], ["bookmark", "list", NAMED]],
    "bookmark get": [["bookmark", "get", f"places{MARKS}", "--client", f"c{MARKS}", "--sub-id", "1"]],
    "bookmark set": [["bookmark", "set", f"places{MARKS}", "0|1|", "--client", f"c{MARKS}", "--topic", TOPIC]],
    "bookmark rewind": [["bookmark", "rewind", f"places{MARKS}", "--to", "-1h"]],
    "bookmark check": [["bookmark", "check", f"places{MARKS}"]],
    "bookmark purge": [["bookmark", "purge", f"places{MARKS}", "--all", "--dry-run"]],
    "queue list": [["queue", "list"]],
    "queue info": [["queue", "info", QUEUE], ["queue", "info", NAMED]],
    "queue depth": [["queue", "depth", QUEUE]],
    "queue peek": [["queue", "peek", QUEUE], ["queue", "peek", QUEUE, "--format", "ndjson"]],
    "queue lease": [["queue", "lease", QUEUE]],
    "queue run": [["queue", "run", QUEUE, "--until-empty", "--max", "1", "--", f"./no{NAMED}"]],
    "queue ack": [["queue", "ack", QUEUE, NAMED]],
    "queue cancel": [["queue", "cancel", QUEUE, NAMED]],
    "queue renew": [["queue", "renew", QUEUE, NAMED]],
    "queue expire": [["queue", "expire", QUEUE, NAMED]],
    "queue requeue": [["queue", "requeue", QUEUE, "--dead"]],
    "queue purge": [["queue", "purge", QUEUE, "--yes"]],
    "journal list": [["journal", "list"], ["journal", "list", NAMED]],
    "journal dump": [["journal", "dump"], ["journal", "dump", "--format", "ndjson"], ["journal", "dump", NAMED]],
    "journal tail": [["journal", "tail"]],
    "journal search": [["journal", "search", "--regex", "owned"], ["journal", "search", "--filter", f"/a{NAMED} ="]],
    "journal bisect": [["journal", "bisect", "--topic", TOPIC, "--filter", "/text LIKE 'owned'"]],
    "check": [["check"], ["check", TOPIC], ["check", NAMED]],
    "store check": [["store", "check"], ["store", "check", NAMED]],
    "store repair": [["store", "repair", TOPIC, "--dry-run"]],
    "store clean": [["store", "clean"]],
    "store compact": [["store", "compact", TOPIC]],
    "store reindex": [["store", "reindex", TOPIC]],
    "journal repair": [["journal", "repair", "--dry-run"]],
    "journal rotate": [["journal", "rotate"]],
    "journal compress": [["journal", "compress"]],
    "journal archive": [["journal", "archive", "--older-than", "1d"]],
    "journal prune": [["journal", "prune", "--keep-for", "7d", "--dry-run"]],
    "journal check": [["journal", "check"], ["journal", "check", NAMED]],
    "backup": [["backup", f"backups{NAMED}"], ["backup", f"backups{NAMED}", "--list"]],
    "restore": [["restore", f"backups{NAMED}", "--to", f"restored{NAMED}"], ["restore", f"none{NAMED}", "--to", "x"]],
    "upkeep run": [["upkeep", "run", "--dry-run"]],
    "upkeep list": [["upkeep", "list"]],
    # Jobs that start Spark take long; their output passes through the same streams.
    "pipeline load": [["pipeline", "load", TOPIC, NO_SUCH]],
    "pipeline rebuild": [["pipeline", "rebuild", NAMED]],
    "pipeline snapshot": [["pipeline", "snapshot", NAMED, "--at", T, "--output", "x"]],
    "pipeline view": [["pipeline", "view", NAMED, "--output", "x"]],
    "pipeline export": [["pipeline", "export", NAMED, "--output", "x"]],
    "pipeline stream": [["pipeline", "stream", NAMED, "--console"]],
    "pipeline submit-args": [["pipeline", "submit-args", "--master", NAMED, "--", "rebuild", NAMED]],
    "validate": [["validate", "sowctl.xml"], ["validate", f"no{NAMED}.xml"], ["validate", f"bad{NAMED}.xml"]],
    "lint": [["lint", "sowctl.xml"], ["lint", f"bad{NAMED}.xml"], ["lint", "sowctl.xml", "--format", "github"]],
    "config show": [["config", "show"], ["config", "show", "--format", "xml"], ["config", "show", "--format", "json"]],
    "config diff": [["config", "diff", "sowctl.xml", "other.xml"], ["config", "diff", "sowctl.xml", NAMED]],
    "config init": [["config", "init", f"new{NAMED}.xml", "--topic", "t=/id"], ["config", "init", "--topic", NAMED]],
    "config add topic": [["config", "add", "topic", "new=/id"], ["config", "add", "topic", NAMED]],
    "config add view": [
        ["config", "add", "view", NAMED, "--source", TOPIC, "--projection", "/id", "--grouping", "/id"]
    ],
    "config add queue": [["config", "add", "queue", "q", "--source", TOPIC], ["config", "add", "queue", NAMED]],
    "config add expiration": [["config", "add", "expiration", NAMED, "1h"]],
    "config add history": [["config", "add", "history", TOPIC, "1h", "--dry-run"]],
    "config schema": [["config", "schema"], ["config", "schema", NAMED]],
    "doctor": [["doctor"]],
    "demo": [["demo", f"demo{NAMED}"]],
    "explain": [["explain", "SOW-EXP-030"], ["explain", NAMED]],
    "man": [["man", NAMED]],
    "shell": [["shell", f"script{NAMED}"], ["shell", f"none{NAMED}"]],
    "completion": [["completion", NAMED], ["completion", "bash"]],
}


class Shown(NamedTuple):
    """The output of a run on a terminal."""

    status: int
    out: bytes
    err: bytes


def run(*argv: str) -> Shown:
    """Run a command line whose output and error are terminals without colours."""
    out, err = Tty(), Tty()
    status = main(argv, environ={"NO_COLOR": "1", "TERM": "dumb"}, stdin=io.BytesIO(), stdout=out, stderr=err)
    return Shown(status, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An instance in which every name is hostile, as the working directory."""
    place = tmp_path_factory.mktemp("hostile") / DIRECTORY
    place.mkdir()
    before = Path.cwd()
    os.chdir(place)
    try:
        (place / "sowctl.xml").write_text(XML)
        (place / "other.xml").write_text(XML.replace("1w", f"2w{escape(MARKS)}"))
        (place / f"bad{NAMED}.xml").write_text(XML.replace("</SOW>", f"<No{chr(0x2E80)}/><Topic>{MARKS}</Topic></SOW>"))
        (place / "in.json").write_text(ROWS)
        (place / f"script{NAMED}").write_text(f"query '{TOPIC}'\nquery '{MARKS}'\n")
        for _ in range(2):
            assert run("publish", TOPIC, "in.json", "--client", f"c{MARKS}").status == 0
        yield place
    finally:
        os.chdir(before)


def test_every_command_is_tried() -> None:
    assert set(CALLS) == {command.name for command in COMMANDS}


@pytest.mark.parametrize("command", CALLS)
@pytest.mark.usefixtures("hostile")
def test_nothing_unsafe_reaches_a_terminal(command: str) -> None:
    for argv in CALLS[command]:
        for more in ([], ["--verbose", "--debug"], ["--error-format", "json"]):
            shown = run(*more, *argv)
            assert shown.status != 70, (argv, shown.err)
            for data in (shown.out, shown.err):
                # Decoding proves that there is no byte that a terminal could interpret as a C1 character.
                found = UNSAFE.search(data.decode())
                assert found is None, (argv, data[max(0, found.start() - 60) :][:120])


@pytest.mark.usefixtures("hostile")
def test_machine_formats_in_a_pipe_stay_exact() -> None:
    out, err = io.BytesIO(), io.BytesIO()
    assert main(["query", TOPIC, "--format", "raw"], environ={}, stdin=io.BytesIO(), stdout=out, stderr=err) == 0
    lines = out.getvalue().split(b"\n")
    # Another test may have deleted one.
    assert len(lines) in (6, 7)
    assert set(lines) <= set(ROWS.encode().split(b"\n"))


def test_a_character_in_two_blocks_is_one() -> None:
    terminal = io.BytesIO()
    safe = SafeTerminal(terminal)
    for byte in "ä\u202e\x9b\t\n".encode() + b"\xff\xc3":
        safe.write(bytes((byte,)))
    safe.flush()
    assert terminal.getvalue() == "ä\\u202e\\u009b\t\n\\xff\\xc3".encode()


PEOPLE = {"cli/streams.py", "cli/crash.py", "cli/pager.py"}
"""The modules that may write to the streams of the process: the boundary itself, and the two that write when Python
cannot be called any more."""
PAINTERS = {
    "cli/streams.py",
    "cli/boundary.py",
    "cli/context.py",
    "cli/commands/bodies/diff.py",
    "cli/commands/bodies/sql.py",
    "cli/commands/bodies/stats.py",
    "cli/commands/man.py",
    "cli/io/output_sink.py",
    "cli/io/report_output.py",
    "cli/parsing/dispatch.py",
}
"""Modules that write text with colours, in which all data passed through ``display``."""


def test_nothing_writes_past_the_boundary() -> None:
    root = Path(sowctl.__file__).parent
    direct, painted = set(), set()
    for path in [*root.glob("cli/**/*.py"), *root.glob("output/**/*.py"), *root.glob("browse/**/*.py")]:
        name = str(path.relative_to(root))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                direct.add(name)
            if isinstance(node, ast.Attribute) and node.attr in ("write", "flush"):
                inner = node.value
                if isinstance(inner, ast.Attribute) and inner.attr in ("stderr", "_stdout", "__stdout__", "__stderr__"):
                    direct.add(name)
            if isinstance(node, ast.Attribute) and node.attr in ("painted", "talk_painted"):
                painted.add(name)
    assert direct - PEOPLE <= {"cli/main.py", "cli/manual/__main__.py"}, direct
    assert painted <= PAINTERS
