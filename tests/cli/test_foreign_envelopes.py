"""``publish --envelope``: records of Kafka and change events of Debezium, and the hints that suggest them."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

import sowctl
from sowctl.cli.main import main
from sowctl.engine.options import PublishOptions
from tests.support.instances import config_xml, topic_xml

AT = 1_767_607_200_000
WRAPPED = '{"schema":{},"payload":{"id":1, "a":1,"a":2},"payload":0}'


class Shop:
    """An instance with topics of several key modes."""

    def __init__(self, root: Path) -> None:
        self.config = root / "sowctl.xml"
        topics = (
            topic_xml("t")
            + topic_xml("two", "<Key>/b</Key>", key="/a")
            + topic_xml("mine", key=None)
            + topic_xml("patterned", "<Pattern>^P[.]</Pattern>", file="sow/patterned.sow")
        )
        self.config.write_text(config_xml(topics, ("t", "two", "mine", "patterned", "log")))

    def run(self, *argv: str, rows: list[Any] | None = None, status: int = 0) -> tuple[str, str]:
        data = b"".join(json.dumps(row).encode() + b"\n" for row in rows or ())
        out, err = io.BytesIO(), io.BytesIO()
        words = [*argv, "-c", str(self.config), "--now", "2026-02-01T00:00:00Z"]
        found = main(words, environ={}, stdin=io.BytesIO(data), stdout=out, stderr=err)
        assert found == status, (argv, found, err.getvalue().decode())
        return out.getvalue().decode(), err.getvalue().decode()

    def report(self, *argv: str, rows: list[Any], status: int = 0) -> dict[str, Any]:
        return dict(json.loads(self.run("publish", *argv, "--json", rows=rows, status=status)[0]))

    def records(self, topic: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run("query", topic)[0].splitlines()]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def record(topic: str, key: Any, value: Any, offset: int = 0, partition: int = 0, at: int = AT) -> dict[str, Any]:
    """A line of ``kcat -J``."""
    text = None if value is None else json.dumps(value)
    rest = {"tstype": "create", "ts": at, "broker": 0, "key": key, "payload": text}
    return {"topic": topic, "partition": partition, "offset": offset, **rest}


def test_records_of_several_topics(shop: Shop) -> None:
    rows = [
        record("t", "1", {"id": 1}),
        record("two", None, {"a": 1, "b": "x"}),
        record("mine", "C1", {"v": 1}),
        record("P.a", "9", {"id": 9}),
    ]
    found = shop.report("--envelope", "kafka", rows=rows)
    assert (found["published"], found["inserted"]) == (4, 4)
    assert json.loads(shop.run("query", "t", "--meta")[0])["timestamp"] == "2026-01-05T10:00:00.000000Z"
    assert json.loads(shop.run("query", "mine", "--meta")[0])["sow_key"] == "C1"


@pytest.mark.parametrize(
    ("topic", "message", "key"),
    [
        ("t", {"id": 7}, "7"),
        ("t", {"id": 7}, '"7"'),
        ("t", {"id": "x y"}, "x y"),
        ("t", {"id": 7}, {"id": 7, "more": 1}),
        ("t", {"id": 7}, '{"schema":{},"payload":{"id":7}}'),
        ("two", {"a": 1, "b": "x"}, {"b": "x", "a": 1}),
        ("mine", {"v": 1}, "C1"),
        ("P.a", {"id": 9}, "9"),
    ],
)
def test_tombstones_delete(shop: Shop, topic: str, message: dict[str, Any], key: Any) -> None:
    rows = [record(topic, key, message), record(topic, key, None, 1)]
    assert shop.report("--envelope", "kafka", rows=rows[:1])["inserted"] == 1
    assert shop.report("--envelope", "kafka", rows=rows[1:])["deleted"] == 1
    assert shop.records(topic) == []
    assert shop.report("--envelope", "kafka", rows=rows[1:])["missing"] == 1
    assert shop.report("--envelope", "kafka", rows=rows)["deleted"] == 1, "in one batch"


@pytest.mark.parametrize(("topic", "key"), [("two", "1"), ("two", {"a": 1}), ("t", {"ID": 1}), ("log", "1")])
def test_keys_that_name_no_record_are_refused(shop: Shop, topic: str, key: Any) -> None:
    assert "SOW-PUB-028" in shop.run("publish", "--envelope", "kafka", rows=[record(topic, key, None)], status=3)[1]


def test_times_that_go_back_are_raised(shop: Shop) -> None:
    rows = [record("t", None, {"id": 1}, at=AT), record("t", None, {"id": 2}, partition=1, at=AT - 5000)]
    shop.report("--envelope", "kafka", rows=rows)
    meta = [json.loads(line) for line in shop.run("query", "t", "--meta")[0].splitlines()]
    assert {row["timestamp"] for row in meta} == {"2026-01-05T10:00:00.000000Z"}


def test_offsets_of_partitions_detect_duplicates_with_a_client(shop: Shop) -> None:
    rows = [record("t", None, {"id": n}, offset=n // 2, partition=n % 2) for n in range(8)]
    options = ("--envelope", "kafka", "--client", "prod")
    assert shop.report(*options, rows=rows[:5])["published"] == 5
    again = shop.report(*options, rows=rows)
    assert (again["published"], again["duplicates"]) == (3, 5)
    clients = {json.loads(line)["client"] for line in shop.run("journal", "dump")[0].splitlines()}
    assert clients == {"prod/t-0", "prod/t-1"}
    assert shop.report("--envelope", "kafka", rows=rows)["duplicates"] == 0


def test_offsets_that_go_back_are_said(shop: Shop) -> None:
    rows = [record("t", None, {"id": n}, offset=n, partition=1) for n in (5, 6, 3, 4, 7)]
    options = ("publish", "--envelope", "kafka", "--client", "prod")
    notes = shop.run(*options, rows=rows)[1]
    assert "prod/t-1: offset 3 came after offset 6" in " ".join(notes.split())
    assert notes.count("came after") == 1
    # Messages published before, and repeated ones, are duplicates, and are not reported as missing.
    again = [record("t", None, {"id": n}, offset=n, partition=1) for n in (5, 6, 7, 7, 8)]
    assert "came after" not in shop.run(*options, rows=again)[1]
    assert "came after" not in shop.run("publish", "--envelope", "kafka", rows=rows)[1]


def test_change_events(shop: Shop) -> None:
    def event(op: str, before: Any, after: Any) -> dict[str, Any]:
        return {"before": before, "after": after, "op": op, "source": {"table": "t", "ts_ms": AT}, "ts_ms": AT}

    rows = [
        event("r", None, {"id": 1}),
        {"schema": {}, "payload": event("c", None, {"id": 2})},
        event("u", {"id": 1}, {"id": 1, "qty": 5}),
        event("d", {"id": 2}, None),
        None,
    ]
    found = shop.report("--envelope", "debezium", rows=rows)
    assert (found["inserted"], found["updated"], found["deleted"], found["blank"]) == (2, 1, 1, 1)
    assert shop.records("t") == [{"id": 1, "qty": 5}]
    assert shop.report("mine", "--envelope", "debezium", "--sow-key", "C1", rows=rows[:1])["inserted"] == 1


def test_deletions_of_mongodb_have_the_key_alone(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.config.write_text(config_xml(topic_xml("docs", key="[/_id/$oid]"), ("docs",)))

    def event(op: str, at: str, after: Any) -> dict[str, Any]:
        source = {"connector": "mongodb", "collection": "docs", "ts_ms": AT}
        value = {"op": op, "before": None, "after": after, "source": source}
        return {"topic": "shop.docs", "key": {"id": json.dumps({"$oid": at})}, "value": value}

    rows = [event("c", at, json.dumps({"_id": {"$oid": at}, "qty": 1})) for at in ("5f", "60")]
    rows.append(event("d", "5f", None))
    assert shop.report("--envelope", "debezium", rows=rows)["deleted"] == 1
    assert shop.records("docs") == [{"_id": {"$oid": "60"}, "qty": 1}]


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("kafka", b'{"topic":"t","payload":{"id":1, "a":1,"a":2},"payload":{"id":2},"topic":"two"}'),
        ("kafka", b'{"topic":"t","value":' + json.dumps(WRAPPED).encode() + b"}"),
        ("debezium", b'{"op":"c","after":{"id":1, "a":1,"a":2},"source":{"table":"t"},"op":"d","after":{"id":2}}'),
    ],
)
def test_members_of_an_envelope_are_the_first_and_messages_keep_their_bytes(shop: Shop, form: str, line: bytes) -> None:
    argv = ["publish", "--envelope", form, "-c", str(shop.config)]
    assert main(argv, environ={}, stdin=io.BytesIO(line + b"\n"), stdout=io.BytesIO(), stderr=io.BytesIO()) == 0
    assert shop.run("query", "t")[0] == '{"id":1, "a":1,"a":2}\n'


def test_own_envelopes_with_other_members_and_numbers(shop: Shop) -> None:
    row = {"topic": "t", "partition": 3, "timestamp": AT // 1000, "data": {"id": 1}}
    error = shop.run("publish", "--framing", "envelope", rows=[row], status=3)[1]
    assert "SOW-INP-011" in error and "--ignore-unknown-members" in error
    options = ("--ignore-unknown-members", "--timestamp-unit", "s")
    shop.report("--envelope", "sowctl", *options, rows=[row])
    assert json.loads(shop.run("query", "t", "--meta")[0])["timestamp"] == "2026-01-05T10:00:00.000000Z"


@pytest.mark.parametrize(
    ("row", "option"),
    [
        (record("t", "1", {"id": 1}), "--envelope kafka"),
        ({"op": "c", "before": None, "after": {"id": 1}}, "--envelope debezium"),
        ({"topic": "t", "sow_key": "1", "data": {"id": 1}}, "--framing envelope"),
    ],
)
def test_hints_name_the_form(shop: Shop, tmp_path: Path, row: dict[str, Any], option: str) -> None:
    for words in (("t",), ("t", "--on-error", "skip")):
        assert option in shop.run("publish", *words, rows=[row], status=3)[1]
    file = tmp_path / "dump.ndjson"
    file.write_text(json.dumps(row) + "\n")
    assert option in shop.run("publish", str(file), status=10)[1]
    if option != "--framing envelope":
        assert option in shop.run("publish", "--framing", "envelope", rows=[row], status=3)[1]


@pytest.mark.parametrize("event", [{"op": "c"}, {"op": "c", "before": None, "after": None}])
def test_hints_do_not_name_the_form_that_is_read(shop: Shop, event: dict[str, Any]) -> None:
    for words in ((), ("--on-error", "skip")):
        shown = shop.run("publish", "t", "--envelope", "debezium", *words, rows=[event], status=3)[1]
        assert "SOW-INP-014" in shown and "--envelope" not in shown


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--envelope", "kafka", "--framing", "lines"), "SOW-CLI-012"),
        (("--envelope", "kafka", "-0"), "SOW-CLI-012"),
        (("--envelope", "avro"), "SOW-CLI-003"),
        (("--ignore-unknown-members",), "SOW-INP-017"),
        (("--timestamp-unit", "ms"), "SOW-INP-017"),
        (("--envelope", "kafka", "--timestamp-unit", "ms"), "SOW-INP-017"),
        (("--envelope", "kafka", "--from", "x.csv"), "SOW-EXC-010"),
    ],
)
def test_options_that_do_not_fit(shop: Shop, words: tuple[str, ...], code: str) -> None:
    assert code in shop.run("publish", "t", *words, rows=[], status=2)[1]


def test_a_program_publishes_files_of_envelopes(shop: Shop, tmp_path: Path) -> None:
    rows = [record("t", "1", {"id": 1, "n": 1}), record("t", "2", {"id": 2}, offset=1)]
    file = tmp_path / "t.ndjson.gz"
    file.write_bytes(gzip.compress(b"".join(json.dumps(row).encode() + b"\n" for row in rows)))
    own = tmp_path / "own.ndjson"
    own.write_text('{"data":{"id":3},"timestamp":1767607200,"extra":1}\n')
    with sowctl.open(shop.config) as instance:
        topic = instance.topic("t")
        options = PublishOptions(client="kcat")
        assert topic.publish_file(file, options, envelope="kafka").inserted == 2
        assert topic.publish_file(file, options, envelope="kafka").duplicates == 2
        with pytest.raises(sowctl.InputError):
            topic.publish_file(own, envelope="sowctl")
        report = topic.publish_file(own, envelope="sowctl", ignore_unknown_members=True, timestamp_unit="s")
        assert report.inserted == 1
        assert [one.timestamp for one in topic.query(keys=["3"]).records()] == [AT * 1000]
        wrong: list[tuple[dict[str, Any], str]] = [
            ({"ignore_unknown_members": True}, "SOW-INP-017"),
            ({"envelope": "kafka", "timestamp_unit": "s"}, "SOW-INP-017"),
            ({"envelope": "kafka", "headers": False}, "SOW-EXC-010"),
            ({"envelope": "avro"}, "SOW-CLI-006"),
        ]
        for keywords, code in wrong:
            with pytest.raises(sowctl.UsageError) as caught:
                topic.publish_file(own, **keywords)
            assert caught.value.code == code
