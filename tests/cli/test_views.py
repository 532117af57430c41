"""``view list``, ``show``, ``refresh`` and ``check``, and views as targets of other commands, in typical use."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli

CONFIG = """\
<AMPSConfig><Name>test</Name><SOW>
  <Topic><Name>orders</Name><MessageType>json</MessageType><Key>/id</Key><FileName>sow/%n.sow</FileName></Topic>
  <View><Name>totals</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic>
    <Projection><Field>/client</Field><Field>SUM(/qty) AS /total</Field></Projection>
    <Grouping><Field>/client</Field></Grouping><Filter>/qty &gt; 0</Filter></View>
  <View><Name>over</Name><MessageType>nvfix</MessageType><UnderlyingTopic>[json].[totals]</UnderlyingTopic>
    <Projection><Field>MAX([json].[totals]./total) AS /most</Field></Projection>
    <Grouping><Field>[json].[totals]./none</Field></Grouping></View>
</SOW></AMPSConfig>
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sowctl.xml").write_text(CONFIG)
    publish(cli, '{"id":1,"client":"a","qty":5}', '{"id":2,"client":"b","qty":7}')
    return tmp_path


def publish(cli: Cli, *messages: str) -> None:
    assert cli("publish", "orders", stdin="\n".join(messages).encode()).status == 0


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_list_says_what_the_next_reader_does_and_does_nothing_itself(place: Path, cli: Cli) -> None:
    listed = rows(cli("view", "list").out)
    assert [(row["view"], row["next"], row["lag"]) for row in listed] == [
        ("totals", "compute", None),
        ("over", "compute", None),
    ]
    assert not list(place.glob("sow/*-views"))
    assert [row["way"] for row in rows(cli("view", "refresh").out)] == ["computed", "computed"]
    assert [row["next"] for row in rows(cli("view", "list").out)] == ["use", "use"]
    publish(cli, '{"id":1,"client":"b","qty":5}', '{"id":3,"client":"c","qty":1}')
    listed = rows(cli("view", "list").out)
    assert [(row["next"], row["lag"], row["records"]) for row in listed] == [("catch up", 2, 2), ("catch up", None, 1)]
    assert "totals" in listed[1]["why"]
    assert [row["way"] for row in rows(cli("view", "refresh").out)] == ["caught up", "caught up"]
    assert [row["way"] for row in rows(cli("view", "refresh").out)] == ["used", "used"]
    assert [row["way"] for row in rows(cli("view", "refresh", "over", "--fresh").out)] == ["computed"]


def test_info_and_doctor_show_the_lag(place: Path, cli: Cli) -> None:
    def told(name: str) -> tuple[str, int, int]:
        (row,) = rows(cli("info", name).out)
        return row["state"], row["records"], row["lag"]

    assert told("totals") == ("no cache", 0, 0)
    cli("query", "over")
    assert (told("totals"), told("over")) == (("current", 2, 0), ("current", 1, 0))
    publish(cli, '{"id":3,"client":"c","qty":1}')
    assert told("totals") == ("behind", 2, 1)
    assert "view totals" in cli("doctor").out
    assert "1 changed record behind" in cli("doctor").out
    assert [row["kind"] for row in rows(cli("info").out)] == ["Topic", "View", "View"]


def test_show_prints_definition_and_cache(place: Path, cli: Cli) -> None:
    text = cli("view", "show", "totals").out
    assert "next        compute: " in text
    assert "  filter      /qty > 0\n  field       /client\n" in text
    cli("query", "totals")
    publish(cli, '{"id":2,"client":"b","qty":8}')
    cli("query", "totals")
    text = cli("view", "show", "totals").out
    assert "cache       2 messages, " in text
    assert re.search(r"\n +caught up +\D*\b1 changed record, 2 groups computed", text)
    shown = json.loads(cli("view", "show", "totals", "--format", "json").out)
    assert (shown["definition"]["grouping"], shown["changes"], shown["groups"]) == (["/client"], 1, 2)
    assert shown["column_bytes"] is None


def test_check_compares_with_the_sources(place: Path, cli: Cli) -> None:
    from sowctl.store.env import Store

    done = cli("view", "check")
    assert done.status == 0
    assert [(row["view"], row["state"], row["records"]) for row in rows(done.out)] == [
        ("totals", "sound", 2),
        ("over", "sound", 1),
    ]
    with Store.open(place / "sow/orders.json.sow-views/totals.json.sow", write=True) as store:
        store.write(lambda txn: txn.delete_records([next(txn.scan_records())[0][0]]))
    done = cli("view", "check", "totals")
    assert done.status == 1
    (row,) = rows(done.out)
    assert (row["state"], row["missing"], row["surplus"], row["different"]) == ("differs", 1, 0, 0)
    cli("view", "refresh", "totals", "--fresh")
    assert cli("view", "check").status == 0


