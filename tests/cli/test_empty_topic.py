"""A configured topic without published messages is empty: every reading command gives the answer for no records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sowctl
from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml

_HISTORY = "<History><Window>1d</Window><Granularity>1s</Granularity></History>"


@pytest.fixture(params=[(), ("t", "kept")], ids=["no journal", "journal"])
def shop(cli: Cli, tmp_path: Path, request: pytest.FixtureRequest) -> Cli:
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("t") + topic_xml("kept", _HISTORY), request.param))
    return cli


@pytest.mark.parametrize(
    ("command", "out"),
    [
        ("query t", ""),
        ("query t --at 2040-01-01", ""),
        ("query t --meta --order-by /id --top-n 3", ""),
        ("query t --count", "0\n"),
        ("query kept", ""),
        ("query ^(t|kept)$", ""),
        ("hash t", f"{0:032x}  t\n"),
        ("hash kept", f"{0:032x}  kept\n"),
        ("hash t --payloads", f"{0:032x}  t\n"),
        ("stats t", ""),
        ("schema t", ""),
        ("diff t kept", ""),
        ("delete t --filter 1=1 --dry-run", ""),
        ("export t t.csv", ""),
        ("snapshot t --at 2040-01-01 --output t.sow", ""),
    ],
)
def test_a_topic_without_a_store_is_empty(shop: Cli, command: str, out: str) -> None:
    done = shop(*command.split())
    assert (done.status, done.out) == (0, out)
    assert "no store yet" in done.err and "error" not in done.err


def test_its_keys_are_unknown_like_those_of_any_empty_topic(shop: Cli) -> None:
    for command in ("get t 1", "history kept 1"):
        assert shop(*command.split()).status == 1


def test_sql_sees_a_table_without_rows(shop: Cli) -> None:
    pytest.importorskip("duckdb", reason="the extra 'sql' is not installed")
    done = shop("sql", "SELECT count(*) AS n FROM t")
    assert (done.status, json.loads(done.out)) == (0, {"n": 0})


def test_a_comparison_of_instances_gives_no_notes_about_it(shop: Cli) -> None:
    done = shop("diff", ".", ".")
    assert (done.status, "no store" in done.err) == (0, False)


def test_the_python_api_gives_no_records(shop: Cli) -> None:
    with sowctl.open("sowctl.xml") as instance:
        topic = instance.topic("t")
        assert list(topic.query().records()) == []
        assert topic.digest().records == 0
