"""Methods that return the same as the commands of their names: count, history, schema, export, sql; datetimes."""

from __future__ import annotations

import inspect
import io
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import sowctl
from sowctl.cli.main import main
from sowctl.engine.api import InstanceHandle, TopicHandle
from sowctl.engine.options import QueryOptions
from tests.support.instances import SECOND, START, Lab, message

EIGHT = datetime(2026, 1, 5, 8, tzinfo=UTC)


@pytest.fixture
def topic(lab: Lab) -> TopicHandle:
    """A topic with the records 1 to 3; record 2 was published again a second later."""
    lab.publish("t", *(message(id=number, v=number * 1.5, s=f"s{number}") for number in (1, 2, 3)))
    lab.clock.at = START + SECOND
    lab.publish("t", message(id=2, v=7))
    return lab.open().topic("t")


def run_command(lab: Lab, *words: str) -> str:
    """Run a command on the instance of a lab, at its time, and return its standard output."""
    out, err = io.BytesIO(), io.BytesIO()
    streams = {"stdin": io.BytesIO(), "stdout": out, "stderr": err}
    assert main(["-c", str(lab.config), *words], environ={}, clock=lab.clock, **streams) == 0, err.getvalue()
    return out.getvalue().decode()


def test_count(topic: TopicHandle) -> None:
    assert (topic.count(), topic.count("/v > 4"), topic.count("/v > 4", at=START)) == (3, 2, 1)
    key = next(topic.get("2", fields=True)).sow_key
    assert topic.count(sow_keys=[key, 12345]) == 1
    with pytest.raises(sowctl.UsageError):
        topic.count("/nowhere = 1", unknown="error")


def test_history_has_the_versions(topic: TopicHandle) -> None:
    for method in (topic.history, topic.versions):
        first, second = method("2", fields=True, journal=True)
        assert (first.payload, second.payload) == (b'{"id":2,"v":3.0,"s":"s2"}', b'{"id":2,"v":7}')
        assert (first.until, second.until) == (START + SECOND, None)
    with pytest.raises(TypeError, match=r"history\(key\)|each of keys"):
        topic.history(1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="did you mean journal"):
        topic.history("2", jurnal=True)  # type: ignore[call-arg]


def test_times_are_aware_datetimes_too(lab: Lab, topic: TopicHandle) -> None:
    (record,) = topic.get("1", fields=True)
    assert (record.published_at, record.expires_at) == (EIGHT, None)
    first, second = topic.history("2", fields=True, journal=True)
    assert (first.valid_until, second.valid_until) == (EIGHT + timedelta(seconds=1), None)
    assert topic.info().updated_at == EIGHT + timedelta(seconds=1)
    fading = lab.open().topic("fading")
    fading.publish([{"id": 1}], expiration="90s", timestamp=EIGHT)
    (record,) = fading.get("1", fields=True)
    assert record.expires_at == EIGHT + timedelta(seconds=90)
    assert record.expires_at.tzinfo is UTC
    with topic.subscribe("/id = 1", until_now=True) as events:
        found = {event.command: event.published_at for event in events}
    assert found["sow"] == EIGHT


def test_schema(lab: Lab, topic: TopicHandle) -> None:
    report = topic.schema()
    assert {facts.path: facts.types for facts in report.paths} == {
        "/id": {"integer": 3},
        "/v": {"number": 2, "integer": 1},
        "/s": {"string": 2},
    }
    assert report.to_json_schema() == json.loads(run_command(lab, "schema", "t", "--json-schema"))
    assert topic.schema("/id = 1").records == 1
    assert topic.schema(at=START).paths[2].missing == 0
    assert topic.schema(sample=2).looked_at == topic.schema(sample="2").looked_at == 2
    for wrong in ("many", 0, "0%"):
        with pytest.raises(sowctl.UsageError) as refused:
            topic.schema(sample=wrong)
        assert refused.value.code == "SOW-STA-002"
    with pytest.raises(TypeError, match="sample"):
        topic.schema(sample=0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["t.csv", "t.ndjson", "t.json.gz", "t.parquet", "t.msgpack"])
