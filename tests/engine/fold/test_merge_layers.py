"""A memtable of runs and memory against a plain dictionary: lookups, windows in order, and the merge with a store."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.fold.blocks import encode_tombstone
from sowctl.engine.fold.memtable import Memtable
from sowctl.engine.fold.merge_layers import AllChanges, MemoryLayer, merge_changes, sort_all_changes
from sowctl.seam import SEAM
from sowctl.store.meta import StoreMeta
from sowctl.store.sortedrun import EVERY_CHANGE_KIND, SortedRun, write_run
from tests.support.stores import DEFINITION, START, key_of, value_of

KEYS = [key_of(number) for number in range(1, 31)]
LAYER = st.dictionaries(st.sampled_from(KEYS), st.booleans(), max_size=20)
BOUND = st.none() | st.integers(0, 31).map(key_of)
Plain = dict[bytes, bytes | None]


def overlay_of(directory: Path, layers: list[dict[bytes, bool]]) -> tuple[Memtable, Plain, list[Plain]]:
    """Return a memtable with its last layer in memory, the others in runs; the newest change per key; each layer."""
    (directory / "s.sow").touch()
    memtable, newest, each = Memtable(base=0), dict[bytes, bytes | None](), []
    for number, layer in enumerate(layers, start=1):
        for key, deleted in layer.items():
            txid = 100 * number
            if deleted:
                memtable.put_deletions([key], [encode_tombstone(key, b"checkwrd", txid, START + txid)])
            else:
                memtable.put_records([key], [value_of(key, txid, b"layer %d" % number)])
        each.append(dict(memtable.current_changes))
        newest |= memtable.current_changes
        if number < len(layers):
            keys = sorted(memtable.current_changes)
            state = StoreMeta(DEFINITION, lineage=b"l" * 16, applied=100 * number, last_time=START, block=(0, 0, 0))
            values = [memtable.current_changes[key] for key in keys]
            run = SortedRun(
                write_run(directory / "s.sow", state, memtable.memory_start_txid, len(keys), [(keys, values)], SEAM)
            )
            memtable.append_run(run, lambda run: MemoryLayer(each[run.last_txid // 100 - 1]))
    return memtable, newest, each


@given(
    layers=st.lists(LAYER, min_size=1, max_size=4),
    asked=st.sets(st.sampled_from(KEYS)),
    start=BOUND,
    stop=BOUND,
    size=st.integers(1, 9),
)
def test_an_overlay_is_its_newest_changes(
    layers: list[dict[bytes, bool]],
    asked: set[bytes],
    start: bytes | None,
    stop: bytes | None,
    size: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    memtable, newest, each = overlay_of(tmp_path_factory.mktemp("runs"), layers)
    assert memtable.memory_start_txid == 100 * (len(layers) - 1)
    assert len(memtable) == sum(map(len, each)) and len(memtable.runs) == len(layers) - 1
    assert memtable.find_values(sorted(asked)) == {key: newest[key] for key in asked if key in newest}
    parts = list(memtable.iterate_parts(size))
    assert [key for part in parts for key in part] == sorted(newest)
    assert {key: value for part in parts for key, value in part.items()} == newest
    assert all(len(part) <= size * len(layers) for part in parts)
    inside = [key for key in sorted(newest) if (start or b"") <= key < (stop or b"\xff" * 9)]
    windows = [sorted(part) for _, part in memtable.select_newest(size, start, stop).read_upto(None)]
    assert [key for part in windows for key in part] == inside
    memtable.load_runs()
    assert (memtable.current_changes, memtable.runs, len(memtable)) == (newest, [], len(newest))
    assert not any(value is None for value in newest.values()) or memtable.deletes
    assert memtable.held_bytes == sum(len(value) for value in newest.values() if value is not None)


@given(
    layers=st.lists(LAYER, min_size=1, max_size=3),
    there=st.sets(st.sampled_from(KEYS)),
    batch=st.integers(1, 9),
    size=st.integers(1, 9),
)
def test_a_store_merged_with_an_overlay(
    layers: list[dict[bytes, bool]], there: set[bytes], batch: int, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    memtable, newest, _ = overlay_of(tmp_path_factory.mktemp("runs"), layers)
    store = {key: value_of(key, 1, b"old") for key in sorted(there)}
    keys = list(store)
    batches = [keys[at : at + batch] for at in range(0, len(keys), batch)]
    pairs = [(part, [store[key] for key in part]) for part in batches]
    found = list(merge_changes(iter(pairs), memtable.select_newest(size)))
    whole: Plain = {**store, **newest}
    live = {key: value for key, value in whole.items() if value is not None}
    assert [key for part, _ in found for key in part] == sorted(live)
    assert {key: value for part in found for key, value in zip(*part, strict=True)} == live
    assert all(part for part, _ in found)


@given(
    layers=st.lists(st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), max_size=20), min_size=1, max_size=4),
    damaged=st.booleans(),
    start=BOUND,
    stop=BOUND,
    size=st.integers(1, 9),
)
def test_every_change_of_a_topic_with_history(
    layers: list[list[tuple[bytes, bool]]],
    damaged: bool,
    start: bytes | None,
    stop: bytes | None,
    size: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    store = tmp_path_factory.mktemp("runs") / "s.sow"
    store.touch()
    memtable, all_of, newest = Memtable(history=True), dict[bytes, list[bytes]](), Plain()
    each: list[list[tuple[bytes, bytes]]] = []
    for number, layer in enumerate(layers, start=1):
        for place, (key, deleted) in enumerate(layer, start=100 * number):
            if deleted:
                value = encode_tombstone(key, b"checkwrd", place, START + place)
                memtable.put_deletions([key], [value])
            else:
                value = value_of(key, place, b"payload")
                memtable.put_records([key], [value])
            all_of.setdefault(key, []).append(value)
            newest[key] = None if deleted else value
        assert memtable.changes is not None
        each.append(list(memtable.changes))
        if number < len(layers):
            parts = sort_all_changes(memtable.changes, size)
            state = StoreMeta(DEFINITION, lineage=b"l" * 16, applied=100 * number, last_time=START, block=(0, 0, 0))
            path = write_run(
                store, state, memtable.memory_start_txid, len(memtable.changes), parts, SEAM, EVERY_CHANGE_KIND
            )  # type: ignore[arg-type]
            run = SortedRun(path)
            run.check(size)
            assert (run.every, run.deletions) == (True, sum(deleted for _, deleted in layer))
            if damaged and layer:
                whole = path.read_bytes()
                path.unlink()
                path.write_bytes(whole[:-1] + bytes((whole[-1] ^ 1,)))
                run = SortedRun(path)
            memtable.append_run(run, lambda run: MemoryLayer({}, each[run.last_txid // 100 - 1]))
    assert len(memtable) == sum(map(len, layers))
    assert memtable.find_values(sorted(KEYS)) == newest
    assert {key: value for part in memtable.iterate_parts(size) for key, value in part.items()} == newest
    changes = memtable.list_layers()
    assert {key: changes.read_key_changes(key) for key in KEYS} == {key: all_of.get(key, []) for key in KEYS}
    windows = [window for _, window in AllChanges(changes, size, start, stop).read_upto(None)]
    inside = {key: values for key, values in all_of.items() if (start or b"") <= key < (stop or b"\xff" * 9)}
    assert {key: values for window in windows for key, values in window.items()} == inside
    assert [key for window in windows for key in sorted(window)] == sorted(inside)
    memtable.load_runs()
    again: dict[bytes, list[bytes]] = {}
    for key, value in memtable.changes or ():
        again.setdefault(key, []).append(value)
    assert (again, memtable.current_changes, memtable.runs) == (all_of, newest, [])
    assert memtable.held_bytes == sum(len(value) for values in all_of.values() for value in values)


def test_a_damaged_run_is_folded_again_once(tmp_path: Path) -> None:
    layers = [dict.fromkeys(KEYS[:9], False), {KEYS[1]: True}, {KEYS[2]: False}]
    memtable, newest, each = overlay_of(tmp_path, layers)
    path = memtable.runs[0].path
    whole = path.read_bytes()
    path.unlink()
    path.write_bytes(whole[:-1] + b"\0")  # the last value
    asked: list[int] = []

    def again(run: SortedRun) -> MemoryLayer:
        asked.append(run.last_txid)
        return MemoryLayer(each[run.last_txid // 100 - 1])

    damaged = Memtable(base=0, runs=[SortedRun(path), memtable.runs[1]], again=again)
    assert damaged.find_values(KEYS[:8]) == {key: each[0][key] for key in KEYS[:8]} | {KEYS[1]: None}
    assert asked == []
    before = {key: value for part in damaged.iterate_parts(4) for key, value in part.items()}
    assert before == {key: newest[key] if key != KEYS[2] else each[0][key] for key in newest}
    assert damaged.find_values([KEYS[8]]) == {KEYS[8]: each[0][KEYS[8]]}
    assert asked == [100]


def test_windows_end_at_what_is_asked_for(tmp_path: Path) -> None:
    memtable, newest, _ = overlay_of(tmp_path, [dict.fromkeys(KEYS[::2], False), dict.fromkeys(KEYS[::3], False)])
    changes = memtable.select_newest(4)
    first = [key for _, part in changes.read_upto(KEYS[10]) for key in sorted(part)]
    rest = [key for _, part in changes.read_upto(None) for key in sorted(part)]
    assert first == [key for key in sorted(newest) if key <= KEYS[10]]
    assert first + rest == sorted(newest)
    bounds = [bound for bound, _ in memtable.select_newest(4).read_upto(KEYS[20])]
    assert bounds[-1] == KEYS[20] and all(one < other for one, other in pairwise(filter(None, bounds)))
