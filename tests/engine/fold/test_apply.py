"""Applying a memtable: afterwards the store holds the newest value per key; versions and position change with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.fold.apply import AppliedChanges, apply_memtable
from sowctl.engine.fold.blocks import encode_tombstone
from sowctl.engine.fold.memtable import Memtable
from sowctl.engine.fold.removal import count_unreachable, remove_unreachable
from sowctl.engine.topics.retention import Retention, decode_version, extend_versions
from sowctl.engine.topics.retention import encode_version as value_of_version
from sowctl.store.env import Store
from sowctl.store.meta import AppliedPosition
from tests.support.stores import START, key_of, new_store, value_of

LINEAGE = b"l" * 16
RULE = Retention(50, 0)
Step = tuple[int, bool]
STEPS = st.lists(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=12), min_size=1, max_size=5)


def folded(memtable: Memtable, steps: list[Step], txid: int) -> list[tuple[bytes, bytes]]:
    """Put steps into a memtable from ``txid`` on; return keys and values."""
    log = []
    for number, (which, deleted) in enumerate(steps, start=txid):
        key = key_of(which)
        value = (
            encode_tombstone(key, b"checkwrd", number, START + number)
            if deleted
            else value_of(key, number, b"p%d" % number)
        )
        (memtable.put_deletions if deleted else memtable.put_records)([key], [value])
        log.append((key, value))
    return log


def records(store: Store) -> dict[bytes, bytes]:
    with store.open_snapshot() as snapshot:
        return {key: value for batch in snapshot.scan_records() for key, value in zip(*batch, strict=True)}


def versions(store: Store) -> dict[bytes, list[bytes]]:
    with store.open_snapshot() as snapshot:
        return {
            key: found
            for key in map(key_of, range(5))
            if (found := [value for _, _, value in snapshot.read_versions(key)])
        }


@pytest.mark.parametrize("rule", [None, RULE])
@given(batches=STEPS)
def test_a_store_holds_what_its_log_says(
    batches: list[list[Step]], rule: Retention | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("apply")
    log: list[tuple[bytes, bytes]] = []
    with Store.open(new_store(directory / "s.sow"), write=True) as store:
        for steps in batches:
            memtable = Memtable(history=rule is not None, base=len(log))
            log += folded(memtable, steps, len(log) + 1)
            apply_memtable(store, memtable, AppliedPosition(LINEAGE, len(log)), rule=rule)
            assert len(memtable) == 0 and memtable.base == len(log)
        meta = store.read_meta()
        assert (meta.applied, meta.lineage if log else LINEAGE) == (len(log), LINEAGE)
        found, older = records(store), versions(store)
    timelines: dict[bytes, list[bytes]] = {}
    for key, value in log:
        timelines.setdefault(key, []).append(value)
    live = {key: values[-1] for key, values in timelines.items() if decode_version(values[-1]).tombstone is False}
    assert found == live
    if rule is None:
        assert older == {}
    else:
        kept = {key: extend_versions([], values, rule) for key, values in timelines.items()}
        wanted = {
            key: [value_of_version(key, one) for one in (some if some[-1].tombstone else some[:-1])]
            for key, some in kept.items()
        }
        assert older == {key: values for key, values in wanted.items() if values}
    (directory / "s.sow").unlink()


@pytest.mark.parametrize("rule", [None, RULE])
def test_entries_are_applied_once_whoever_applies_them(tmp_path: Path, rule: Retention | None) -> None:
    """Two processes may hold the same entries; each skips entries that the other has applied, and adds newer ones."""
    with Store.open(new_store(tmp_path / "s.sow"), write=True) as store:
        first, second = (Memtable(history=rule is not None) for _ in range(2))
        folded(first, [(0, False), (1, False)], 1)
        folded(second, [(0, False), (1, False), (1, True), (2, False)], 1)
        assert apply_memtable(store, first, AppliedPosition(LINEAGE, 2), rule=rule) == AppliedChanges(2, 0)
        assert apply_memtable(store, second, AppliedPosition(LINEAGE, 4), rule=rule) == AppliedChanges(2, 0)
        assert sorted(records(store)) == [key_of(0), key_of(2)] and store.read_meta().applied == 4
        late = Memtable(history=rule is not None)
        folded(late, [(0, False), (1, False)], 1)
        assert apply_memtable(store, late, AppliedPosition(LINEAGE, 2), rule=rule) == AppliedChanges(0, 0)
        assert sorted(records(store)) == [key_of(0), key_of(2)] and store.read_meta().applied == 4


def test_nothing_is_applied_to_a_store_that_stands_before_the_overlay(tmp_path: Path) -> None:
    """A replay has installed an older store: the entries between are missing, and a new position would hide that."""
    with Store.open(new_store(tmp_path / "s.sow"), write=True) as store:
        first, later = Memtable(), Memtable(base=4)
        folded(first, [(0, False)], 1)
        apply_memtable(store, first, AppliedPosition(LINEAGE, 1), rule=None)
        folded(later, [(0, True)], 5)
        assert apply_memtable(store, later, AppliedPosition(LINEAGE, 5), rule=None) == AppliedChanges(0, 0)
        assert sorted(records(store)) == [key_of(0)] and store.read_meta().applied == 1


def test_expired_records_leave_with_the_transaction(tmp_path: Path) -> None:
    with Store.open(new_store(tmp_path / "s.sow"), write=True) as store:
        memtable = Memtable()
        memtable.put_records(
            [key_of(n) for n in range(4)],
            [value_of(key_of(n), n + 1, b"x", expiration=0 if n == 3 else START + 10 * n + 10) for n in range(4)],
        )
        assert apply_memtable(
            store, memtable, AppliedPosition(LINEAGE, 4), rule=None, remove_expired_at=START + 20
        ) == AppliedChanges(4, 2)
        assert sorted(records(store)) == [key_of(2), key_of(3)]
        assert store.read_meta().removal_mark == START + 20


def test_versions_outside_the_window_are_counted_and_removed_alike(tmp_path: Path) -> None:
    with Store.open(new_store(tmp_path / "s.sow"), write=True) as store:
        memtable = Memtable(history=True)
        folded(memtable, [(0, False)] * 3 + [(1, False), (1, True)], 1)
        apply_memtable(store, memtable, AppliedPosition(LINEAGE, 5), rule=RULE)
        held = versions(store)
        current = records(store)
        lines = [
            (key, [*map(decode_version, older), *([decode_version(current[key])] if key in current else [])])
            for key, older in held.items()
        ]
        now = START + 54  # versions that were replaced up to 4 microseconds after the start are outside the window
        counted = count_unreachable(lines, RULE, now)
        assert remove_unreachable(store, RULE, now) == counted > 0
        assert sum(map(len, versions(store).values())) == sum(map(len, held.values())) - counted
        assert records(store) == current
