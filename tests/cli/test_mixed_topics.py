"""Rows of several topics in one table are distinguished by a column, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml

TWO = "orders|customers"


@pytest.fixture
def shop(cli: Cli) -> Cli:
    Path("sowctl.xml").write_text(config_xml(topic_xml("orders") + topic_xml("customers"), ("orders",)))
    for topic in ("orders", "customers"):
        assert cli("publish", topic, stdin=b'{"id":1}\n').status == 0
    return cli


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.arrows", "a.csv", "a.tsv.gz"])
def test_export(shop: Cli, name: str) -> None:
    result = shop("export", TWO, name)
    assert result.status == 2
    assert "SOW-EXC-013" in result.err and "--meta" in result.err and not Path(name).exists()
    assert shop("export", TWO, name, "--meta").status == 0
    assert shop("export", "orders", name, "--force").status == 0


@pytest.mark.parametrize("format", ["parquet", "arrow", "csv", "tsv"])
def test_query(shop: Cli, format: str) -> None:
    result = shop("query", TWO, "--format", format)
    assert (result.status, result.out) == (2, "")
    assert "SOW-EXC-013" in result.err
    assert shop("query", TWO, "--format", format, "--meta", "--output", "a").status == 0
    assert shop("query", TWO, "--count").status == 0


def test_messages_are_no_table(shop: Cli) -> None:
    for name in ("a.ndjson", "a.json"):
        assert shop("export", TWO, name).status == 0
    assert shop("query", TWO).out.count("id") == 2
