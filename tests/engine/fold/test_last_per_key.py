"""The last entry of each key: equal to a dictionary, in key order, under every memory limit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.fold.last_per_key import KeyedValues, fold_last_per_key, fold_timelines
from sowctl.engine.fold.limits import FOLD_LIMITS

KEY = st.integers(0, 9).map(lambda number: (number * 0x1C71C71C71C71C71).to_bytes(8, "big"))
PARTS = st.lists(st.lists(st.tuples(KEY, st.binary(max_size=30)), max_size=20), max_size=6)
MEMORY = pytest.mark.parametrize("limit", [None, 200, 1])


@pytest.fixture(params=[1, 3, 1000])
def small_parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FOLD_LIMITS, "fold_part_records", request.param)
    monkeypatch.setattr(FOLD_LIMITS, "write_buffer_bytes", 50)
    monkeypatch.setattr(FOLD_LIMITS, "max_bucket_file_bytes", 60)
    monkeypatch.setattr(FOLD_LIMITS, "max_bucket_files", 3)


def pairs_of(parts: list[list[tuple[bytes, bytes]]]) -> Iterator[KeyedValues]:
    for part in parts:
        yield b"".join(key for key, _ in part), [value for _, value in part]


def expected_bytes(parts: list[list[tuple[bytes, bytes]]]) -> int:
    return sum(len(value) for part in parts for _, value in part)


@MEMORY
@pytest.mark.usefixtures("small_parts")
def test_the_last_value_of_each_key_in_key_order(tmp_path_factory: pytest.TempPathFactory, limit: int | None) -> None:
    directory = tmp_path_factory.mktemp("fold")

    @given(PARTS)
    def law(parts: list[list[tuple[bytes, bytes]]]) -> None:
        with fold_last_per_key(pairs_of(parts), directory, expected_bytes(parts), limit) as records:
            found = list(records)
        assert all(0 < len(keys) == len(values) <= FOLD_LIMITS.fold_part_records for keys, values in found)
        rows = [row for part in found for row in zip(*part, strict=True)]
        assert rows == sorted({key: value for part in parts for key, value in part}.items())

    law()
    assert list(directory.iterdir()) == []


@MEMORY
@pytest.mark.usefixtures("small_parts")
def test_all_values_of_each_key_as_they_came(tmp_path_factory: pytest.TempPathFactory, limit: int | None) -> None:
    directory = tmp_path_factory.mktemp("fold")

    @given(PARTS)
    def law(parts: list[list[tuple[bytes, bytes]]]) -> None:
        wanted: dict[bytes, list[bytes]] = {}
        for part in parts:
            for key, value in part:
                wanted.setdefault(key, []).append(value)
        with fold_timelines(pairs_of(parts), directory, expected_bytes(parts), limit) as timelines:
            found = list(timelines)
        assert all(found)
        assert [timeline for some in found for timeline in some] == sorted(wanted.items())

    law()
    assert list(directory.iterdir()) == []


def test_a_fold_that_is_given_up_leaves_no_file_open(tmp_path: Path) -> None:
    parts = pairs_of([[(bytes((n,)) * 8, b"x" * 50) for n in range(200)]])
    before = count_files()
    with pytest.raises(ValueError, match="enough"), fold_last_per_key(parts, tmp_path, 10_000, 100) as records:
        next(records)
        assert count_files() > before
        raise ValueError("enough")
    assert count_files() == before


def count_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - no path is wanted
