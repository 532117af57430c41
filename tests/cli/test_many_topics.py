"""Commands over many topics: expressions over names, logical topics, two types of one name, topics without a SOW."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml


@pytest.fixture
def shop(cli: Cli) -> Cli:
    """An instance with an exact topic before a Pattern that fits it too, and one after it."""
    second = topic_xml("x").replace(">json<", ">nvfix<")
    topics_xml = (
        topic_xml("/orders/special", file="sow/special.sow")
        + topic_xml("all-orders", "<Pattern>^/orders/</Pattern>", "<Expiration>enabled</Expiration>")
        + topic_xml("x", "<Expiration>30s</Expiration>")
        + second
        + topic_xml("/orders/late", file="sow/late.sow")
    )
    Path("sowctl.xml").write_text(config_xml(topics_xml, ("/orders/special", "all-orders", "x", "events")))
    for topic in ("/orders/special", "/orders/a", "/orders/b", "/orders/late", "[json].[x]"):
        assert cli("publish", topic, "--now", "2026-01-05T08:00:00Z", stdin=b'{"id":1}').status == 0
    return cli


def test_deleting_by_an_expression_counts_per_topic_and_in_all(shop: Cli) -> None:
    result = shop("delete", "--regex", "^/orders/(s|a|b)", "--filter", "/id = 1", "--yes", "--format", "json")
    assert result.status == 0
    assert [tuple(row.values()) for row in json.loads(result.out)] == [
        ("/orders/special", "json", 1, 1, 1, False),
        ("all-orders", "json", 2, 2, 2, False),
        (None, None, 3, 3, 3, False, 2),
    ]
    left = shop("query", "all-orders", "--meta").out
    assert [json.loads(line)["topic"] for line in left.splitlines()] == ["/orders/late"]


def test_expiring_by_an_expression_counts_per_topic_and_in_all(shop: Cli) -> None:
    shop("publish", "/orders/a", "--expiration", "5", "--now", "2026-01-05T08:00:00Z", stdin=b'{"id":2}')
    result = shop("expire", "--regex", "^x$|/orders/a", "--now", "2026-01-05T09:00:00Z")
    assert result.err.splitlines() == [
        "all-orders: 1 expired", "[json].[x]: 1 expired", "[nvfix].[x]: 0 expired", "3 topics: 2 expired",
    ]  # fmt: skip
    again = shop("expire", "--regex", "^x$|/orders/a", "--now", "2026-01-05T09:00:00Z", "--format", "csv")
    assert [line.split(",")[2] for line in again.out.splitlines()] == ["expired", "0", "0", "0", "0"]


def test_a_pattern_without_the_option_is_told_of_the_option(shop: Cli) -> None:
    deleted = shop("delete", "^/orders/s", "--filter", "/id = 1", "--yes")
    assert (deleted.status, "SOW-ENG-012" in deleted.err) == (10, True)
    assert re.search(r"hint: .*--regex .* /orders/special, logical topics of all-orders\n", deleted.err)
    many = shop("expire", "^(/orders/|x|all)")
    assert re.search(r"hint: .*--regex .* /orders/special, all-orders, x, \.\.\.\n", many.err)
    # An invalid expression is reported as an unknown name; replay takes no patterns at all.
    for arguments in (("expire", "(x"), ("expire", "x*("), ("replay", "^x")):
        wrong = shop(*arguments)
        assert (wrong.status, "SOW-ENG-012" in wrong.err, "--regex" in wrong.err) == (10, True, False), wrong.err


def test_one_way_to_write_the_numbers(shop: Cli) -> None:
    for verb in (("delete", "x", "--sow-key", "1", "--yes"), ("expire",)):
        result = shop(*verb, "--summary", "json", "--format", "json")
        assert (result.status, "SOW-CLI-012" in result.err) == (2, True)


def test_a_topic_without_records_spoils_no_query(shop: Cli) -> None:
    assert not Path("sow/late.sow").exists()
    result = shop("query", "^/orders/", "--statistics")
    assert (result.status, len(result.out.splitlines())) == (0, 4)
    assert result.err.splitlines() == [
        "/orders/special: 1 examined, 1 matched, 1 returned",
        "all-orders: 3 examined, 3 matched, 3 returned",
    ]


def test_info_knows_logical_topics_and_topics_without_a_sow(shop: Cli) -> None:
    row = json.loads(shop("info", "/orders/a").out)
    assert (row["topic"], row["kind"], row["records"]) == ("/orders/a", "logical topic", 1)
    assert shop("publish", "events", stdin=b'{"n":1}').err.startswith("events: 1 journalled; 7 B; txid 6")
    row = json.loads(shop("info", "events").out)
    assert (row["kind"], row["state"], row["key_mode"], row["last_txid"]) == ("journal only", "no SOW", "none", 6)
    assert shop("query", "events").status == 10


def test_a_name_of_two_types_is_written_with_its_type(shop: Cli) -> None:
    for verb in (("query", "x"), ("get", "x", "1"), ("hash", "x"), ("info", "x"), ("expire", "x"), ("replay", "x")):
        result = shop(*verb)
        assert (result.status, "write one of [json].[x], [nvfix].[x]" in result.err) == (2, True), verb
    assert shop("publish", "[nvfix].[x]", stdin=b"id=1\x01v=2\x01\n").status == 0
    assert json.loads(shop("query", "[nvfix].[x]", "--format", "json").out) == [{"id": 1, "v": 2}]
    assert shop("get", "[json].[x]", "1", "--now", "2026-01-05T08:00:01Z").out == '{"id":1}\n'
