"""``config add`` on the command line: files written, output, and refusals."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sowctl.cli.main import main
from sowctl.seam import Seam
from tests.cli.conftest import Cli

TOPICS = ("--topic", "orders=/orderId", "--topic", "customers:/region,/id")


@pytest.fixture
def made(cli: Cli) -> Cli:
    """A directory with a configuration of two topics."""
    assert cli("config", "init", *TOPICS).status == 0
    return cli


def test_init_says_which_topic_has_which_key(cli: Cli) -> None:
    done = cli("config", "init", "a.xml", *TOPICS, "--json")
    keys = {topic["topic"]: topic["keys"] for topic in json.loads(done.out)["topics"]}
    assert keys == {"orders": ["/orderId"], "customers": ["/region", "/id"]}
    assert "orders with key /orderId; customers with key /region, /id" in done.err
    wrong = cli("config", "init", "b.xml", "--topic", "a=b", "--key", "/x", "--topic", "prices", "--key", "/symbol")
    assert (wrong.status, Path("b.xml").exists()) == (2, False)
    assert "SOW-CFG-065" in wrong.err
    unused = cli("config", "init", "b.xml", "--topic", "a=/x", "--key", "/y")
    assert (unused.status, Path("b.xml").exists()) == (2, False)
    assert "SOW-CFG-065" in unused.err


@pytest.mark.parametrize(
    "words",
    [
        ("topic", "fills=/orderId,/fillId", "--expiration", "10m", "--index", "/venue"),
        ("topic", "[xml].[trades]:/trade/@id", "--history", "7d", "--granularity", "1m"),
        ("topic", "a.b/c", "--key", "/id", "--no-journal", "--history", "2w"),
        ("view", "sums", "--source", "orders", "--grouping", "/symbol", "--projection", "/symbol, SUM(/qty) AS /qty"),
        ("view", "new", "--source", "orders", "--filter", "/s < 'x'", "--grouping", "/orderId", "--projection", "/s"),
        ("queue", "work"),
        ("queue", "big", "--source", "orders", "--filter", "/qty > 5", "--lease-period", "1m", "--max-deliveries", "5"),
        ("queue", "one", "--source", "orders", "--max-per-subscription", "1", "--priority", "/p", "--expiration", "1h"),
        ("queue", "once", "--at-most-once", "--source", "orders"),
        ("expiration", "orders", "10m"),
        ("history", "customers", "30d", "--granularity", "1m"),
    ],
)
def test_results_validate_and_lint_clean(words: tuple[str, ...], made: Cli) -> None:
    before = Path("sowctl.xml").read_text()
    dry = made("config", "add", *words, "--dry-run")
    assert (dry.status, Path("sowctl.xml").read_text()) == (0, before)
    done = made("config", "add", *words)
    assert (done.status, done.out) == (0, dry.out), done.err
    assert "warning" not in done.err
    after = Path("sowctl.xml").read_text()
    assert made("validate").status == 0
    assert made("lint", "--strict").out == ""
    # The printed elements are those of the file, which has lost nothing.
    lines = iter(after.splitlines())
    assert all(any(line == other for other in lines) for line in before.splitlines())
    printed = [line.strip() for line in done.out.splitlines() if not line.startswith("<!-- line ")]
    fresh = [line.strip() for line in after.splitlines() if line not in before.splitlines()]
    assert set(fresh) <= set(printed)
    assert [path.name for path in Path().iterdir()] == ["sowctl.xml"]


def test_what_is_added_works(made: Cli) -> None:
    for words in (
        ("topic", "fills:/id", "--expiration", "10m"),
        ("view", "sums", "--source", "fills", "--grouping", "/s", "--projection", "/s, SUM(/n) AS /n"),
        ("queue", "work", "--source", "fills", "--filter", "/n > 1"),
    ):
        assert made("config", "add", *words).status == 0
    assert made("publish", "fills", stdin=b'{"id":1,"s":"a","n":1}\n{"id":2,"s":"a","n":2}\n').status == 0
    assert json.loads(made("query", "sums", "--json").out) == [{"s": "a", "n": 3}]
    assert made("queue", "depth", "work").out.strip() == "1"
    assert made("query", "fills", "--count", "--now", "+11m").out.strip() == "0"


def test_the_document_has_the_places(made: Cli) -> None:
    row = json.loads(made("config", "add", "topic", "fills=/id", "--json").out)
    lines = Path("sowctl.xml").read_text().splitlines()
    assert (row["path"], row["written"]) == ("sowctl.xml", True)
    assert [one["section"] for one in row["new_elements"]] == ["SOW", "TransactionLog"]
    assert all(lines[one["line"] - 1].strip() == "<Topic>" for one in row["new_elements"])
    again = made("config", "add", "topic", "more=/id", "--json", "--dry-run")
    assert json.loads(again.out)["written"] is False


@pytest.mark.parametrize(
    ("words", "code", "status"),
    [
        (("topic", "orders=/id"), "SOW-CFG-067", 2),
        (("topic", "t=/id", "--history", "1d", "--expiration", "1d"), "SOW-CFG-067", 2),
        (("topic", "t=/id", "--granularity", "1m"), "SOW-CFG-069", 2),
        (("topic", "t=/id", "--key", "/id"), "SOW-CLI-012", 2),
        (("topic", "t=/id", "--transient", "--file-name", "x"), "SOW-CLI-012", 2),
        (("topic", "t=/id", "--message-type", "jsn"), "SOW-CFG-067", 2),
        (("topic", "t=/id", "--expiration", "soon"), "SOW-CFG-067", 2),
        (("view", "v", "--source", "orders", "--projection", "/a"), "SOW-CFG-069", 2),
        (("view", "v", "--projection", "/a", "--grouping", "/a"), "SOW-CFG-069", 2),
        (("view", "v", "--source", "none", "--projection", "/a", "--grouping", "/a"), "SOW-CFG-067", 2),
        (("queue", "q", "--source", "^ord"), "SOW-CFG-067", 2),
        (("queue", "q", "--source", "orders", "--filter", "/a >"), "SOW-CFG-067", 2),
        (("expiration", "none", "1d"), "SOW-ENG-012", 10),
        (("history", "orders", "often"), "SOW-CFG-067", 2),
        ((), "SOW-CLI-002", 2),
        (("topics",), "SOW-CLI-001", 2),
    ],
)
def test_what_is_refused_changes_nothing(words: tuple[str, ...], code: str, status: int, made: Cli) -> None:
    before = Path("sowctl.xml").read_bytes()
    done = made("config", "add", *words)
    assert (done.status, f"error[{code}]" in done.err) == (status, True), done.err
    assert Path("sowctl.xml").read_bytes() == before


def test_without_a_transaction_log(cli: Cli) -> None:
    assert cli("config", "init", *TOPICS, "--no-journal").status == 0
    assert "SOW-CFG-067" in cli("config", "add", "queue", "work", "--source", "orders").err
    assert cli("config", "add", "topic", "fills=/id").status == 0
    assert "TransactionLog" not in Path("sowctl.xml").read_text()


def test_a_link_stays_and_leads_to_the_new_file(made: Cli) -> None:
    Path("real").mkdir()
    Path("sowctl.xml").rename("real/shop.xml")
    Path("link.xml").symlink_to("real/shop.xml")
    old = Path("real/shop.xml").stat()
    assert made("-c", "link.xml", "config", "add", "topic", "fills=/id").status == 0
    new = Path("real/shop.xml").stat()
    # Replaced as a whole, with the permissions of the old one.
    assert Path("link.xml").is_symlink() and old.st_ino != new.st_ino and old.st_mode == new.st_mode
    assert "fills" in Path("real/shop.xml").read_text()


def test_a_file_that_another_program_changes_meanwhile_stays(made: Cli) -> None:
    class Editor(Seam):
        """Saves the file while the new one is being written."""

        def call(self, point: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            if point == "file.open":
                path.write_bytes(path.read_bytes() + b"<!-- edited -->")
            return function(*args, **kwargs)

    path, err = Path("sowctl.xml"), io.BytesIO()
    argv = ["config", "add", "topic", "fills=/id"]
    status = main(argv, environ={}, stdin=io.BytesIO(), stdout=io.BytesIO(), stderr=err, seam=Editor())
    assert (status, b"SOW-CFG-070" in err.getvalue()) == (8, True)
    assert path.read_text().endswith("<!-- edited -->") and "fills" not in path.read_text()
    assert [one.name for one in Path().iterdir()] == ["sowctl.xml"]


def test_commands_of_three_words(cli: Cli) -> None:
    helped = cli("config", "add", "--help")
    assert (helped.status, {"topic", "view", "queue", "expiration", "history"} <= set(helped.out.split())) == (0, True)
    assert "add" in cli("config", "--help").out.split()
    assert "topic" in cli("completion", "fish", "--", "config", "add", "t").out
    assert "--expiration" in cli("completion", "fish", "--", "config", "add", "topic", "--exp").out
    assert "config add view" in cli("view", "create").err
    assert cli("help", "config", "add", "view").out == cli("config", "add", "view", "--help").out
    assert "config-add-topic" in cli("man", "config", "add", "topic").out.lower().replace("\N{HYPHEN}", "-")


def test_as_a_process(made: Cli) -> None:
    command = [sys.executable, "-m", "sowctl", "config", "add", "topic"]
    for words, status in ((["fills=/id"], 0), (["fills=/id"], 2), (["x=/id", "-c", "none.xml"], 4)):
        assert subprocess.run([*command, *words], capture_output=True).returncode == status
