"""``export --changes``: a file of changes in each format, and the position stored in a bookmark store."""

from __future__ import annotations

import csv
import json
import sqlite3
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml

PLACE = ("--store", "etl.bookmarks", "--client", "etl", "--commit")


@pytest.fixture
def shop(cli: Cli) -> Cli:
    Path("sowctl.xml").write_text(config_xml(topic_xml("t") + topic_xml("u"), ("t", "u")))
    cli("publish", "t", stdin=b'{"id":1,"a":"x"}\n{"id":2,"a":"y"}\n')
    cli("publish", "t", stdin=b'{"id":1,"a":"z"}\n')
    cli("delete", "t", "/id = 2", "--yes")
    return cli


EXPECTED = [
    ("insert", None, 1, "x"),
    ("insert", None, 2, "y"),
    ("update_preimage", None, 1, "x"),
    ("update_postimage", None, 1, "z"),
    ("delete", "deleted", 2, "y"),
]


def test_each_format_has_the_rows_in_the_order_of_the_journal(shop: Cli) -> None:
    import pyarrow.parquet

    for name in ("c.ndjson", "c.parquet", "c.sqlite", "c.csv"):
        assert shop("export", "t", name, "--changes").status == 0
    lines = [json.loads(line) for line in Path("c.ndjson").read_text().splitlines()]
    assert [(r["change_type"], r.get("reason"), r["data"]["id"], r["data"]["a"]) for r in lines] == EXPECTED
    table = pyarrow.parquet.read_table("c.parquet").to_pylist()
    assert [(row["_change_type"], row["_reason"], row["id"], row["a"]) for row in table] == EXPECTED
    assert [row["_txid"] for row in table] == [1, 2, 3, 3, 4]
    with sqlite3.connect("c.sqlite") as database:
        assert list(database.execute("SELECT _change_type, _reason, id, a FROM t")) == EXPECTED
    with Path("c.csv").open() as file:
        rows = [(r["change_type"], r["reason"] or None, int(r["id"]), r["a"]) for r in csv.DictReader(file)]
    assert rows == EXPECTED


def test_a_file_without_changes_has_the_columns(shop: Cli) -> None:
    import pyarrow.parquet

    shop("export", "t", "none.parquet", "--changes", "--since", "4")
    table = pyarrow.parquet.read_table("none.parquet")
    assert len(table) == 0
    assert {"_change_type", "_reason", "_sow_key"} <= set(table.column_names)


def test_the_position_to_continue_at(shop: Cli) -> None:
    told = json.loads(shop("export", "t", "a.ndjson", "--changes", "--since", "2", "--json").out)
    assert (told["records"], told["updated"], told["deleted"], told["next_txid"]) == (3, 1, 1, 4)
    again = json.loads(shop("export", "t", "b.ndjson", "--changes", "--since", told["next_bookmark"], "--json").out)
    assert again["records"] == 0


def test_a_bookmark_store_keeps_the_position_once_the_file_is_complete(shop: Cli) -> None:
    assert shop("export", "t", "1.ndjson", "--changes", *PLACE).status == 0
    shop("publish", "u", stdin=b'{"id":1}\n')
    shop("publish", "t", stdin=b'{"id":3}\n')
    # A file that cannot be created moves no position.
    assert shop("export", "t", "1.ndjson", "--changes", *PLACE).status == 8
    assert shop("export", "t", "no/such/2.ndjson", "--changes", *PLACE).status != 0
    assert shop("export", "t", "2.ndjson", "--changes", *PLACE).status == 0
    assert [json.loads(line)["txid"] for line in Path("2.ndjson").read_text().splitlines()] == [6]
    assert shop("export", "t", "3.ndjson", "--changes", *PLACE).status == 0
    assert Path("3.ndjson").read_text() == ""


def test_changes_of_removed_journals_are_missing_with_a_note(shop: Cli) -> None:
    assert "missing" not in shop("export", "t", "whole.ndjson", "--changes").err
    shop("publish", "u", stdin=b'{"id":1}\n')
    shop("journal", "rotate")
    shop("publish", "u", stdin=b'{"id":2}\n')
    shop("publish", "t", stdin=b'{"id":3}\n')
    done = shop("journal", "prune", "--before", "6", "--yes")
    assert "the first txid is 6" in done.err, done
    for at, (words, is_noted) in enumerate({
        (): True, ("--since", "0"): True, PLACE: True, ("--since", "2000-01-01T00:00:00Z"): True,
        ("--since", "1", "--bookmark-not-found", "epoch"): True, ("--since", "2999-01-01T00:00:00Z"): False,
        ("--since", "5"): False, ("--since", "5", "--bookmark-not-found", "epoch"): False,
    }.items()):  # fmt: skip
        done = shop("export", "t", f"{at}.ndjson", "--changes", *words)
        assert (done.status, "changes before txid 6 are missing" in done.err) == (0, is_noted), (words, done)
    assert "missing" not in shop("export", "t", "next.ndjson", "--changes", *PLACE).err
    done = shop("export", "u", "u.ndjson", "--changes")
    assert "changes before txid 6 are missing" in done.err


