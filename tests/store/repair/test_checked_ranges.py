"""The record of checked ranges: it never covers more than was read."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.seam import SEAM
from sowctl.store.limits import STORE_LIMITS
from sowctl.store.repair.checked_ranges import (
    KEY_SPACE_END,
    CheckedRanges,
    build_ranges_path,
    decode_ranges,
    encode_ranges,
    read_checked_ranges,
    write_checked_ranges,
)
from tests.support.damage import flipped
from tests.support.faults import CountingSeam, FailAt
from tests.support.stores import START, new_store

BOUND = st.integers(0, KEY_SPACE_END)


@given(st.lists(st.tuples(BOUND, BOUND, st.integers(0, 9)), max_size=12), st.lists(BOUND, min_size=1, max_size=9))
def test_against_a_model(steps: list[tuple[int, int, int]], asked: list[int]) -> None:
    record = CheckedRanges()
    kept = [(min(low, high), max(low, high), time) for low, high, time in steps if low != high]
    for low, high, time in kept:
        record.mark_range(low, high, time)
    for point in asked:
        point = min(point, KEY_SPACE_END - 1)
        times = [time for low, high, time in kept if low <= point < high]
        assert record.find_oldest_time(point, point + 1) == (times[-1] if times else 0)
    assert record.marks[0][0] == 0
    assert [start for start, _ in record.marks] == sorted({start for start, _ in record.marks})
    assert decode_ranges(encode_ranges(record.marks, 7), 7).marks == record.marks


def test_many_stretches_become_fewer_with_the_earlier_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STORE_LIMITS, "max_checked_ranges", 10)
    record = CheckedRanges()
    for number in range(40):
        record.mark_range(number * 100, number * 100 + 50, 40 - number)
    assert len(record.marks) <= 10
    for number in range(40):
        assert record.find_oldest_time(number * 100, number * 100 + 50) in (0, 40 - number) or number > 30


def test_what_is_damaged_or_of_another_file_says_nothing(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow")
    write_checked_ranges(path, [(0, 5), (77, 9)], SEAM)
    assert read_checked_ranges(path).marks == [(0, 5), (77, 9)]
    content = build_ranges_path(path).read_bytes()
    for bit in range(8 * len(content)):
        build_ranges_path(path).write_bytes(flipped(content, bit))
        assert read_checked_ranges(path).marks == [(0, 0)]
    for size in range(len(content)):
        build_ranges_path(path).write_bytes(content[:size])
        assert read_checked_ranges(path).marks == [(0, 0)]
    build_ranges_path(path).write_bytes(content)
    other = tmp_path / "y.sow"
    other.write_bytes(path.read_bytes())
    other.rename(path)
    assert read_checked_ranges(path).marks == [(0, 0)]


def test_the_golden_file() -> None:
    """``tests/formats/v1/store.sow-verified`` was written by version 1 and never changes."""
    content = (Path(__file__).parents[2] / "formats" / "v1" / "store.sow-verified").read_bytes()
    marks = [(0, 0), (1 << 20, START), ((1 << 63) + 5, START + 60_000_000)]
    assert decode_ranges(content, 4711).marks == marks
    assert decode_ranges(content, 4712).marks == [(0, 0)]
    assert encode_ranges(marks, 4711) == content


def test_the_old_one_stays_where_writing_fails(tmp_path: Path) -> None:
    path = new_store(tmp_path / "x.sow")
    write_checked_ranges(path, [(0, 5)], SEAM)
    counting = CountingSeam()
    write_checked_ranges(path, [(0, 6)], counting)
    for n in range(1, counting.count + 1):
        with pytest.raises(OSError, match="injected"):
            write_checked_ranges(path, [(0, 7)], FailAt(n, errno.ENOSPC))
        assert read_checked_ranges(path).marks == [(0, 6)]
        assert not list(tmp_path.glob("*.new-*"))
