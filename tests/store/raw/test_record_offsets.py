"""All records by their offsets in the file: the same as a scan, or nothing."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sowctl.store import codec
from sowctl.store.env import Store
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.raw.record_offsets import read_record_offsets
from tests.support.examples import examples
from tests.support.stores import STEPS, apply_steps, key_of, new_store


def _is_the_scan(path: Path, step: int = 700) -> None:
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        keys, values = [], []
        for some, others in snapshot.scan_records():
            keys += some
            values += others
        whole = snapshot.read_record_offsets()
        assert whole is not None
        assert (whole.keys, len(whole)) == (b"".join(keys), len(keys))
        found = []
        for start in range(0, len(whole), step):
            part = whole.read_values(start, min(start + step, len(whole)))
            assert part is not None
            found += list(part)
        assert found == values
        for start, stop in ((0, len(keys)), (len(keys) // 3, len(keys) - len(keys) // 5)):
            shown = start
            for low, high, lines in whole.iter_lines(start, stop):
                assert low == shown < high <= stop
                shown = high
                if lines is not None:
                    assert lines.keys == b"".join(keys[low:high])
                    assert list(lines.messages) == codec.extract_payloads(values[low:high])
                    text = lines.text.split(b"\n")
                    assert [text[place].lstrip() for place in lines.places] == list(lines.messages)
            assert shown == stop
        txids, times = whole.read_stamps()
        assert list(zip(txids.tolist(), times.tolist(), strict=True)) == codec.read_all_stamps(values)
        located = snapshot.locate_values(whole.keys)
        assert located is not None
        assert [part.tolist() for part in whole.build_value_offsets()] == [part.tolist() for part in located]


@pytest.mark.parametrize(("records", "size"), [(0, 60), (1, 60), (40, 2500), (3, 9000), (5000, 60)])
def test_all_records_are_those_of_a_scan(tmp_path: Path, records: int, size: int) -> None:
    with patch.object(STORE_LIMITS, "page_batch_bytes", 20_000):
        _is_the_scan(new_store(tmp_path / "t.sow", records, size=size))


@settings(max_examples=examples(15), deadline=None)
@given(steps=st.lists(STEPS, max_size=5))
def test_after_any_changes(steps: list[tuple[bool, int, int, int]], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = new_store(tmp_path_factory.mktemp("w") / "t.sow", 300)
    apply_steps(path, steps, 2)
    _is_the_scan(path)


def test_a_damaged_record_is_not_given(tmp_path: Path) -> None:
    path = new_store(tmp_path / "t.sow", 300)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        (place,) = snapshot.locate_values(b"".join(sorted(map(key_of, range(300)))))[0][150:151].tolist()  # type: ignore[index]
    data = bytearray(path.read_bytes())
    data[place + codec.HEADER_SIZE + 3] ^= 1
    path.write_bytes(data)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        whole = snapshot.read_record_offsets()
        assert whole is not None
        assert whole.read_values(0, 150) is not None
        assert whole.read_values(100, 200) is None
        # A part has one checksum: its records are then read one by one, which identifies the damaged one.
        assert [lines is None for _, _, lines in whole.iter_lines(0, 300)] == [True]


def test_another_state_or_count_gives_nothing(tmp_path: Path) -> None:
    path = new_store(tmp_path / "t.sow", 300)
    with Store.open(path, write=False) as store, store.open_snapshot() as snapshot:
        file = snapshot._get_data_file()
        assert read_record_offsets(file, snapshot.txnid, 300) is not None
        assert read_record_offsets(file, snapshot.txnid, 299) is None
        assert read_record_offsets(file, snapshot.txnid - 1, 300) is None
        assert read_record_offsets(None, snapshot.txnid, 300) is None
