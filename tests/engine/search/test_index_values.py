"""Memo indexes are the same files, regardless of the way in which values are collected."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sowctl.engine.search import index_values
from sowctl.engine.search.blocks import BlockColumnReader
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.errors import InputError
from sowctl.forked_process import ForkedProcess
from sowctl.memo.format import MemoFile, MemoKind
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.snapshot import Snapshot
from tests.support.instances import Lab, config_xml, message, topic_xml

FILTER = "/n > 5 AND /s = 'x' AND /mixed = 'y'"


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab(tmp_path, config_xml(topic_xml("t"), ("t",)))
    rows = range(2500)
    mixed = [1, "y", None, True, 2.5, [1, 2]]
    lab.publish("t", *(message(id=n, n=n % 70, s="xyz"[n // 1000], mixed=mixed[n % 6]) for n in rows))
    return lab


def _built(lab: Lab) -> dict[str, bytes]:
    """Return the files of the indexes that a query builds."""
    lab.query("t", FILTER, index_from=0)
    lab.query("t", FILTER, index_from=0)
    files = {path.name: path.read_bytes() for path in lab.store("t").parent.rglob("*.memo")}
    for path in lab.store("t").parent.rglob("*.memo"):
        path.unlink()
    assert len(files) == 5
    return files


def test_every_way_makes_the_same_files(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_values, "count_processors", lambda: 2)
    monkeypatch.setattr(index_values, "can_fork", lambda: True)
    forks: list[bool] = []
    original = ForkedProcess.wait_for_success
    monkeypatch.setattr(ForkedProcess, "wait_for_success", lambda self: forks.append(original(self)) or forks[-1])
    alone = _built(lab)
    monkeypatch.setattr(QUERY_LIMITS, "parallel_min_records", 100)
    assert _built(lab) == alone
    assert forks == [True]
    parent, reads = os.getpid(), index_values.IndexFieldReader.create_builders
    monkeypatch.setattr(
        index_values.IndexFieldReader,
        "create_builders",
        lambda self: reads(self) if os.getpid() == parent else os._exit(9),
    )
    assert _built(lab) == alone
    assert forks == [True, False]
    monkeypatch.setattr(Snapshot, "read_record_offsets", lambda _: None)
    assert _built(lab) == alone


def test_lines_of_few_shapes_make_the_files_of_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns without an object per value, including records that match no shape."""
    lab = Lab(tmp_path, config_xml(topic_xml("t"), ("t",)))
    odd = {
        7: {"s": 'a"b'},
        90: {"mixed": 1},
        91: {"mixed": None},
        1900: {"n": 2.5},
        1901: {"n": 1 << 60},
        5: {"s": [1]},
    }
    rows = [{"id": n, "n": n % 70, "s": "xyz"[n // 1000], "mixed": "y"} | odd.get(n, {}) for n in range(2500)]
    lab.publish("t", *(message(**row) for row in rows), message(id=3000, n=1, s="x", mixed="y" * 9000))
    found = []
    shaped = BlockColumnReader.read_by_template
    monkeypatch.setattr(BlockColumnReader, "read_by_template", lambda *a: found.append(part := shaped(*a)) or part)
    monkeypatch.setattr(STORE_LIMITS, "page_batch_bytes", 100_000)
    by_shapes = _built(lab)
    assert sum(part is not None for part in found) > 1
    for large in (100, 1 << 40):
        monkeypatch.setattr(QUERY_LIMITS, "parallel_min_records", large)
        monkeypatch.setattr(index_values, "count_processors", lambda: 2)
        monkeypatch.setattr(index_values, "can_fork", lambda: True)
        assert _built(lab) == by_shapes
    monkeypatch.setattr(BlockColumnReader, "read_by_template", lambda *_: None)
    assert _built(lab) == by_shapes
    monkeypatch.setattr(index_values, "find_template_reader", lambda *_: None)
    assert _built(lab) == by_shapes


@pytest.mark.parametrize("large", [1, 1 << 40])
def test_an_unreadable_record_spoils_every_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: int) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("t", key=None), ("t",)))
    for number in range(20):
        lab.publish("t", message(n=number), sow_key=f"K{number}")
    lab.publish("t", '{"n":', sow_key="bad")
    monkeypatch.setattr(index_values, "count_processors", lambda: 2)
    monkeypatch.setattr(index_values, "can_fork", lambda: True)
    monkeypatch.setattr(QUERY_LIMITS, "parallel_min_records", large)
    with pytest.raises(InputError):
        lab.query("t", "/n > 5 AND /m IS NULL", index_from=0)
    kinds = [MemoFile(path).head.kind for path in lab.store("t").parent.rglob("*.memo")]
    assert sorted(kinds) == [MemoKind.KEYS, MemoKind.UNSUITED, MemoKind.UNSUITED, MemoKind.SPOTS]
