"""Data frames and tables passed to publish: each row is a message; data without columns is rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sowctl
from sowctl.engine.api.topic import TopicHandle
from tests.support.instances import config_xml, topic_xml

COLUMNS = {"id": [1, 2, 3], "v": [1.5, None, 2.0], "s": ["a", "é", None]}
ROWS = ['{"id":1,"v":1.5,"s":"a"}', '{"id":2,"s":"é"}', '{"id":3,"v":2.0}']


def topic_of(tmp_path: Path) -> TopicHandle:
    (tmp_path / "sowctl.xml").write_text(config_xml(topic_xml("t"), ("t",)))
    return sowctl.open(str(tmp_path / "sowctl.xml")).topic("t")


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow.table", "pyarrow.record_batch", "a reader"])
def test_a_row_is_a_message(tmp_path: Path, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Importing polars sets this variable; it must not stay set.
    monkeypatch.setenv("_RJEM_MALLOC_CONF", "")
    pa = pytest.importorskip("pyarrow")
    frame: Any
    if library in ("pandas", "polars"):
        frame = pytest.importorskip(library).DataFrame(COLUMNS)
        if not hasattr(frame, "__arrow_c_stream__"):
            pytest.skip("a release that does not hand out its columns")
    elif library == "a reader":
        frame = pa.table(COLUMNS).to_reader(2)
    else:
        frame = getattr(pa, library.partition(".")[2])(COLUMNS)
    topic = topic_of(tmp_path)
    assert topic.publish(frame).published == 3
    assert sorted(record.payload.decode() for record in topic.query().records()) == ROWS


def test_what_has_no_columns(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    topic = topic_of(tmp_path)
    for one in (pa.chunked_array([["a"]]), pa.array(["a"])):
        with pytest.raises(TypeError, match="no columns"):
            topic.publish(one)
    assert topic.publish(pa.table({"v": [1], "id": [None]}), on_error="skip").rejected == 1


def test_an_index_of_pandas_is_a_field_where_it_has_a_name(tmp_path: Path) -> None:
    """A filtered frame has an unnamed index of the remaining rows."""
    pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": [1, 2, 3], "v": [1, 2, 3]})
    if not hasattr(frame, "__arrow_c_stream__"):
        pytest.skip("a release that does not hand out its columns")
    topic = topic_of(tmp_path)
    assert topic.publish(frame[frame["v"] > 1]).published == 2
    assert topic.publish(frame[frame["v"] == 1].set_index("id")).published == 1
    assert topic.query(order_by="/id").to_dicts() == [{"v": 1, "id": 1}, {"id": 2, "v": 2}, {"id": 3, "v": 3}]


def test_a_lazy_frame_is_to_be_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_RJEM_MALLOC_CONF", "")
    polars = pytest.importorskip("polars")
    topic = topic_of(tmp_path)
    frame = polars.DataFrame(COLUMNS).lazy()
    with pytest.raises(TypeError, match=r"collect\(\)"):
        topic.publish(frame)
    assert topic.publish(frame.collect()).published == 3


def test_results_are_tables_too(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    topic = topic_of(tmp_path)
    topic.publish([{"id": 1, "v": (1 << 60) + 1}, {"id": 2}])
    other = sowctl.create(tmp_path / "other", {"u": "/id"}).topic("u")
    assert other.publish(topic.query()).published == 2
    assert other.query(order_by="/id").to_dicts() == [{"id": 1, "v": (1 << 60) + 1}, {"id": 2}]
    pytest.importorskip("duckdb")
    instance = sowctl.open(tmp_path / "other")
    assert instance.publish("u", instance.sql("SELECT id + 2 AS id FROM u")).inserted == 2