@pytest.mark.parametrize("ending", ["csv", "msgpack", "parquet", "sqlite"])
def test_records_with_members_like_those_of_changes_are_published(shop: Cli, ending: str) -> None:
    names = ("change_type", "reason", "topic", "message_type", "sow_key", "timestamp", "txid", "data", "_change_type")
    record = dict.fromkeys(names, "x") | {"id": 9, "_sow_key": "y"}
    shop("publish", "t", stdin=json.dumps(record).encode())
    assert shop("export", "t", f"c.{ending}", "/id = 9").status == 0
    assert shop("publish", "u", "--from", f"c.{ending}", *(("--table", "t") if ending == "sqlite" else ())).status == 0
    assert json.loads(shop("query", "u").out) == record


def test_a_position_that_is_not_in_the_journals_is_an_error(shop: Cli) -> None:
    for position in ("99999", "123456789|5|"):
        done = shop("export", "t", "x.ndjson", "--changes", "--since", position)
        assert (done.status, "SOW-ENG-070" in done.err) == (10, True), done
        assert not Path("x.ndjson").exists()
        done = shop("export", "t", "x.ndjson", "--changes", "--since", position, "--bookmark-not-found", "epoch")
        assert done.status == 0 and len(Path("x.ndjson").read_text().splitlines()) == len(EXPECTED)
        done = shop(
            "export", "t", "x.ndjson", "--changes", "--since", position, "--bookmark-not-found", "now", "--force"
        )
        assert done.status == 0 and not Path("x.ndjson").read_text()
        Path("x.ndjson").unlink()


@pytest.mark.parametrize("ending", ["csv", "tsv", "ndjson", "json", "msgpack", "parquet", "arrow", "sqlite"])
def test_changes_are_not_published_as_records(shop: Cli, ending: str) -> None:
    assert shop("export", "t", f"c.{ending}", "--changes").status == 0
    done = shop("publish", "u", "--from", f"c.{ending}")
    assert done.status == 3 and "without --changes" in done.err, done
    assert "SOW-EXC-01" in done.err or ending.endswith("json")
    assert not shop("query", "u").out


def test_a_change_without_a_sequence_number_has_none(shop: Cli) -> None:
    head = '{"topic":"t","client":"c",'
    lines = head + '"operation":"publish","data":{"id":3}}\n' + head + '"sequence":7,"data":{"id":4}}\n'
    assert shop("publish", "--framing", "envelope", stdin=lines.encode()).status == 0
    assert shop("export", "t", "c.ndjson", "--changes", "--since", "4").status == 0
    found = [json.loads(line) for line in Path("c.ndjson").read_text().splitlines()]
    assert [(one.get("client"), one.get("sequence")) for one in found] == [("c", None), ("c", 7)]


def test_refused(shop: Cli) -> None:
    for words, code in (
        (("t", "x.csv", "--since", "1"), "SOW-CLI-033"),
        (("t", "x.csv", "--store", "s"), "SOW-CLI-033"),
        (("t", "x.csv", "--changes", "--commit"), "SOW-CLI-033"),
        (("t", "x.csv", "--changes", "--at", "-1h"), "SOW-EXC-019"),
        (("t", "x.csv", "--changes", "--limit", "3"), "SOW-EXC-019"),
        (("^[tu]$", "x.csv", "--changes"), "SOW-EXC-019"),
        (("sow/t.json.sow", "x.csv", "--changes"), "SOW-EXC-019"),
    ):
        result = shop("export", *words)
        assert (result.status, code in result.err) == (2, True), words
    assert not Path("x.csv").exists()


def test_a_store_without_commit_keeps_nothing_and_says_so(shop: Cli) -> None:
    said = shop("export", "t", "a.ndjson", "--changes", *PLACE[:-1])
    assert said.status == 0 and "--commit" in said.err
    assert len(Path("a.ndjson").read_text().splitlines()) == len(EXPECTED)
    assert "--commit" not in shop("export", "t", "b.ndjson", "--changes", *PLACE).err
