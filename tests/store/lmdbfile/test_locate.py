"""Locations of records in the file, and reads at them: the same result as a lookup, whatever was written since."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.errors import DamageError
from sowctl.seam import SEAM
from sowctl.store.codec import Offsets
from sowctl.store.env import Store
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.lmdbfile.locate import StaleTree, locate_values
from sowctl.store.raw import offset_read as store_offsets
from sowctl.store.raw.offset_read import DataFile, open_data_file, read_records_by_key, read_values_at
from sowctl.store.snapshot import Snapshot
from tests.support.examples import examples
from tests.support.stores import STEPS, apply_steps, key_of, new_store


def _keys(snapshot: Snapshot) -> list[bytes]:
    return [key for keys, _ in snapshot.scan_records() for key in keys]


def _located(snapshot: Snapshot) -> Offsets:
    found = snapshot.locate_values(b"".join(_keys(snapshot)))
    assert found is not None
    return Offsets(found[0].tolist(), found[1].tolist(), found[2].tobytes())


def _misses(snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the number of keys that the snapshot looks up from now on, per call."""
    counts: list[int] = []
    look_up = snapshot.read_values

    def counted(keys: Any) -> Any:
        counts.append(len(keys))
        return look_up(keys)

    monkeypatch.setattr(snapshot, "read_values", counted)
    return counts


@pytest.mark.parametrize(("records", "size"), [(0, 60), (1, 60), (3, 9000), (40, 2500), (5000, 60), (20_000, 100)])
def test_every_record_lies_where_the_tree_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int, size: int
) -> None:
    path = new_store(tmp_path / "t.sow", records, size=size)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        keys, locations = _keys(snapshot), _located(snapshot)
        assert len(locations.starts) == len(keys) == records
        wanted = snapshot.read_values(keys)
        missed = _misses(snapshot, monkeypatch)
        assert snapshot.read_values_at(keys, locations) == (keys, [wanted[key] for key in keys])
        assert missed == []


_STEPS = st.lists(STEPS, max_size=12)


@given(_STEPS, _STEPS)
@settings(max_examples=examples(40), deadline=None)
def test_reading_at_old_spots_is_looking_up(before: Any, after: Any) -> None:
    """After any writes: unmoved records are read at their locations, moved ones looked up, deleted ones missing."""
    with TemporaryDirectory() as place:
        path = new_store(Path(place) / "t.sow", 600)
        apply_steps(path, before, 2)
        with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
            keys, locations = _keys(snapshot), _located(snapshot)
            old = snapshot.read_values(keys)
        apply_steps(path, after, 2 + len(before))
        with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
            found = snapshot.read_values(keys)
            # only unchanged records may be read by their old locations
            same = [at for at, key in enumerate(keys) if found.get(key) == old[key]]
            starts, sizes = ([part[at] for at in same] for part in (locations.starts, locations.sizes))
            asked = Offsets(starts, sizes, b"".join(locations.sums[4 * at : 4 * at + 4] for at in same))
            chosen = [keys[at] for at in same]
            assert snapshot.read_values_at(chosen, asked) == (chosen, [old[key] for key in chosen])
            # and of changed records, neither an old value nor a deleted one is returned once its page is written again
            wrong = Offsets(locations.starts, locations.sizes, bytes(byte ^ 1 for byte in locations.sums))
            present = [key for key in keys if key in found]
            assert snapshot.read_values_at(keys, wrong) == (present, [found[key] for key in present])


@given(st.integers(0, 900), _STEPS, st.sets(st.integers(0, 1100), max_size=80))
@settings(max_examples=examples(40), deadline=None)
def test_many_keys_read_by_their_pages_are_looked_up(records: int, steps: Any, numbers: set[int]) -> None:
    """They include large values, deleted keys, and keys outside the tree."""
    with TemporaryDirectory() as place:
        path = new_store(Path(place) / "t.sow", records)
        apply_steps(path, steps, 2)
        keys = sorted({*map(key_of, numbers), bytes(8), b"\xff" * 8})
        with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
            wanted = snapshot.read_values(keys)
            with pytest.MonkeyPatch.context() as patch:
                missed = _misses(snapshot, patch)
                present, values = snapshot.read_many_values(keys)
            assert list(zip(present, values, strict=True)) == sorted(wanted.items())
            # Only absent keys are left to the search, which proves their absence.
            assert sum(missed) == len(keys) - len(wanted)
            assert snapshot.read_many_values([]) == ([], [])


def test_many_keys_of_a_damaged_file_are_those_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = new_store(tmp_path / "t.sow", 400)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        keys, txnid = _keys(snapshot)[::3], snapshot._txn.id()
        wanted = snapshot.read_values(keys)
    raw = path.read_bytes()
    for at in range(0, len(raw), 131):
        damaged = bytearray(raw)
        damaged[at] ^= 0xFF
        file = DataFile(path, SEAM)
        monkeypatch.setattr(file, "map_file", lambda: damaged)  # noqa: B023  # called in this round alone
        present, values = read_records_by_key(file, txnid, keys, lambda some: {key: wanted[key] for key in some})
        assert list(zip(present, values, strict=True)) == list(wanted.items())
        file.close()


