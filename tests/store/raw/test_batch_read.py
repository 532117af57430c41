"""Batch reads from a mapped file: the same result as looking the records up one by one."""

from __future__ import annotations

import mmap
import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.errors import DamageError
from sowctl.store import codec
from sowctl.store.codec import Offsets
from sowctl.store.env import Store
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.raw import offset_read as store_offsets
from sowctl.store.raw.batch_read import BatchValues, read_batch
from sowctl.store.snapshot import Snapshot
from tests.support.examples import examples
from tests.support.stores import STEPS, apply_steps, batch, key_of, new_store


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Map a file even for a few reads."""
    monkeypatch.setattr(STORE_LIMITS, "plain_read_bytes", 1 << 40)
    yield
    store_offsets.close_open_files()


def contents(snapshot: Snapshot) -> dict[bytes, bytes]:
    return {key: value for keys, values in snapshot.scan_records() for key, value in zip(keys, values, strict=True)}


def spots_of(snapshot: Snapshot) -> Offsets:
    found = snapshot.locate_values(b"".join(contents(snapshot)))
    assert found is not None
    return Offsets(found[0].astype(np.int64), found[1].astype(np.int64), found[2].tobytes())


def gathered(path: Path, keys: list[bytes], locations: Offsets) -> tuple[BatchValues, list[int]] | None:
    return read_batch(path.read_bytes(), keys, *locations)  # type: ignore[arg-type]


@pytest.mark.parametrize(("records", "size"), [(1, 60), (2, 0), (40, 2500), (5000, 60), (3000, 300)])
def test_all_records_in_one_run(tmp_path: Path, records: int, size: int) -> None:
    path = new_store(tmp_path / "t.sow", records, size=size)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        known, locations = contents(snapshot), spots_of(snapshot)
        keys, values = snapshot.read_values_at(list(known), locations)
    assert isinstance(values, BatchValues)
    assert (keys, list(values)) == (list(known), list(known.values()))
    assert codec.extract_payloads(values) == codec.extract_payloads(list(known.values()))


def test_a_run_is_a_sequence_of_values(tmp_path: Path) -> None:
    path = new_store(tmp_path / "t.sow", 30)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        known, locations = contents(snapshot), spots_of(snapshot)
    found = gathered(path, list(known), locations)
    assert found is not None
    run, missing = found
    values = list(known.values())
    assert missing == []
    assert len(run) == 30
    assert [run[place] for place in (0, 7, 29, -1)] == [values[place] for place in (0, 7, 29, -1)]
    for part in (slice(3, 9), slice(None), slice(5, 5), slice(-4, None)):
        assert list(run[part]) == values[part]
        assert codec.extract_payloads(run[part]) == codec.extract_payloads(values[part])
    for places in ([], [4], [29, 0, 3]):
        assert list(run.select_values(places)) == [values[place] for place in places]
        assert codec.extract_payloads(run.select_values(places)) == codec.extract_payloads(
            [values[place] for place in places]
        )
    with pytest.raises(IndexError):
        run[30]


def test_optional_parts_and_large_values_are_left_to_others(tmp_path: Path) -> None:
    path = new_store(tmp_path / "t.sow", 20)
    key = key_of(7)
    value = codec.encode_record(key, bytes(8), 2, 1, 0, 0, b"{}", (b"seven", None, None))
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records([key], [value]))
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        known, locations = contents(snapshot), spots_of(snapshot)
        assert gathered(path, list(known), locations) is None
        assert snapshot.read_values_at(list(known), locations) == (list(known), list(known.values()))
    path = new_store(tmp_path / "large.sow", 3, size=STORE_LIMITS.max_run_bytes // 2)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        known, locations = contents(snapshot), spots_of(snapshot)
        assert gathered(path, list(known), locations) is None
        assert snapshot.read_values_at(list(known), locations) == (list(known), list(known.values()))


def test_what_is_elsewhere_now_is_told(tmp_path: Path) -> None:
    path = new_store(tmp_path / "t.sow", 100)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        known, locations = contents(snapshot), spots_of(snapshot)
    keys, values = list(known), list(known.values())
    sums = bytearray(locations.sums)
    for place in (0, 41, 99):
        sums[4 * place + 1] ^= 0x80
    found = gathered(path, keys, locations._replace(sums=bytes(sums)))
    assert found is not None
    assert found[1] == [0, 41, 99]
    assert list(found[0]) == [value for place, value in enumerate(values) if place not in (0, 41, 99)]
    assert gathered(path, keys, locations._replace(sums=bytes(400))) is None, "nothing is there"


def test_spots_that_lead_nowhere(tmp_path: Path) -> None:
    path = new_store(tmp_path / "t.sow", 300)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        keys = [key_of(number) for number in (5, 6, 7, 999)]
        wanted = snapshot.read_values(keys)
        for start, size in ((0, 0), (1 << 60, 100), (-1, 100), (-(1 << 62), 60), (4096, 96), (4097, 1 << 20)):
            locations = Offsets(np.full(4, start, np.int64), np.full(4, size, np.int64), bytes(16))
            present, values = snapshot.read_values_at(keys, locations)
            assert (present, list(values)) == (keys[:3], list(wanted.values()))
        nothing = np.empty(0, np.int64)
        assert gathered(path, [], Offsets(nothing, nothing, b"")) is None


def test_another_key_at_a_place_is_not_taken_for_the_one(tmp_path: Path) -> None:
    path = new_store(tmp_path / "t.sow", 50)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        known, locations = contents(snapshot), spots_of(snapshot)
    keys = list(known)
    keys[3], keys[4] = keys[4], keys[3]
    assert gathered(path, keys, locations) is None


def test_any_wrong_byte_is_noticed(tmp_path: Path) -> None:
    """A byte of a value: the result is nothing or the right value (its checksum is known from elsewhere)."""
    path = new_store(tmp_path / "t.sow", 60)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        known, locations = contents(snapshot), spots_of(snapshot)
    raw = path.read_bytes()
    for place in (0, 31, 59):
        for at in range(int(locations.starts[place]), int(locations.starts[place] + locations.sizes[place])):
            damaged = bytearray(raw)
            damaged[at] ^= random.Random(at).randrange(1, 256)
            found = read_batch(bytes(damaged), list(known), *locations)  # type: ignore[arg-type]
            if found is not None:
                values = list(known.values())
                assert found[1] == [place], "only its checksum shows that it may be another one"
                assert list(found[0]) == values[:place] + values[place + 1 :]


def test_damage_is_an_error_when_it_is_read(tmp_path: Path) -> None:
    path = new_store(tmp_path / "t.sow", 300)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        keys, locations = list(contents(snapshot)), spots_of(snapshot)
    raw = bytearray(path.read_bytes())
    raw[int(locations.starts[7]) + 50] ^= 1
    path.write_bytes(raw)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        with pytest.raises(DamageError) as caught:
            snapshot.read_values_at(keys, locations)
        assert caught.value.facts["sow_key"] == int.from_bytes(keys[7], "big")


_STEPS = st.lists(STEPS, max_size=8)


@given(_STEPS, _STEPS)
@settings(max_examples=examples(40))
def test_whatever_was_written_since(before: Any, after: Any) -> None:
    with TemporaryDirectory() as place:
        path = new_store(Path(place) / "t.sow", 600)
        apply_steps(path, before, 2)
        with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
            old, locations = contents(snapshot), spots_of(snapshot)
        apply_steps(path, after, 2 + len(before))
        with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
            now = contents(snapshot)
            same = [at for at, key in enumerate(old) if now.get(key) == old[key]]
            keys = [list(old)[at] for at in same]
            sums = b"".join(locations.select_range(at, at + 1).sums for at in same)
            present, values = snapshot.read_values_at(
                keys, Offsets(locations.starts[same], locations.sizes[same], sums)
            )
            assert (present, list(values)) == (keys, [old[key] for key in keys])


def test_a_file_that_is_empty_now_is_not_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = new_store(tmp_path / "t.sow", 30)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        known, locations = contents(snapshot), spots_of(snapshot)
        store_offsets.close_open_files()
        file = store_offsets.open_data_file(path, path.stat().st_ino, snapshot._handle.seam)
        assert file is not None
        monkeypatch.setattr(file, "map_file", lambda: mmap.mmap(-1, 0))
        assert snapshot.read_values_at(list(known), locations) == (list(known), list(known.values()))


def test_a_file_that_grew_is_mapped_once_more_for_what_is_new(tmp_path: Path) -> None:
    path = new_store(tmp_path / "t.sow", 300)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        known, locations = contents(snapshot), spots_of(snapshot)
        snapshot.read_values_at(list(known), locations)
        file = store_offsets.open_data_file(path, path.stat().st_ino, snapshot._handle.seam)
        assert file is not None
        first = file._map
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records(*batch(range(1000, 3000), 2)))
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        fresh = sorted(key_of(number) for number in range(1000, 3000))
        every, places = list(contents(snapshot)), spots_of(snapshot)
        at = np.array([every.index(key) for key in fresh])
        sums = b"".join(places.select_range(one, one + 1).sums for one in at.tolist())
        found = Offsets(places.starts[at], places.sizes[at], sums)
        assert list(snapshot.read_values_at(fresh, found)[1]) == list(snapshot.read_values(fresh).values())
        assert list(snapshot.read_values_at(list(known), locations)[1]) == list(known.values())
    assert file._map is first
    assert file._newest is not first
