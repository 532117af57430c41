"""Commands in typical use, on an instance of the test's own: their output, changes, and exit statuses."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from sowctl.cli.commands.bodies import demo
from tests.cli.conftest import Cli

SAMPLES = Path(__file__).parents[2] / "samples" / "demo"
ORDERS = b"""\
{"id":1,"symbol":"IBM","price":187.20}
{"id":2,"symbol":"SAP","price":241.90}
{"id":3,"symbol":"IBM","price":9.5}
"""
CONFIG = """\
<AMPSConfig>
  <Name>test</Name>
  <SOW>
    <Topic><Name>orders</Name><MessageType>json</MessageType><Key>/id</Key><FileName>sow/%n.sow</FileName></Topic>
    <Topic>
      <Name>quotes</Name><MessageType>json</MessageType><Key>/symbol</Key>
      <FileName>sow/%n.sow</FileName><Expiration>10m</Expiration>
    </Topic>
    <Topic><Name>texts</Name><MessageType>binary</MessageType><FileName>sow/%n.sow</FileName></Topic>
  </SOW>
  <TransactionLog>
    <JournalDirectory>journal</JournalDirectory>
    <Topic><Name>.*</Name><MessageType>json</MessageType></Topic>
    <Topic><Name>texts</Name><MessageType>binary</MessageType></Topic>
  </TransactionLog>