def test_a_view_is_a_target_of_what_reads(place: Path, cli: Cli) -> None:
    assert cli("query", "totals", "/total > 5", "--count").out == "1\n"
    assert cli("get", "totals", "a").out == '{"client":"a","total":5}\n'
    assert cli("get", "totals", "a,b").status == 1
    assert cli("query", "totals", "-o", "/total DESC", "-n", "1").out == '{"client":"b","total":7}\n'
    assert cli("query", "totals", "--select", "-/,+/total", "-o", "/total").out == '{"total":5}\n{"total":7}\n'
    assert cli("query", "totals", "--projection", "SUM(/total) AS /all", "--grouping", "").out == '{"all":12}\n'
    assert cli("query", "[nvfix].[over]", "--format", "raw").out == "most=7\1\n"
    digest = cli("hash", "totals").out.split()[0]
    assert cli("snapshot", "totals", "--at", "2100-01-01T00:00:00Z", "--output", "copy.sow").status == 0
    assert cli("hash", "copy.sow", "--expect", digest).status == 0
    assert cli("query", "copy.sow", "-o", "/client").out == cli("query", "totals", "-o", "/client").out
    assert "scan, 2 of 2 records" in cli("query", "totals", "--explain").out


WRITES = (
    ("publish", "totals"),
    ("delete", "totals", "--yes", "--filter", "1=1"),
    ("expire", "totals"),
    ("replay", "totals"),
)


@pytest.mark.parametrize("words", WRITES, ids=lambda words: words[0])
def test_what_writes_refuses_a_view(place: Path, cli: Cli, words: tuple[str, ...]) -> None:
    done = cli(*words, stdin=b'{"client":"a"}\n')
    assert done.status == 2
    assert "SOW-ENG-031" in done.err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("check", "totals"), "sowctl view check totals "),
        (("replay", "totals"), "sowctl view refresh totals --fresh"),
        (("store", "reindex", "totals"), "sowctl view refresh totals --fresh"),
        (("expire", "totals"), "expire these"),
        (("key", "totals"), "sowctl query totals --meta"),
        (("publish", "totals"), "source topics"),
    ],
)
def test_a_hint_says_what_may_have_been_wanted(place: Path, cli: Cli, words: tuple[str, ...], hint: str) -> None:
    done = cli(*words, stdin=b'{"client":"a"}\n')
    assert (done.status, "SOW-ENG-031" in done.err, hint in done.err) == (2, True, True)


def test_info_says_what_the_cache_has(place: Path, cli: Cli) -> None:
    assert cli("query", "totals").status == 0
    (row,) = rows(cli("info", "totals").out)
    assert (row["keys"], row["records"], row["payload_bytes"]) == (["/client"], 2, len('{"client":"a","total":5}') * 2)
    assert cli("hash", "totals").out.split()[0] == row["digest"]


def test_a_view_is_shown_by_its_message_type(place: Path, cli: Cli) -> None:
    assert cli("view", "show", "over", "--message-type", "nvfix").status == 0
    assert cli("view", "show", "over", "--message-type", "json").status == 10


def test_a_name_that_is_no_view(place: Path, cli: Cli) -> None:
    for words in (("view", "show", "orders"), ("view", "refresh", "orders"), ("view", "list", "orders")):
        done = cli(*words)
        assert (done.status, "SOW-VIW-010" in done.err) == (2, True)
    assert cli("view", "show", "nothing").status == 10


def test_a_view_over_what_is_derived_can_be_looked_at(place: Path, cli: Cli) -> None:
    log = (
        "<TransactionLog><JournalDirectory>journal</JournalDirectory>"
        "<Topic><Name>orders</Name><MessageType>json</MessageType></Topic></TransactionLog></AMPSConfig>"
    )
    derived = (
        "<ConflatedTopic><Name>slow</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic>"
        "<Interval>100ms</Interval></ConflatedTopic>"
        "<Queue><Name>work</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic></Queue>"
    )
    for name, underlying, front in (
        ("of-slow", "slow", ""),
        ("of-work", "work", ""),
        ("both", "<Join>[slow]./id = [work]./id</Join>", "[work]."),
    ):
        derived += (
            f"<View><Name>{name}</Name><MessageType>json</MessageType><UnderlyingTopic>{underlying}</UnderlyingTopic>"
            f"<Projection><Field>COUNT({front}/id) AS /n</Field></Projection>"
            f"<Grouping><Field>{front}/client</Field></Grouping></View>"
        )
    text = CONFIG.replace("</SOW>", derived + "</SOW>").replace("</AMPSConfig>", log)
    (place / "sowctl.xml").write_text(text)
    for path in place.glob("sow/*"):
        path.unlink()
    publish(cli, '{"id":1,"client":"a","qty":5}', '{"id":2,"client":"a","qty":7}')
    states = []
    for _ in range(2):
        time.sleep(0.15)
        listed = cli("view", "list", "of-slow", "of-work", "both")
        assert (listed.status, cli("info").status, cli("doctor").status) == (0, 0, 0)
        states.append([row["next"] for row in rows(listed.out)])
        assert [cli("query", name).out for name in ("of-slow", "of-work", "both")] == ['{"n":2}\n'] * 3
    assert states == [["compute", "compute", "compute"], ["use", "compute", "use"]]


@pytest.mark.parametrize(("name", "kind"), [("totals", "json"), ("over", "nvfix"), ("orders", "json")])
def test_a_name_of_another_type_is_told_by_the_type_that_it_has(place: Path, cli: Cli, name: str, kind: str) -> None:
    ran = cli("query", name, "--message-type", "fix")
    assert ran.status == 10
    assert f"'{name}' of type fix" in ran.err
    assert f" of type {kind}\n" in ran.err.partition("hint: ")[2]
