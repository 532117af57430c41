"""``sowctl bookmark``: from the command line, with a store in a file and in a topic of this or another instance."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli, Result
from tests.support.instances import config_xml, topic_xml

KEYS = "<Key>/clientName</Key><Key>/subId</Key>"
STORE = f"<Topic><Name>marks</Name><MessageType>json</MessageType>{KEYS}<FileName>sow/marks.sow</FileName></Topic>"
NOW = ("--now", "2026-01-05T10:00:00Z")


@pytest.fixture
def shop(cli: Cli) -> Cli:
    """An instance with five entries of one client, and a topic for places."""
    Path("sowctl.xml").write_text(config_xml(topic_xml("t") + STORE, ("t",)))
    Path("other").mkdir()
    Path("other/sowctl.xml").write_text(config_xml(STORE, (), name="other"))
    lines = "".join(f'{{"id":{number}}}\n' for number in range(5))
    result = cli("publish", "t", "--client", "p", "--sequence", "1", "--batch", "1", *NOW, stdin=lines.encode())
    assert result.status == 0, result.err
    return cli


def rows(result: Result) -> list[dict[str, Any]]:
    assert result.status in (0, 1), result.err
    return [json.loads(line) for line in result.out.splitlines()]


@pytest.mark.parametrize("store", [("a.bookmarks",), ("marks",), ("marks", "--store-config", "other/sowctl.xml")])
def test_a_place_from_set_to_purge(shop: Cli, store: tuple[str, ...]) -> None:
    who = ("--client", "c", "--sub-id", "1")
    assert shop("bookmark", "get", *store, *who).out == "0\n"
    assert shop("bookmark", "list", *store).out == ""
    assert shop("bookmark", "set", store[0], "2", *store[1:], *who, *NOW).out == "2\n"
    assert shop("bookmark", "get", *store, *who).out == "2\n"
    assert rows(shop("bookmark", "list", *store, "--now", "2026-01-05T10:00:30Z")) == [
        {
            "client": "c",
            "sub_id": "1",
            "bookmark": "2",
            "stored": "2026-01-05T10:00:00.000000Z",
            "publisher": None,
            "txid": 2,
            "logged": "2026-01-05T10:00:00.000000Z",
            "entries": 3,
            "bytes": 24,
            "seconds": 30.0,
        }
    ]
    (row,) = rows(shop("bookmark", "rewind", *store, "--to", "0", *NOW))
    assert row["bookmark"] == "0"
    assert len(rows(shop("bookmark", "purge", *store, "--client", "c", "--dry-run"))) == 1
    assert shop("bookmark", "purge", *store, "--client", "c").status == 8
    assert shop("bookmark", "purge", *store, "--client", "c", tty="in err", stdin=b"no\n").status == 8
    assert len(rows(shop("bookmark", "purge", *store, "--all", "--yes"))) == 1
    assert rows(shop("bookmark", "list", *store)) == []


def test_check_says_what_a_subscription_would_do(shop: Cli) -> None:
    for number, place in enumerate(("2", "0|1|", "7|7|", "7|7|,3")):
        shop("bookmark", "set", "a.bookmarks", place, "--client", "c", "--sub-id", str(number), "--force")
    result = shop("bookmark", "check", "a.bookmarks")
    assert result.status == 1
    found = {row["sub_id"]: (row["state"], row["txid"], row["problem"]) for row in rows(result)}
    lost = found.pop("2")
    assert lost[:2] == ("lost", None)
    assert lost[2].startswith("SOW-ENG-070 ") and "7|7|" in lost[2]
    partly = found.pop("3")
    assert partly[:2] == ("partly", 3) and partly[2].endswith(": 7|7|")
    assert found == {"0": ("ready", 2, None), "1": ("ready", 5, None)}
    assert shop("bookmark", "check", "a.bookmarks", "--sub-id", "0").status == 0


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        ("bookmark list none", 10, "SOW-BKM-001"),
        ("bookmark list t", 2, "SOW-BKM-005"),
        ("bookmark get a.bookmarks --client c --sub-id=", 2, "SOW-BKM-006"),
        ("bookmark get a.bookmarks --client c", 2, "SOW-CLI"),
        ("bookmark set a.bookmarks 99 --client c --sub-id 1", 10, "SOW-ENG-070"),
        ("bookmark set a.bookmarks x --client c --sub-id 1", 2, "SOW-IDN-001"),
        ("bookmark set a.bookmarks [1:2 --client c --sub-id 1", 2, "SOW-IDN-002"),
        ("bookmark purge a.bookmarks --yes", 2, "SOW-CLI-032"),
        ("bookmark purge a.bookmarks --yes --all --client c", 2, "SOW-CLI-032"),
    ],
)
def test_refusals(shop: Cli, words: str, status: int, code: str) -> None:
    result = shop(*words.split())
    assert (result.status, code in result.err) == (status, True), result.err
    assert not Path("a.bookmarks").exists()


def test_the_places_of_several_stores_are_apart(shop: Cli) -> None:
    places: Callable[[str], Result] = lambda store: shop("bookmark", "get", store, "--client", "c", "--sub-id", "1")  # noqa: E731
    shop("bookmark", "set", "a.bookmarks", "1", "--client", "c", "--sub-id", "1")
    shop("bookmark", "set", "marks", "2", "--client", "c", "--sub-id", "1")
    assert [places("a.bookmarks").out, places("marks").out, places("b.bookmarks").out] == ["1\n", "2\n", "0\n"]


def test_a_lag_of_one_topic(shop: Cli) -> None:
    who = ("--client", "c", "--sub-id", "1")
    shop("bookmark", "set", "a.bookmarks", "0", *who)
    every = rows(shop("bookmark", "list", "a.bookmarks"))[0]["entries"]
    assert rows(shop("bookmark", "list", "a.bookmarks", "--topic", "t"))[0]["entries"] == every
    assert rows(shop("bookmark", "list", "a.bookmarks", "--topic", "marks"))[0]["entries"] == 0
    assert shop("bookmark", "list", "a.bookmarks", "--topic", "none").status == 10