@pytest.mark.parametrize("meta", [False, True])
def test_an_export_is_that_of_the_command(lab: Lab, topic: TopicHandle, tmp_path: Path, name: str, meta: bool) -> None:
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / "command").mkdir()
    words = ["export", "t", str(tmp_path / "command" / name), "/id < 3", "--order-by", "/id DESC", "--limit", "1"]
    run_command(lab, *words, *(["--meta"] if meta else []))
    report = topic.export(tmp_path / name, "/id < 3", order_by="/id DESC", limit=1, meta=meta)
    assert (report.records, report.path) == (1, str(tmp_path / name))
    assert report.file_bytes == (tmp_path / name).stat().st_size
    assert (tmp_path / name).read_bytes() == (tmp_path / "command" / name).read_bytes()


def test_an_export_replaces_a_file_only_where_it_is_told_to(topic: TopicHandle, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("mine")
    with pytest.raises(sowctl.RefusedError) as refused:
        topic.export(str(path))
    assert (refused.value.code, refused.value.place) == ("SOW-CLI-011", str(path))
    assert "overwrite" in (refused.value.hint or "") and path.read_text() == "mine"
    assert topic.export(path, overwrite=True).records == 3
    with pytest.raises(sowctl.UsageError) as unknown:
        topic.export(tmp_path / "t.docx")
    assert unknown.value.code == "SOW-EXC-002"
    with pytest.raises(sowctl.UsageError):
        topic.export(tmp_path / "bad.csv", "/id >")
    assert [one.name for one in tmp_path.glob("*.*") if one.is_file()] == ["t.csv"]


@pytest.mark.parametrize("name", ["count", "schema", "export"])
def test_options_of_a_query_have_the_same_defaults_everywhere(name: str) -> None:
    defaults = dict(zip(QueryOptions.__struct_fields__, QueryOptions.__struct_defaults__, strict=True))
    shared = {
        word: one.default
        for word, one in inspect.signature(getattr(TopicHandle, name)).parameters.items()
        if word in defaults
    }
    assert shared == {word: defaults[word] for word in shared} and len(shared) > 3


def test_sql(lab: Lab, topic: TopicHandle) -> None:
    pytest.importorskip("duckdb")
    pyarrow = pytest.importorskip("pyarrow")
    instance = topic.instance
    assert isinstance(instance, InstanceHandle)
    found = instance.sql("SELECT id, v, _timestamp FROM t WHERE id = 2")
    assert (found.names, len(found)) == (["id", "v", "_timestamp"], 1)
    assert found.to_dicts() == [{"id": 2, "v": 7.0, "_timestamp": EIGHT + timedelta(seconds=1)}]
    assert found.to_dicts() == found.to_dicts()
    assert isinstance(found.to_arrow(), pyarrow.Table)
    assert pyarrow.table(found).equals(found.to_arrow())
    made = instance.sql("CREATE TABLE x AS SELECT max(v) AS top FROM t; SELECT * FROM x")
    assert made.to_dicts() == [{"top": 7.0}]
    silent = instance.sql("CREATE TABLE x AS SELECT 1")
    assert (len(silent), silent.names, silent.to_dicts()) == (0, [], [])
    with pytest.raises(sowctl.UsageError) as several:
        instance.sql("SELECT 1; SELECT 2")
    assert several.value.code == "SOW-EXC-021"
    with pytest.raises(sowctl.UsageError) as wrong:
        instance.sql("SELEC 1")
    assert wrong.value.code == "SOW-EXC-020"
    with pytest.raises(sowctl.UsageError):
        instance.sql(f"SELECT * FROM read_csv('{lab.config}')")
    assert len(instance.sql(f"SELECT * FROM read_text('{lab.config}')", allow_files=True)) == 1
    with pytest.raises(TypeError, match="statement"):
        instance.sql(5)  # type: ignore[arg-type]


def test_without_pandas_it_is_named(topic: TopicHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("sowctl.arrow.requirements.find_spec", lambda name: None if name == "pandas" else name)
    result = topic.query()
    with pytest.raises(sowctl.MissingPackageError) as missing:
        result.to_pandas()
    assert (missing.value.code, missing.value.exit_status) == ("SOW-EXC-001", 12)
    assert missing.value.hint == f"{sys.executable} -m pip install pandas"
    assert len(result.to_dicts()) == 3
