"""Buckets return everything once, in key order, and in arrival order per key. A spool repeats its input in order."""

from __future__ import annotations

import errno
import io
import os
import tempfile
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.fold.limits import FOLD_LIMITS
from sowctl.engine.fold.spill import PartFiles, SortBuckets, Spool, encode_part, read_parts
from sowctl.errors import StorageError

KEYS = st.integers(0, (1 << 64) - 1) | st.sampled_from((0, 1 << 63, (1 << 64) - 1))
PAIRS = st.lists(st.tuples(KEYS.map(lambda number: number.to_bytes(8, "big")), st.binary(max_size=40)), max_size=60)


@pytest.mark.parametrize("limit", [1 << 30, 500, 1])
@given(parts=st.lists(PAIRS, max_size=6), size=st.integers(1, 50))
def test_sorted_by_key_and_stable(
    parts: list[list[tuple[bytes, bytes]]],
    size: int,
    limit: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    pairs = [pair for part in parts for pair in part]
    expected = sum(len(value) for _, value in pairs)
    with SortBuckets(tmp_path_factory.getbasetemp(), expected, limit) as buckets:
        for part in parts:
            buckets.add_values(b"".join(key for key, _ in part), [value for _, value in part])
        found = list(buckets.iterate_sorted(size))
    assert all(len(keys) == len(values) <= size for keys, values in found)
    assert [pair for part in found for pair in zip(*part, strict=True)] == sorted(pairs, key=lambda pair: pair[0])


def test_buckets_are_written_to_files_and_leave_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FOLD_LIMITS, "write_buffer_bytes", 1000)
    pairs = [((number * 0x9E3779B97F4A7C15 % (1 << 64)).to_bytes(8, "big"), b"%0500d" % number) for number in range(99)]
    with SortBuckets(tmp_path, 50_000, 10_000) as buckets:
        for key, value in pairs:
            buckets.add_values(key, [value])
        found = [pair for part in buckets.iterate_sorted(10) for pair in zip(*part, strict=True)]
    assert found == sorted(pairs)
    assert list(tmp_path.iterdir()) == []


PARTS = [
    ([b"a" * 8, b"b" * 8], [b"one", b""]),
    ([b"c" * 8], [b"two" * 100]),
    ([b"d" * 8, b"e" * 8], [b"", b""]),
]
"""Parts of a file; the last part has empty values, so that its lengths are the last bytes of the file."""


def test_a_file_that_is_cut_within_a_part_is_refused_behind_its_whole_parts() -> None:
    texts = [encode_part(b"".join(keys), values) for keys, values in PARTS]
    whole, ends = b"".join(texts), list(accumulate(map(len, texts), initial=0))
    for size in range(len(whole) + 1):
        found: list[tuple[bytes, list[bytes]]] = []
        if size in ends:
            found += read_parts(io.BytesIO(whole[:size]))
        else:
            with pytest.raises(EOFError):
                found.extend(read_parts(io.BytesIO(whole[:size])))
        complete = sum(end <= size for end in ends[1:])
        assert found == [(b"".join(keys), values) for keys, values in PARTS[:complete]]


@pytest.mark.parametrize(("expected", "files"), [(9_999, 0), (10_001, 11), (50_000, 50), (500_000, 64)])
def test_what_does_not_fit_lies_in_smaller_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: int, files: int
) -> None:
    monkeypatch.setattr(FOLD_LIMITS, "max_bucket_file_bytes", 1000)
    made: list[object] = []
    make = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **given: made.append(make(**given)) or made[-1])
    with SortBuckets(tmp_path, expected, 10_000):
        assert len(made) == files


@pytest.mark.parametrize("limit", [1 << 20, 100, 1])
def test_a_spool_gives_what_it_was_given_as_often_as_asked(
    tmp_path: Path, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FOLD_LIMITS, "spool_memory_bytes", limit)
    items = [(b"k" * number, [None, b"x"] if number % 2 else None) for number in range(40)]
    with Spool(tmp_path) as spool:
        assert list(spool) == []
        for item in items:
            spool.add(item)
        assert len(spool) == 40
        assert [list(spool) for _ in range(2)] == [items, items]
        assert list(tmp_path.iterdir()) == []


def test_a_spool_that_cannot_be_written_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FOLD_LIMITS, "spool_memory_bytes", 10)
    with Spool(tmp_path / "nowhere") as spool, pytest.raises(StorageError) as caught:
        spool.add((b"x" * 20,))
    assert (caught.value.code, caught.value.place) == ("SOW-ENG-040", str(tmp_path / "nowhere"))


def test_a_full_disk_is_told_as_such_also_when_the_spool_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Buffered data cannot be written at the close either; the second error does not hide the first."""

    class Full(io.BytesIO):
        def seek(self, *arguments: int) -> int:
            raise OSError(errno.ENOSPC, "no space left")

        def close(self) -> None:
            raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(tempfile, "SpooledTemporaryFile", lambda *arguments, **given: Full())
    with pytest.raises(StorageError) as caught, Spool(tmp_path) as spool:
        spool.add((b"x",))
        list(spool)
    assert caught.value.code == "SOW-ENG-040"


def test_part_files_give_the_values_of_each_part_in_their_order(tmp_path: Path) -> None:
    files = PartFiles(3, tmp_path)
    try:
        for number in range(30):
            files.add_value(number % 3, [number, b"x" * number])
        assert [[value[0] for value in files.read_values(part)] for part in range(3)] == [
            list(range(part, 30, 3)) for part in range(3)
        ]
        assert next(files.read_values(1)) == [1, b"x"]
        assert not list(tmp_path.iterdir())
    finally:
        files.close()


def test_part_files_that_cannot_be_written_say_so(tmp_path: Path) -> None:
    files = PartFiles(1, tmp_path)
    files.add_value(0, "small")
    # Buffered data cannot be written to a file that is open for reading only.
    target = os.open(os.devnull, os.O_RDONLY)
    os.dup2(target, files._files[0].fileno())
    os.close(target)
    with pytest.raises(StorageError) as caught:
        for _ in range(3):
            files.add_value(0, b"x" * 100_000)
    assert caught.value.code == "SOW-ENG-040"
    files.close()
