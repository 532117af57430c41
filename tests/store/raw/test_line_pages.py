"""All records as lines of text: the same as a scan, in any parts, with the same errors."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.errors import DamageError
from sowctl.store import codec
from sowctl.store.env import Store
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.raw import line_pages as store_lined
from sowctl.store.snapshot import Snapshot
from tests.support.examples import examples
from tests.support.stores import STEPS, apply_steps, key_of, new_store, value_of

Found = tuple[list[bytes], list[bytes], list[tuple[int, int]]]


def _read(snapshot: Snapshot) -> tuple[Found, int]:
    """Return keys, payloads and stamps, and the number of records returned as lines."""
    keys, payloads, stamps, count = [], [], [], 0
    parts = snapshot.scan_lines(7)
    assert parts is not None
    for lines, (some, values) in parts:
        if lines is None:
            keys += some
            payloads += codec.extract_payloads(values)
            stamps += codec.read_all_stamps(values)
            continue
        more = list(lines.messages)
        keys += [lines.keys[start : start + 8] for start in range(0, len(lines.keys), 8)]
        payloads += more
        stamps += list(zip(lines.txids.tolist(), lines.times.tolist(), strict=True))
        count += len(more)
        if not any(b"\n" in one for one in more):
            cut = lines.text.split(b"\n")
            assert cut.pop() == b""
            assert [cut[place].lstrip(b" ") for place in lines.places.tolist()] == [one.lstrip(b" ") for one in more]
    return (keys, payloads, stamps), count


def _is_the_scan(path: Path) -> tuple[int, int]:
    """Compare with a scan; return the number of records, and how many of them were returned as lines."""
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        keys: list[bytes] = []
        values: list[bytes] = []
        for some, others in snapshot.scan_records():
            keys += some
            values += others
        found, count = _read(snapshot)
        assert found == (keys, codec.extract_payloads(values), codec.read_all_stamps(values))
        return len(keys), count


@pytest.mark.parametrize("together", [1, 8192, 1 << 22])
@pytest.mark.parametrize(("records", "size"), [(0, 60), (1, 60), (1, 61), (40, 1500), (5000, 60), (3000, 61)])
def test_all_records_are_those_of_a_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int, size: int, together: int
) -> None:
    monkeypatch.setattr(STORE_LIMITS, "page_batch_bytes", together)
    assert _is_the_scan(new_store(tmp_path / "t.sow", records, size=size)) == (records, records)


@settings(max_examples=examples(25), deadline=None)
@given(steps=st.lists(STEPS, max_size=5), together=st.sampled_from([1, 20_000]))
def test_after_any_changes(
    steps: list[tuple[bool, int, int, int]], together: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = new_store(tmp_path_factory.mktemp("w") / "t.sow", 300)
    apply_steps(path, steps, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(STORE_LIMITS, "page_batch_bytes", together)
        _is_the_scan(path)


def _changed(path: Path, key: bytes, value: bytes) -> None:
    with Store.open(path, write=True) as store:
        store.write(lambda txn: txn.put_records([key], [value]))


@pytest.mark.parametrize("payload", [b"x" * 9000, b'{"a":\n1}', b"", b"\xff\x00"])
def test_odd_payloads_among_plain_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, payload: bytes) -> None:
    path = new_store(tmp_path / "t.sow", 2000)
    monkeypatch.setattr(STORE_LIMITS, "page_batch_bytes", 20_000)
    _changed(path, key_of(700), value_of(key_of(700), 2, payload))
    records, count = _is_the_scan(path)
    # A value on overflow pages leaves only the adjacent pages to LMDB.
    assert records == 2000
    assert count == 2000 if len(payload) < 2000 else 1500 < count < 2000


def test_records_with_optional_parts_are_left_to_the_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = new_store(tmp_path / "t.sow", 2000)
    monkeypatch.setattr(STORE_LIMITS, "page_batch_bytes", 20_000)
    key = key_of(700)
    _changed(path, key, codec.encode_record(key, b"checkwrd", 2, 3, 0, 0, b"{}", (None, b"c", None)))
    assert 1500 < _is_the_scan(path)[1] < 2000


@pytest.mark.parametrize("behind", [-10, -3, 3, codec.HEADER_SIZE + 3])
def test_damage_is_named_as_by_a_scan(tmp_path: Path, behind: int) -> None:
    """A bit flip in the size of the key, in the key, in the header and in the payload of a record."""
    path = new_store(tmp_path / "t.sow", 300)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        (place,) = snapshot.locate_values(b"".join(sorted(map(key_of, range(300)))))[0][150:151].tolist()  # type: ignore[index]
    data = bytearray(path.read_bytes())
    data[place + behind] ^= 1
    path.write_bytes(data)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        found = []
        for read in (lambda: list(snapshot.scan_records(batch=7)), lambda: _read(snapshot)):
            with pytest.raises(DamageError) as caught:
                read()
            found.append((caught.value.code, caught.value.message))
        assert found[0] == found[1]


def test_damage_at_the_ends_of_parts_is_named_as_by_a_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STORE_LIMITS, "page_batch_bytes", 1)
    path = new_store(tmp_path / "t.sow", 300)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        places = snapshot.locate_values(b"".join(sorted(map(key_of, range(300)))))[0].tolist()  # type: ignore[index]
    sound = path.read_bytes()
    # The records of a page are close together, and the next one is in another page.
    ends = [one for one, two in enumerate(pairwise(places)) if abs(two[1] - two[0]) > 1000][:2]
    assert len(ends) == 2
    for number in [place for end in ends for place in (end, end + 1)]:
        data = bytearray(sound)
        data[places[number] + codec.HEADER_SIZE + 3] ^= 1
        path.write_bytes(data)
        with (
            Store.open(path, write=False) as store,
            store.open_snapshot() as snapshot,
            pytest.raises(DamageError) as caught,
        ):
            _read(snapshot)
        key = int.from_bytes(key_of(number), "big")
        assert (caught.value.code, str(key) in caught.value.message) == ("SOW-STO-001", True)


def test_a_page_that_no_file_has_is_damage(tmp_path: Path) -> None:
    path, key = new_store(tmp_path / "t.sow", 300), key_of(150)
    _changed(path, key, value_of(key, 2, b"x" * 9000))
    data = path.read_bytes()
    # The key is followed by the number of the page on which the value starts, which is small.
    path.write_bytes(re.sub(re.escape(key) + rb"[^\0].{2}\0{5}", key + b"\xff" * 8, data, flags=re.DOTALL))
    assert path.read_bytes() != data
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        for read in (lambda: list(snapshot.scan_records(batch=7)), lambda: _read(snapshot)):
            with pytest.raises(DamageError) as caught:
                read()
            assert caught.value.code == "SOW-STO-023"


def test_another_state_gives_nothing(tmp_path: Path) -> None:
    path = new_store(tmp_path / "t.sow", 300)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        file = snapshot._get_data_file()
        assert store_lined.open_line_pages(file, snapshot.txnid) is not None
        assert store_lined.open_line_pages(file, snapshot.txnid - 1) is None
        assert store_lined.open_line_pages(None, snapshot.txnid) is None