</AMPSConfig>
"""
NOON = {"SOWCTL_NOW": "2026-01-05T12:00:00Z"}


@pytest.fixture
def shop(cli: Cli) -> Cli:
    """An instance with three orders, published at noon."""
    Path("sowctl.xml").write_text(CONFIG)
    result = cli("publish", "orders", stdin=ORDERS, environ=NOON)
    assert (result.status, result.out) == (0, ""), result.err
    return cli


def test_publish_reports(shop: Cli) -> None:
    again = shop("publish", "orders", stdin=ORDERS + b'{"id":4}\n')
    assert re.match(r"orders: 1 inserted, 0 updated, 3 written unchanged;.* txid 4-7, durable\n", again.err)
    report = json.loads(shop("publish", "orders", "-q", "--summary", "json", stdin=ORDERS).out)
    assert (report["published"], report["last_txid"], report["durable"]) == (3, 10, True)


def test_a_bad_message_stops_and_says_how_to_go_on(shop: Cli) -> None:
    Path("in.ndjson").write_bytes(b'{"id":7}\n{bad\n{"id":8}\n')
    result = shop("publish", "orders", "in.ndjson")
    assert result.status == 3
    assert result.err.startswith("error[SOW-MSG-002]: in.ndjson:2:2: ")
    assert re.search(r"\b1 message .*\btxid 4\b", result.err)
    assert "tail -n +2 in.ndjson" in result.err
    assert shop("query", "orders", "--count").out == "4\n"
    as_json = json.loads(shop("publish", "orders", "in.ndjson", "--error-format", "json").err)
    assert (as_json["exit"], as_json["line"], as_json["column"], as_json["published"]) == (3, 2, 2, 1)


def test_bad_messages_can_be_kept_aside(shop: Cli) -> None:
    result = shop(
        "publish", "orders", "--on-error", "skip", "--rejects", "bad.ndjson", stdin=b'{"id":7}\n{bad\n\xff\n{"id":8}\n'
    )
    assert result.status == 3
    assert "2 inserted" in result.err
    rows = [json.loads(line) for line in Path("bad.ndjson").read_text().splitlines()]
    assert [(row["line"], row["byte"], row["code"]) for row in rows] == [(2, 9, "SOW-MSG-002"), (3, 14, "SOW-MSG-001")]
    assert rows[0]["input"] == "{bad"
    assert rows[1]["input_base64"] == "/w=="
    told = shop("publish", "orders", "--on-error", "skip", stdin=b"{bad\x1b\n")
    assert "warning: [SOW-MSG-002] (standard input):1:2: " in told.err
    assert "\x1b" not in told.err


def test_abort_leaves_nothing(shop: Cli) -> None:
    assert shop("publish", "orders", "--on-error", "abort", stdin=b'{"id":7}\n{bad\n').status == 3
    assert shop("query", "orders", "--count").out == "3\n"


def test_tee_dry_run_and_progress(shop: Cli) -> None:
    result = shop("publish", "orders", "--tee", "--progress", "json", stdin=b'{"id":7}\n')
    assert result.out == '{"id":7}\n'
    assert json.loads(result.err.splitlines()[0]) == {"published": 1, "last_txid": 4, "offset": 9}
    dry = shop("publish", "orders", "--dry-run", stdin=b'{"id":99}\n')
    assert dry.err.startswith("orders: dry run, ") and ": 1 inserted" in dry.err
    assert shop("query", "orders", "--count").out == "4\n"


def test_query(shop: Cli) -> None:
    lines = shop("query", "orders", "/symbol = 'IBM'", "-o", "/price DESC").out.splitlines()
    assert lines == ['{"id":1,"symbol":"IBM","price":187.20}', '{"id":3,"symbol":"IBM","price":9.5}']
    assert shop("query", "orders", "-f", "/id = 2", "--select", "-/,+/price").out == '{"price":241.90}\n'
    assert shop("query", "orders", "-o", "/id", "-n", "1", "--skip-n", "1", "-F", "csv").out == (
        "id,symbol,price\n2,SAP,241.90\n"
    )
    assert shop("query", "orders", "/id = 1", "--template", "{/symbol}={/price} {txid}").out == "IBM=187.20 1\n"
    counted = shop("query", "orders", "/id < 3", "--count", "--statistics")
    assert counted.out == "2\n"
    assert counted.err == "orders: 3 examined, 2 matched, 2 returned\n"
    nothing = shop("query", "orders", "/id > 90", "--statistics")
    assert nothing.err == "orders: 3 examined, 0 matched, 0 returned\n"
    some = shop("query", "orders", "-n", "0", "--statistics")
    assert some.err == "orders: 3 examined, 3 matched, 0 returned\n"


def test_options_of_formats_take_effect_or_are_refused(shop: Cli) -> None:
    first = ("query", "orders", "/id = 2")
    assert shop(*first, "-0").out == '{"id":2,"symbol":"SAP","price":241.90}\0'
    assert shop(*first, "--columns", "/id,/price").out == "id,price\n2,241.90\n"
    assert shop(*first, "--length-prefix").out == '\0\0\0\x26{"id":2,"symbol":"SAP","price":241.90}'
    for name, option in (("csv", ("--delimiter", ";")), ("json", ("-0",)), ("csv", ("--template", "{/id}"))):
        refused = shop(*first, "-F", name, *option)
        assert (refused.status, refused.out) == (2, "")
        assert "SOW-OUT-012" in refused.err and f" {name}" in refused.err and option[0] in refused.err
    assert shop("info", "orders", "--columns", "/topic,/records").out == "topic,records\norders,3\n"


def test_option_texts_of_a_connection(shop: Cli) -> None:
    asked = shop("query", "orders", "/id = 1", "--options", "timestamp,send_keys,bookmark=1")
    assert asked.out == '{"id":1,"symbol":"IBM","price":187.20}\n'
    assert asked.err.count("has no effect") == 2
    past = shop("query", "orders", "--options", "bookmark=1", "--count")
    assert past.out == shop("query", "orders", "--at", "1", "--count").out
    assert shop("query", "orders", "--options", "bookmark=1", "--at", "NOW").status == 2
    assert shop("query", "order.", "--count").out == "3\n"
    assert shop("query", "order.", "--count", "--options", "non_regex_topic").status == 10
    assert shop("query", "orders", "--projection", "COUNT(/id) AS /n", "--grouping", "").out == '{"n":3}\n'
    assert shop("query", "orders", "--options", "projection=[MAX(/id) AS /m],grouping=[]").out == '{"m":3}\n'
    refused = shop("query", "orders", "--projection", "COUNT(/id) AS /n")
    assert (refused.status, "--grouping ''" in refused.err) == (2, True)


def test_the_same_bytes_twice_and_in_a_file(shop: Cli) -> None:
    for name in ("ndjson", "json", "csv", "tsv", "raw", "table"):
        out = shop("query", "orders", "-F", name).out
        assert out == shop("query", "orders", "-F", name).out
        assert shop("query", "orders", "-F", name, "--output", f"o.{name}").out == ""
        assert Path(f"o.{name}").read_text() == out
    assert shop("query", "orders", "-F", "csv", "--output", "o.csv").status == 8
    assert shop("query", "orders", "-F", "csv", "--output", "o.csv", "--force").status == 0
    assert shop("query", "orders", "-F", "csv", "--output", "-").out == Path("o.csv").read_text()


def test_envelopes_restore_an_instance(shop: Cli) -> None:
    shop("publish", "texts", "--sow-key", "k1", stdin=b"\x00\xff", environ=NOON)
    for topic in ("orders", "texts"):
        envelopes = shop("query", topic, "--meta", environ=NOON).out
        Path(f"{topic}.env").write_text(envelopes)
    Path("copy").mkdir()
    Path("copy/sowctl.xml").write_text(CONFIG)
    result = shop(
        "-c",
        "copy/sowctl.xml",
        "publish",
        "--framing",
        "envelope",
        stdin=b"".join(Path(f"{topic}.env").read_bytes() for topic in ("orders", "texts")),
        environ=NOON,
    )
    assert result.status == 0, result.err
    for topic in ("orders", "texts"):
        there = shop("-c", "copy/sowctl.xml", "query", topic, "--meta", environ=NOON).out
        assert re.sub(r'"txid":\d+', "", there) == re.sub(r'"txid":\d+', "", Path(f"{topic}.env").read_text())


def test_get(shop: Cli) -> None:
    assert shop("get", "orders", "2", "1").out.splitlines() == [
        '{"id":2,"symbol":"SAP","price":241.90}',
        '{"id":1,"symbol":"IBM","price":187.20}',
    ]
    key = json.loads(shop("get", "orders", "3", "--meta").out)["sow_key"]
    mixed = shop("get", "orders", key, "99", "1")
    assert mixed.status == 1
    assert [json.loads(line)["id"] for line in mixed.out.splitlines()] == [3, 1]
    assert mixed.err.startswith("orders: ") and mixed.err.endswith(" 99\n") and mixed.err.count("\n") == 1
    assert shop("get", "orders", key, "--fields").status == 1
    assert shop("get", "order", "1").status == 10


def test_delete(shop: Cli) -> None:
    arguments = ("delete", "orders", "--filter", "/symbol = 'IBM'")
    assert shop(*arguments).status == 8
    assert "dry run" in shop(*arguments, "--dry-run").err
    asked = shop(*arguments, tty="in err", stdin=b"n\n", environ={"NO_COLOR": "1"})
    assert asked.err.startswith("delete these records: 2 of orders? [y/N] ")
    assert (asked.status, shop("query", "orders", "--count").out) == (8, "3\n")
    assert shop(*arguments, tty="in err", stdin=b"y\n").status == 0
    assert shop("query", "orders", "--count").out == "1\n"
    unasked = shop(*arguments, tty="in err", stdin=b"")
    assert (unasked.status, "delete these records" in unasked.err) == (0, False)
    assert "nothing was deleted" in unasked.err
    assert shop("delete", "orders", "--data", "-", "--yes", stdin=b'{"id":2}\n').status == 0
    assert shop("query", "orders", "--count").out == "0\n"


def test_patterns_are_for_reading(shop: Cli) -> None:
    assert shop("query", "^ord", "--count").out == "3\n"
    assert shop("query", "^ord", "--literal-topic").status == 10
    assert shop("delete", "^ord", "--filter", "1 = 1", "--yes").status == 10
    assert shop("delete", "^ord", "--filter", "1 = 1", "--yes", "--regex").status == 0
    assert shop("query", "orders", "--count").out == "0\n"


def test_snapshots_are_stores_without_a_configuration(shop: Cli) -> None:
    when = {"SOWCTL_NOW": "2026-01-05T13:00:00Z"}
    shop("publish", "orders", stdin=b'{"id":1,"symbol":"new"}\n', environ=when)
    printed = shop("snapshot", "orders", "--at", "2026-01-05T12:30:00Z", environ=when)
    assert printed.status == 0, printed.err
    assert sorted(printed.out.encode().splitlines()) == sorted(ORDERS.splitlines())
    stored = shop("snapshot", "orders", "--at", "-30m", "--output", "half-past.sow", environ=when)
    assert stored.status == 0, stored.err
    Path("sowctl.xml").rename("away")
    assert shop("query", "half-past.sow", environ=when).out == printed.out
    assert shop("get", "./half-past.sow", "2").status == 0
    assert shop("query", "orders").status == 4


def test_at_takes_a_bare_number_for_a_txid(shop: Cli) -> None:
    assert len(shop("query", "orders", "--at", "3").out.splitlines()) == 3
    refused = shop("query", "orders", "--at", "1000")
    assert refused.status == 10
    assert "1000s" in refused.err


def test_replay_and_hash(shop: Cli) -> None:
    digest = shop("hash", "orders", environ=NOON).out.split()[0]
    assert shop("hash", "orders", "--expect", digest.upper(), environ=NOON).status == 0
    other = shop("hash", "orders", "--expect", "0" * 32, environ=NOON)
    assert (other.status, other.out.split()[0]) == (1, digest)
    assert shop("replay", "orders", "--verify", environ=NOON).status == 0
    Path("sow").rename("lost")
    rebuilt = shop("replay", "orders", environ=NOON)
    assert rebuilt.status == 0
    assert "orders: rebuilt: 3 entries" in rebuilt.err
    assert shop("hash", "orders", environ=NOON).out.split()[0] == digest


def test_what_only_words_said_is_there_as_json(shop: Cli) -> None:
    (digest, _) = shop("hash", "orders", environ=NOON).out.split()
    row = json.loads(shop("hash", "orders", "--format", "json", environ=NOON).out)
    assert (row["topic"], row["digest"], row["records"], row["txid"]) == ("orders", digest, 3, 3)
    summary = json.loads(shop("check", "--format", "json", "--summary", "json").out)
    assert (summary["stores"], summary["records"], summary["journal_entries"], summary["errors"]) == (1, 3, 3, 0)
    assert summary["not_verified"] == ["quotes: no store", "texts: no store"]
    assert shop("check", "--format", "json").out == ""
    shop("publish", "quotes", stdin=b'{"symbol":"IBM"}\n', environ=NOON)
    rows = [json.loads(line) for line in shop("query", "^(orders|quotes)$", "--count", "-F", "ndjson").out.splitlines()]
    assert [(row["topic"], row["returned"]) for row in rows] == [("orders", 3), ("quotes", 0), (None, 3)]
    assert shop("query", "orders", "/id < 3", "--count", "-F", "csv").out.splitlines()[1] == "orders,json,3,2,2"
    assert shop("query", "^(orders|quotes)$", "--count", environ=NOON).out == "4\n"


def test_info_lists_what_cannot_be_read_and_ends_with_its_status(shop: Cli) -> None:
    shop("publish", "quotes", stdin=b'{"symbol":"IBM"}\n', environ=NOON)
    for path in Path("sow").glob("*.sow"):
        path.write_bytes(b"")
    result = shop("info")
    assert result.status == 5
    assert [json.loads(line)["state"] for line in result.out.splitlines()] == ["damaged", "damaged", "no store"]
    assert [line.partition("]")[0] for line in result.err.splitlines() if "SOW" in line] == [
        "warning: [SOW-STO-021",
        "error[SOW-STO-021",
    ]
    assert shop("info", "texts").status == 0


def test_expire(shop: Cli) -> None:
    shop("publish", "quotes", stdin=b'{"symbol":"IBM"}\n', environ=NOON)
    later = {"SOWCTL_NOW": "2026-01-05T12:11:00Z"}
    assert shop("query", "quotes", "--count", environ=NOON).out == "1\n"
    assert shop("query", "quotes", "--count", environ=later).out == "0\n"
    assert re.search("quotes: dry run, .*: 1 expired\n", shop("expire", "--dry-run", environ=later).err)
    assert "quotes: 1 expired" in shop("expire", "quotes", environ=later).err
    assert "quotes: 0 expired" in shop("expire", "^quo", "--regex", environ=later).err


def test_info(shop: Cli) -> None:
    rows = [json.loads(line) for line in shop("info").out.splitlines()]
    assert [(row["topic"], row["records"]) for row in rows][:1] == [("orders", 3)]
    assert rows[0]["last_update"] == "2026-01-05T12:00:00.000000Z"
    table = shop("info", "orders", tty="out", environ={"NO_COLOR": "1", "COLUMNS": "100"}).out
    assert table.splitlines()[0].split()[:3] == ["topic", "type", "kind"]
    assert next(csv.reader(io.StringIO(shop("info", "-F", "csv").out)))[0] == "topic"


def test_journal(shop: Cli) -> None:
    (row,) = [json.loads(line) for line in shop("journal", "list").out.splitlines()]
    assert row["first_txid"] == 1
    entries = [json.loads(line) for line in shop("journal", "dump").out.splitlines()]
    assert [(entry["txid"], entry["operation"]) for entry in entries] == [(n, "publish") for n in (1, 2, 3)]
    key = entries[1]["sow_key"]
    for arguments in (
        ["--txid", "2"],
        ["-l", "2:2"],
        ["--from", "2", "--to", "2"],
        ["--key", key],
        ["--key", "0" + key],
    ):
        (entry,) = shop("journal", "dump", *arguments).out.splitlines()
        assert json.loads(entry)["data"] == {"id": 2, "symbol": "SAP", "price": 241.90}
    for text in ("\u0661", "\u00b2", "x", str(1 << 64)):
        refused = shop("journal", "dump", "orders", "--key", text)
        assert (refused.status, refused.out) == (2, "") and "SOW-CLI-025" in refused.err
    assert "SAP" not in shop("journal", "dump", "--no-data").out
    assert shop("journal", "dump", "--topic", "quotes").out == ""
    assert shop("journal", "dump", "--to", "2026-01-05T11:00:00Z").out == ""


def test_check(shop: Cli) -> None:
    clean = shop("check")
    assert (clean.status, clean.out) == (0, "")
    assert "checked" in clean.err
    (store,) = Path("sow").glob("orders*.sow")
    data = bytearray(store.read_bytes())
    position = data.index(b'"SAP"')
    data[position + 1] ^= 1
    store.write_bytes(data)
    damaged = shop("check", "orders", "--format", "json")
    assert damaged.status == 5
    assert json.loads(damaged.out.splitlines()[0])["severity"] == "error"


def test_validate(cli: Cli) -> None:
    Path("good.xml").write_text(CONFIG)
    assert (cli("validate", "good.xml").status, cli("validate", "good.xml").out) == (0, "")
    Path("bad.xml").write_text(CONFIG.replace("<Key>/id</Key>", "<Key>id</Key>"))
    bad = cli("validate", "bad.xml")
    assert bad.status == 4
    assert re.match(r"bad\.xml:4:\d+: ", bad.out)
    assert "1 error" in bad.err
    (finding,) = [json.loads(line) for line in cli("validate", "-F", "json", "bad.xml").out.splitlines()]
    assert (finding["rule"], finding["severity"], finding["line"]) == ("S034", "error", 4)
    assert cli("validate", "missing.xml").status == 4


def test_demo(cli: Cli) -> None:
    result = cli("demo", "here")
    assert result.status == 0, result.err
    assert cli("-c", "here/sowctl.xml", "query", "^(orders|customers)$", "--count").out == "1050\n"
    assert cli("demo", "here").status == 8


@pytest.mark.parametrize("name", ["sowctl.xml", *(f"{topic}.ndjson" for topic in demo.TOPIC_GENERATORS)])
def test_the_demo_s_data_is_that_of_the_samples(name: str, tmp_path: Path) -> None:
    demo.write_demo(tmp_path)
    assert (tmp_path / name).read_bytes() == (SAMPLES / name).read_bytes()
