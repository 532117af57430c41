"""The record of what was read when: it never says more than was read."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.seam import SEAM
from sowctl.store.upkeep import verified
from sowctl.store.upkeep.verified import KEY_SPACE_END, Verified, decode, encode, read_record, record_of, write_record
from tests.support.damage import flipped
from tests.support.faults import CountingSeam, FailAt
from tests.support.stores import START, new_store

BOUND = st.integers(0, KEY_SPACE_END)


@given(st.lists(st.tuples(BOUND, BOUND, st.integers(0, 9)), max_size=12), st.lists(BOUND, min_size=1, max_size=9))
def test_against_a_model(steps: list[tuple[int, int, int]], asked: list[int]) -> None:
    record = Verified()
    kept = [(min(low, high), max(low, high), time) for low, high, time in steps if low != high]
    for low, high, time in kept:
        record.mark(low, high, time)
    for point in asked:
        point = min(point, KEY_SPACE_END - 1)
        times = [time for low, high, time in kept if low <= point < high]
        assert record.time_of(point, point + 1) == (times[-1] if times else 0)
    assert record.marks[0][0] == 0
    assert [start for start, _ in record.marks] == sorted({start for start, _ in record.marks})
    assert decode(encode(record.marks, 7), 7).marks == record.marks


def test_many_stretches_become_fewer_with_the_earlier_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified, "MAX_CHECKED_RANGES", 10)
    record = Verified()
    for number in range(40):
        record.mark(number * 100, number * 100 + 50, 40 - number)
    assert len(record.marks) <= 10
    for number in range(40):
        assert record.time_of(number * 100, number * 100 + 50) in (0, 40 - number) or number > 30


def test_what_is_damaged_or_of_another_file_says_nothing(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow")
    write_record(path, [(0, 5), (77, 9)], SEAM)
    assert read_record(path).marks == [(0, 5), (77, 9)]
    content = record_of(path).read_bytes()
    for bit in range(8 * len(content)):
        record_of(path).write_bytes(flipped(content, bit))
        assert read_record(path).marks == [(0, 0)]
    for size in range(len(content)):
        record_of(path).write_bytes(content[:size])
        assert read_record(path).marks == [(0, 0)]
    record_of(path).write_bytes(content)
    other = tmp_path / "y.sow"
    other.write_bytes(path.read_bytes())
    other.rename(path)
    assert read_record(path).marks == [(0, 0)]


def test_the_golden_file() -> None:
    """``tests/formats/v1/store.sow-verified`` was written by version 1 and never changes."""
    content = (Path(__file__).parents[2] / "formats" / "v1" / "store.sow-verified").read_bytes()
    marks = [(0, 0), (1 << 20, START), ((1 << 63) + 5, START + 60_000_000)]
    assert decode(content, 4711).marks == marks
    assert decode(content, 4712).marks == [(0, 0)]
    assert encode(marks, 4711) == content


def test_the_old_one_stays_where_writing_fails(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow")
    write_record(path, [(0, 5)], SEAM)
    counting = CountingSeam()
    write_record(path, [(0, 6)], counting)
    for n in range(1, counting.count + 1):
        with pytest.raises(OSError, match="injected"):
            write_record(path, [(0, 7)], FailAt(n, errno.ENOSPC))
        assert read_record(path).marks == [(0, 6)]
        assert not list(tmp_path.glob("*.new-*"))
