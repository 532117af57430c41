"""The config commands as users run them: formats, terminals of any width, exit statuses, questions."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

ROOT = Path(__file__).parents[2]
CONFIG = """<AMPSConfig>
<Name>x</Name>
<SOW><TopicDefinition><Topic>orders</Topic><MessageType>json</MessageType><FileName>${DIR}/f</FileName>
<Key>/id</Key><SlabSize>8mb</SlabSize></TopicDefinition></SOW>
</AMPSConfig>
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "a.xml").write_text(CONFIG)
    return str(tmp_path / "a.xml")


def on_a_terminal(words: list[str], columns: int, answers: bytes = b"", **environment: str) -> tuple[int, str]:
    """Status and output of a run on its own terminal, all three streams."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "LANG", "HOME")}
    process = subprocess.Popen(
        [sys.executable, "-m", "sowctl", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
        env=kept | {"COLUMNS": str(columns), "TERM": "xterm", "LC_ALL": "C.UTF-8"} | environment,
    )
    os.close(theirs)
    if answers:
        os.write(ours, answers)
    found = b""
    while True:
        try:
            data = os.read(ours, 1 << 16)
        except OSError:
            break
        if not data:
            break
        found += data
    os.close(ours)
    return process.wait(timeout=30), found.decode().replace("\r\n", "\n")


def test_show_in_a_pipe_is_xml(cli: Cli, path: str) -> None:
    done = cli("config", "show", "-D", "DIR=d", path)
    assert (done.status, done.err) == (0, "")
    assert "    <Topic>\n      <Name>orders</Name>\n" in done.out
    assert "<SlabSize>8MB</SlabSize>" in done.out
    assert "<FileName>d/f</FileName>" in done.out
    assert "<RecoveryPoint>epoch</RecoveryPoint>" in done.out


def test_show_expanded_keeps_the_spelling(cli: Cli, path: str) -> None:
    done = cli("config", "show", "--expanded", "--origin", "-D", "DIR=d", path)
    assert f"<SlabSize>8mb</SlabSize> <!-- {path}:4 -->" in done.out
    assert f"<FileName>d/f</FileName> <!-- {path}:3 ${{DIR}} -->" in done.out
    assert "TopicDefinition" in done.out
    assert "RecoveryPoint" not in done.out


def test_show_as_json_and_as_a_table(cli: Cli, path: str) -> None:
    found = json.loads(cli("config", "show", "-D", "DIR=d", "-F", "json", path).out)
    assert found["SOW"][0]["SlabSize"] == 8 << 20
    table = cli("config", "show", "-D", "DIR=d", "-F", "table", "--origin", path).out.splitlines()
    assert table[0].split() == ["Name", "x", f"{path}:2"]
    assert any(line.split() == ["InitialSlabCount", "1", "default"] for line in table)


@pytest.mark.parametrize("columns", [120, 80, 40, 20])
def test_show_fits_a_terminal(path: str, columns: int) -> None:
    for words in ([], ["--origin"]):
        status, text = on_a_terminal(["config", "show", "-D", "DIR=d", *words, path], columns)
        assert status == 0
        assert max(map(len, text.splitlines())) <= columns
        assert "\x1b" not in text
        if columns >= 40:
            assert "orders" in text


def test_show_of_what_is_wrong(cli: Cli, path: str) -> None:
    done = cli("config", "show", path)
    assert (done.status, done.out) == (4, "")
    assert "SOW-CFG-009" in done.err
    assert cli("config", "show", "-D", "DIR", path).status == 2
    assert cli("config", "show", "nowhere.xml").status == 4


def test_show_of_control_characters_on_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<AMPSConfig><Name>a\u202eb\u009bc</Name></AMPSConfig>")
    for form in ("table", "xml", "json"):
        _, text = on_a_terminal(["config", "show", "-F", form, str(tmp_path / "a.xml")], 80)
        assert "\u202e" not in text
        assert "\u009b" not in text


def test_diff(cli: Cli, path: str, tmp_path: Path) -> None:
    other = tmp_path / "b.xml"
    other.write_text(CONFIG.replace("8mb", "8192k").replace("TopicDefinition", "Topic"))
    done = cli("config", "diff", "-D", "DIR=d", path, str(other))
    assert (done.status, done.out, done.err) == (0, "", "no differences\n")
    other.write_text(CONFIG.replace("8mb", "9MB"))
    done = cli("config", "diff", "-D", "DIR=d", path, str(other))
    assert (done.status, done.err) == (1, "1 difference\n")
    assert done.out == f"~ /SOW/Topic[orders json]/SlabSize: 8MB -> 9MB  ({path}:4, {other}:4)\n"
    found = json.loads(cli("config", "diff", "-D", "DIR=d", "-F", "json", path, str(other)).out)
    assert found == {
        "change": "changed",
        "path": "/SOW/Topic[orders json]/SlabSize",
        "before": "8MB",
        "after": "9MB",
        "before_origin": f"{path}:4",
        "after_origin": f"{other}:4",
    }
    assert cli("config", "diff", path, str(other)).status == 4


def test_diff_on_a_narrow_terminal(path: str, tmp_path: Path) -> None:
    other = tmp_path / "b.xml"
    other.write_text(CONFIG.replace("8mb", "9MB"))
    status, text = on_a_terminal(["config", "diff", "-D", "DIR=d", path, str(other)], 40)
    assert status == 1
    assert text.splitlines()[:2] == ["~ /SOW/Topic[orders json]/SlabSize", "    8MB -> 9MB"]


def test_schema(cli: Cli) -> None:
    assert "SlabSize" in cli("config", "schema").out
    assert json.loads(cli("config", "schema", "slabsize", "-F", "json").out)["default"] == "5MB"
    assert cli("config", "schema", "-F", "relaxng").out.startswith("<?xml")
    done = cli("config", "schema", "Granularty")
    assert (done.status, done.out) == (1, "")
    assert "did you mean Granularity?" in done.err


def test_init_makes_a_file_and_replaces_none(cli: Cli, tmp_path: Path) -> None:
    made = tmp_path / "shop" / "sowctl.xml"
    made.parent.mkdir()
    done = cli("config", "init", str(made), "--topic", "orders=/orderId", "--topic", "[xml].[a/b]", "--key", "/k")
    assert (done.status, done.out) == (0, "")
    text = made.read_text()
    assert "<Name>shop</Name>" in text
    assert cli("validate", str(made)).status == 0
    assert cli("lint", "--strict", str(made)).status == 0
    again = cli("config", "init", str(made), "--topic", "other")
    assert (again.status, made.read_text()) == (8, text)
    (tmp_path / "link.xml").symlink_to(tmp_path / "absent.xml")
    assert cli("config", "init", str(tmp_path / "link.xml"), "--topic", "a").status == 8


@pytest.mark.parametrize(
    ("options", "status", "keys"),
    [
        (("--topic", "a", "--key", "/x", "--topic", "b", "--key", "/y"), 2, None),
        (("--topic", "a", "--topic", "b", "--key", "/x"), 0, {"a": ["/x"], "b": ["/x"]}),
        (("--topic", "a", "--key", "/x", "--key", "/y"), 0, {"a": ["/x", "/y"]}),
        (("--topic", "a=/x", "--topic", "b", "--key", "/y", "--key", "/z"), 0, {"a": ["/x"], "b": ["/y", "/z"]}),
    ],
)
def test_init_gives_each_topic_its_keys(
    cli: Cli, tmp_path: Path, options: tuple[str, ...], status: int, keys: dict[str, list[str]] | None
) -> None:
    made = tmp_path / "made.xml"
    done = cli("config", "init", str(made), *options)
    assert done.status == status, done.err
    if keys is None:
        assert "SOW-CFG-065" in done.err and "a=/x" in done.err and "b=/y" in done.err and not made.exists()
        return
    for name, paths in keys.items():
        assert f"{name} with key {', '.join(paths)}" in done.err
    rows = [json.loads(line) for line in cli("info", "-c", str(made)).out.splitlines()]
    assert {row["topic"]: row["keys"] for row in rows} == keys


def test_init_without_topics_and_without_a_person(cli: Cli, tmp_path: Path) -> None:
    done = cli("config", "init", str(tmp_path / "a.xml"))
    assert (done.status, done.out) == (2, "")
    assert not (tmp_path / "a.xml").exists()


def test_init_asks_on_a_terminal(tmp_path: Path) -> None:
    made = tmp_path / "a.xml"
    answers = b"desk\n\norders\njson\norderId\norders\n\n/orderId\nblobs\nbinary\n\n\n-\n"
    status, text = on_a_terminal(["config", "init", str(made)], 80, answers)
    assert status == 0, text
    assert text.count("'orderId'") == 1 and "/orderId" in text.partition("'orderId'")[2]
    written = made.read_text()
    assert "<Name>desk</Name>" in written
    assert "<Key>/orderId</Key>" in written
    assert "<MessageType>binary</MessageType>" in written
    assert "TransactionLog" not in written


def test_init_whose_questions_are_not_answered(tmp_path: Path) -> None:
    status, text = on_a_terminal(["config", "init", str(tmp_path / "a.xml")], 80, b"desk\n\x04")
    assert status == 2
    assert "SOW-CLI-036" in text
    assert not (tmp_path / "a.xml").exists()
