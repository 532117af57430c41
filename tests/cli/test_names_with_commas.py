"""Options with lists of fields: a comma in brackets belongs to a name."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.support.instances import config_xml, topic_xml

ROWS = b'{"id":1,"last, first":"a","n":{"x,y":7},"q[r,s":[1]}\n{"id":2,"last, first":"b","n":{"x,y":8},"q[r,s":[2]}\n'
CHANGED = b'{"id":2,"last, first":"c","n":{"x,y":8},"q[r,s":[3]}\n'


@pytest.fixture
def shop(cli: Cli, tmp_path: Path) -> Cli:
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    assert cli("publish", "t", stdin=ROWS).status == 0
    return cli


@pytest.mark.parametrize("words", [("query", "t", "--order-by", "/id"), ("get", "t", "1", "2", "--fields")])
def test_columns(words: tuple[str, ...], shop: Cli) -> None:
    done = shop(*words, "--columns", "[/last, first], [/n/x,y],/id,[/q[r,s][0]", "--no-headers")
    assert (done.status, done.err) == (0, "")
    assert list(csv.reader(io.StringIO(done.out))) == [["a", "7", "1", "1"], ["b", "8", "2", "2"]]


@pytest.mark.parametrize("ending", ["parquet", "arrow", "db", "msgpack", "csv"])
def test_columns_of_files(ending: str, shop: Cli) -> None:
    pytest.importorskip("pyarrow", reason="the extra 'arrow' is not installed")
    done = shop("query", "t", "--columns", "[/last, first],/id", "--output", f"o.{ending}")
    assert done.status == 0, done.err
    assert b"last, first" in Path(f"o.{ending}").read_bytes()


def test_a_name_that_no_record_has_is_told_as_a_whole(shop: Cli) -> None:
    done = shop("query", "t", "--columns", "/id,[/last, firts]", "--strict")
    assert done.status == 2
    assert "[/last, firts]" in done.err and "did you mean [/last, first]" in done.err


def test_statistics(shop: Cli) -> None:
    done = shop("stats", "t", "[/last, first]", "/id", "--format", "ndjson")
    assert (done.status, done.err.count("SOW-")) == (0, 0)
    assert [json.loads(line)["path"] for line in done.out.splitlines()] == ["[/last, first]", "/id"]


def test_differences(shop: Cli) -> None:
    assert shop("publish", "t", stdin=CHANGED).status == 0
    names = {"last, first": "[/last, first]", "q[r,s": "[/q[r,s]"}
    for name, other in (("last, first", "q[r,s"), ("q[r,s", "last, first")):
        for words in (("--only", f"/id,{names[name]}"), ("--ignore", f"{names[other]},/id")):
            done = shop("diff", "t@2", "t", *words)
            assert done.status == 1, done.err
            assert name in done.out and other not in done.out
    done = shop("diff", "t@2", "t", "--on", "[/n/x,y],/id", "--ignore", "[/last, first],[/q[r,s]")
    assert (done.status, done.err) == (0, "t: 0 changed, 0 added, 0 removed, 2 equal\n")


def test_key_fields_of_a_new_configuration(cli: Cli) -> None:
    assert cli("config", "init", "new.xml", "--topic", "t=[/last, first],/id").status == 0
    text = Path("new.xml").read_text()
    assert "<Key>[/last, first]</Key>" in text and "<Key>/id</Key>" in text
