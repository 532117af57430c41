"""The past on the command line: history, and --at, --until with times, bookmarks and txids (behaviour 3.6)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sowctl.identity.hashes import hash_client_name
from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml

PAST = "<History><Window>1h</Window><Granularity>0s</Granularity></History>"
XML = config_xml(topic_xml("h", PAST) + topic_xml("t") + topic_xml("alone"), ("h", "t"))
ME = hash_client_name("me")


def now(minute: int) -> dict[str, str]:
    return {"SOWCTL_NOW": f"2026-01-05T12:{minute:02}:00Z"}


@pytest.fixture
def shop(cli: Cli) -> Cli:
    """Values a, b, c of record 1 at 12:00, 12:10, 12:20, in three topics; a publisher counts 1, 2, 3 in two."""
    Path("sowctl.xml").write_text(XML)
    for number, value in enumerate("abc"):
        for topic in ("h", "t", "alone"):
            line = b'{"id":1,"v":"%s","n":%d}\n' % (value.encode(), number)
            words = ["--client", f"me-{topic}" if topic != "t" else "me", "--sequence", str(number + 1)]
            done = cli("publish", topic, *words, stdin=line, environ=now(10 * number))
            assert done.status == 0, done.err
    return cli


def value_at(shop: Cli, topic: str, at: str, minute: int = 30) -> str:
    done = shop("query", topic, "--at", at, environ=now(minute))
    assert done.status == 0, done.err
    return "".join(json.loads(line)["v"] for line in done.out.splitlines())


FORMS = {
    "2026-01-05T12:15:00Z": "b",
    "20260105T121500Z": "b",
    "20260105T121959.999999": "b",
    "20260105T122000.000000Z": "c",
    "-15m": "b",
    "-11m": "b",
    "EPOCH": "",
    "0": "",
    "NOW": "c",
    "0|1|": "c",
    "0|1": "c",
    f"{ME}|1|": "a",
    f"{ME}|2": "b",
    f"{ME}|3|": "c",
    "1": "a",
    "4": "b",
    "5": "c",
    "6": "c",
}


IN_THE_SECOND_TOPIC = {"1": "", "5": "b"}
"""Entries of the second topic follow those of the first one at the same time: a txid separates them."""


@pytest.mark.parametrize(("text", "value"), FORMS.items())
@pytest.mark.parametrize("topic", ["h", "t"])
def test_every_form_of_a_moment(shop: Cli, topic: str, text: str, value: str) -> None:
    value = IN_THE_SECOND_TOPIC.get(text, value) if topic == "t" else value
    assert value_at(shop, topic, text) == value
    for words in (["get", topic, "1"], ["snapshot", topic]):
        done = shop(*words, "--at", text, environ=now(30))
        assert "".join(json.loads(line)["v"] for line in done.out.splitlines()) == value, (words, done.err)
    done = shop("snapshot", topic, "--at", text, "--output", "then.sow", "--force", environ=now(30))
    assert done.status == 0, done.err
    out = shop("query", "./then.sow").out
    assert "".join(json.loads(line)["v"] for line in out.splitlines()) == value


def test_epoch_is_the_oldest_state_in_the_window(shop: Cli) -> None:  # behaviour 3.6, C78
    late = {"SOWCTL_NOW": "2026-01-05T13:12:00Z"}
    for text in ("0", "EPOCH"):
        out = shop("query", "h", "--at", text, environ=late).out
        assert json.loads(out)["v"] == "b"
    assert shop("query", "h", "--at", "2026-01-05T12:11:00Z", environ=late).out == ""


def test_the_present_is_told_from_the_clocks_instant(shop: Cli) -> None:
    """0|1| is the current state, also if the clock is before it."""
    assert value_at(shop, "h", "0|1|", 5) == "c"
    assert value_at(shop, "h", "NOW", 5) == "a"


def test_moments_that_do_not_exist(shop: Cli) -> None:
    for text, status, code in (
        (f"{ME}|9|", 10, "SOW-ENG-070"),
        ("1767614400", 10, "SOW-ENG-070"),
        ("x|y|", 2, "SOW-IDN-001"),
        ("someday", 2, "SOW-VAL-010"),
        ("9" * 5000, 2, "SOW-VAL-010"),
    ):
        for words in (["query", "h"], ["get", "h", "1"], ["snapshot", "h"], ["hash", "h"]):
            done = shop(*words, "--at", text, environ=now(30))
            assert (done.status, code in done.err) == (status, True), done.err


def test_a_topic_that_no_journal_records_knows_the_present_only(shop: Cli) -> None:  # C81, section 11, 34
    assert value_at(shop, "alone", "-5m") == "c"
    done = shop("query", "alone", "--at", "-15m", environ=now(30))
    assert (done.status, "SOW-ENG-050" in done.err, "2026-01-05T12:20:00" in done.err) == (10, True, True)


def test_groups_pages_and_orders_of_the_past(shop: Cli) -> None:
    for topic in ("h", "t"):
        shop("publish", topic, stdin=b'{"id":2,"n":5}\n{"id":3,"n":7}\n{"id":4,"n":7}\n', environ=now(21))
        shop("publish", topic, stdin=b'{"id":2,"n":50}\n{"id":3,"n":70}\n', environ=now(25))
        asked = ["query", topic, "--at", "20260105T122200Z"]
        grouped = shop(*asked, "--projection", "/n AS /n, COUNT(/id) AS /c", "--grouping", "/n", environ=now(30)).out
        rows = {row["n"]: row["c"] for row in map(json.loads, grouped.splitlines())}
        assert rows == {2: 1, 5: 1, 7: 2}
        paged = shop(*asked, "--order-by", "/n DESC, /id", "--top-n", "2", "--skip-n", "1", environ=now(30)).out
        assert [json.loads(line)["id"] for line in paged.splitlines()] == [4, 2]
        assert shop(*asked, "/n > 5", "--count", environ=now(30)).out == "2\n"
        bookmark = shop(*asked[:2], "--at", "0|1|", "/n > 5", "--count", environ=now(30)).out
        assert bookmark == "3\n"


def test_replay_and_dump_take_bookmarks(shop: Cli) -> None:
    done = shop("replay", "t", "--until", f"{ME}|2|", "--into", "then", environ=now(30))
    assert done.status == 0, done.err
    assert json.loads(shop("query", "./then/t.json.sow").out)["v"] == "b"
    dumped = shop("journal", "dump", "--from", f"{ME}|2|", "--to", f"{ME}|3|", environ=now(30)).out
    assert [json.loads(line)["txid"] for line in dumped.splitlines()] == [4, 5, 6]
    assert shop("replay", "t", "--until", f"{ME}|8|", "--into", "then", environ=now(30)).status == 10


def test_history(shop: Cli) -> None:
    done = shop("history", "h", "1", environ=now(30))
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [list(row) for row in rows[:1]] == [
        ["sow_key", "timestamp", "until", "txid", "client", "operation", "lossy", "data"]
    ]
    assert [(row["data"]["v"], row["timestamp"][11:16], row.get("until", "T-----")[11:16]) for row in rows] == [
        ("a", "12:00", "12:10"),
        ("b", "12:10", "12:20"),
        ("c", "12:20", ""),
    ]
    whole = [json.loads(line) for line in shop("history", "t", "1", "--journal", "--meta").out.splitlines()]
    assert [row["bookmark"] for row in whole] == [f"{ME}|{number}|" for number in (1, 2, 3)]
    assert (whole[0]["topic"], whole[0]["client"]) == ("t", "me")


def test_history_in_other_formats(shop: Cli) -> None:
    shop("delete", "h", "--filter", "1=1", "--yes", environ=now(25))
    table = shop("history", "h", "1", "--format", "table", environ=now(30)).out.splitlines()
    assert table[0].split() == ["sow_key", "timestamp", "until", "txid", "client", "operation", "lossy", "id", "v", "n"]
    assert len(table) == 5
    chosen = shop("history", "h", "1", "--columns", "/v,operation,bookmark", "--format", "csv", environ=now(30)).out
    assert chosen.splitlines()[1:] == ["a,publish,", "b,publish,", "c,publish,", ",delete,"]
    text = shop("history", "h", "1", "--template", "{operation} {lossy} {/v}", environ=now(30)).out
    assert text.splitlines() == ["publish false a", "publish false b", "publish false c", "delete false "]
    last = json.loads(shop("history", "h", "1", environ=now(30)).out.splitlines()[-1])
    assert "data" not in last


def test_history_of_what_is_not_there(shop: Cli) -> None:
    done = shop("history", "h", "5", "1", environ=now(30))
    assert (done.status, len(done.out.splitlines()), "key 5" in done.err) == (1, 3, True)
    assert shop("history", "t", "1").status == 2
    assert shop("history", "alone", "1", "--journal").status == 10
    assert shop("history", "nothing", "1").status == 10


def test_a_time_that_has_not_come_is_noted(shop: Cli) -> None:
    for words in (("query", "h"), ("get", "h", "1"), ("snapshot", "h"), ("hash", "h")):
        said = shop(*words, "--at", "2100-01-01T00:00:00Z", environ=now(30))
        assert said.status == 0 and "2100-01-01T00:00:00.000000Z" in said.err, words
        assert shop(*words, "--at", "2100-01-01T00:00:00Z", "--quiet", environ=now(30)).err == ""
    assert "2100" in shop("diff", "h@2100-01-01T00:00:00Z", "h", environ=now(30)).err
    assert shop("query", "h", "--at", "now", environ=now(30)).err == ""
