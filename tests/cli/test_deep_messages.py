"""A message of maximum depth can be stored in every typed table: levels too deep for a column are a text of JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from sowctl.arrow.inference import MAX_COLUMN_DEPTH, Inference
from sowctl.values.depth import MAX_DEPTH
from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml

DEPTHS = (MAX_COLUMN_DEPTH - 1, MAX_COLUMN_DEPTH, MAX_COLUMN_DEPTH + 1, 63, 64, 200, *range(248, MAX_DEPTH))


@pytest.mark.parametrize("opening", ["[", '{"x":'])
@pytest.mark.parametrize(
    "words",
    [["sql", "select * from t"], *(["export", "t", f"t.{end}"] for end in ("parquet", "arrow", "sqlite", "csv"))],
    ids=lambda words: " ".join(words),
)
def test_deep_messages_become_tables(cli: Cli, words: list[str], opening: str) -> None:
    Path("sowctl.xml").write_text(config_xml(topic_xml("t"), ()))
    closing = "]" if opening == "[" else "}"
    rows = "".join(f'{{"id":{n},"a":{opening * (n - 1)}1{closing * (n - 1)}}}\n' for n in DEPTHS)
    assert cli("publish", "t", stdin=rows.encode()).status == 0
    done = cli(*words)
    assert done.status == 0, done.err


def test_the_depth_of_a_type_is_bounded() -> None:
    found = Inference()
    found.add([b'{"a":' + b"[" * 200 + b"1" + b"]" * 200 + b"}"])
    assert found.build_ddl().count("ARRAY<") == MAX_COLUMN_DEPTH - 1
    assert "STRING" in found.build_ddl()


@pytest.mark.parametrize("words", ["-/,+/a", "-/,+/id,+/a/x/x"])
@pytest.mark.parametrize("opening", ["[", '{"x":', '[{"x":'])
def test_fields_of_deep_messages_are_selected(cli: Cli, words: str, opening: str) -> None:
    Path("sowctl.xml").write_text(config_xml(topic_xml("t"), ()))
    times = (MAX_DEPTH - 1) // (opening.count("[") + opening.count("{"))
    closing = "".join({"[": "]", "{": "}"}[one] for one in reversed(opening) if one in "[{")
    value = opening * times + "1" + closing * times
    assert cli("publish", "t", stdin=f'{{"id":1,"a":{value}}}\n'.encode()).status == 0
    done = cli("query", "t", "--select", words)
    assert done.status == 0, done.err
    if words == "-/,+/a":
        assert done.out == f'{{"a":{value}}}\n'


@pytest.mark.parametrize("end", ["sqlite", "parquet", "csv"])
def test_a_topic_without_records_becomes_a_table(cli: Cli, end: str) -> None:
    Path("sowctl.xml").write_text(config_xml(topic_xml("t"), ()))
    assert cli("publish", "t", stdin=b'{"id":1}\n').status == 0
    assert cli("delete", "t", "--filter", "/id = 1", "--yes").status == 0
    done = cli("export", "t", f"t.{end}")
    assert done.status == 0, done.err