def test_many_keys_of_a_state_that_is_not_the_last_one(tmp_path: Path) -> None:
    path = new_store(tmp_path / "t.sow", 300)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        keys = _keys(snapshot)
        wanted = snapshot.read_values(keys)
        file = open_data_file(path, path.stat().st_ino, SEAM)
        found = read_records_by_key(file, snapshot._txn.id() + 1, keys, snapshot.read_values)
        assert found == (keys, list(wanted.values()))


def test_spots_that_lead_nowhere(tmp_path: Path) -> None:
    path = new_store(tmp_path / "t.sow", 300)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        keys = [key_of(number) for number in (5, 6, 7, 999)]
        wanted = snapshot.read_values(keys)
        for start, size in ((0, 0), (1 << 60, 100), ((1 << 64) - 1, 1 << 20), (4096, 96), (4097, 1 << 20)):
            assert snapshot.read_values_at(keys, Offsets([start] * 4, [size] * 4, bytes(16))) == (
                keys[:3],
                list(wanted.values()),
            )


def test_a_damaged_record_is_an_error_there_too(tmp_path: Path) -> None:
    path = new_store(tmp_path / "t.sow", 300)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        keys, locations = _keys(snapshot), _located(snapshot)
    raw = bytearray(path.read_bytes())
    raw[locations.starts[7] + 50] ^= 1
    path.write_bytes(raw)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        with pytest.raises(DamageError) as caught:
            snapshot.read_values_at(keys, locations)
        assert caught.value.facts["sow_key"] == int.from_bytes(keys[7], "big")


def test_a_store_in_the_place_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The map is of the file that the snapshot reads, before and after the path refers to another one."""
    path = new_store(tmp_path / "t.sow", 300)
    other = new_store(tmp_path / "other.sow", 300, size=200)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        keys, locations = _keys(snapshot), _located(snapshot)
        wanted = snapshot.read_values(keys)
        shutil.move(other, path)
        missed = _misses(snapshot, monkeypatch)
        assert snapshot.read_values_at(keys, locations) == (keys, [wanted[key] for key in keys])
        assert missed == [300], "the path shows another file than the one that is open"
        assert snapshot.locate_values(b"".join(keys)) is None
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        wanted = snapshot.read_values(keys)
        assert snapshot.read_values_at(keys, locations) == (keys, [wanted[key] for key in keys])


def test_another_state_than_the_one_asked_for(tmp_path: Path) -> None:
    path = new_store(tmp_path / "t.sow", 50)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        keys = b"".join(_keys(snapshot))
        file = open_data_file(path, path.stat().st_ino, SEAM)
        assert file is not None
        data = file.map_file()
        txnid = snapshot._txn.id()
        assert len(locate_values(data, txnid, b"records", keys)[0]) == 50
        for number, name, asked in (
            (txnid + 5, b"records", keys),
            (txnid, b"nothing", keys),
            (txnid, b"records", keys[8:]),
            (txnid, b"records", keys[::-1]),
            (txnid, b"history", keys),
        ):
            with pytest.raises(StaleTree):
                locate_values(data, number, name, asked)


def test_any_wrong_byte_in_the_pages_leads_nowhere_or_to_the_same(tmp_path: Path) -> None:
    """A search for locations must not raise other errors, and its result is not trusted: the records are verified."""
    path = new_store(tmp_path / "t.sow", 400)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        keys, txnid = _keys(snapshot), snapshot._txn.id()
        wanted = snapshot.read_values(keys)
    raw, file = path.read_bytes(), DataFile(path, SEAM)
    file.map_file()
    for at in range(0, len(raw), 131):
        damaged = bytearray(raw)
        damaged[at] ^= 0xFF
        try:
            found = locate_values(damaged, txnid, b"records", b"".join(keys))  # type: ignore[arg-type]
        except StaleTree:
            continue
        locations = Offsets(found[0].tolist(), found[1].tolist(), found[2].tobytes())
        try:
            values, wrong = read_values_at(file, keys, locations)
        except OverflowError:
            continue
        assert all(values[place] == wanted[key] for place, key in enumerate(keys) if place not in wrong)
    file.close()


@pytest.mark.parametrize("share", [1, 1 << 30])
def test_by_plain_reads_and_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: int) -> None:
    monkeypatch.setattr(STORE_LIMITS, "plain_read_bytes", share)
    path = new_store(tmp_path / "t.sow", 300)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        keys, locations = _keys(snapshot), _located(snapshot)
        wanted = list(snapshot.read_values(keys).values())
    file = DataFile(path, SEAM)
    assert read_values_at(file, keys, locations) == (wanted, [])
    assert (file._map is None) == (share == 1)
    assert file.read_values([path.stat().st_size - 3], [10]) == [path.read_bytes()[-3:]]
    file.close()


def test_few_files_are_kept(tmp_path: Path) -> None:
    for number in range(store_offsets.MAX_OPEN_FILES + 3):
        path = new_store(tmp_path / f"{number}.sow", 3)
        assert open_data_file(path, path.stat().st_ino, SEAM) is not None
    assert len(store_offsets._open_files) == store_offsets.MAX_OPEN_FILES
    assert open_data_file(path, path.stat().st_ino + 1, SEAM) is None
    path.unlink()
    assert open_data_file(path, 1, SEAM) is None
    assert path not in store_offsets._open_files
