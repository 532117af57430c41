"""Files of keys and values between tasks: read as written, and refused where they are cut."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sowctl.errors import DamageError, StorageError
from sowctl.remote.place import parse_url
from sowctl.spark.pairfiles import read_pairs, split_pairs, write_pairs
from tests.support.objectstore import ObjectStore


def test_a_staged_file_is_refused_wherever_it_is_cut(tmp_path: Path) -> None:
    pairs = [(bytes((number,)) * 8, b"x" * (number % 3)) for number in range(5)]
    path = tmp_path / "pairs"
    assert write_pairs(path, split_pairs(pairs, 2)) == (5, sum(len(value) for _, value in pairs))
    found = list(read_pairs(path))
    assert [len(keys) for keys, _ in found] == [2, 2, 1]
    assert [row for part in found for row in zip(*part, strict=True)] == pairs
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(DamageError) as caught:
            list(read_pairs(path))
        assert (caught.value.code, caught.value.place) == ("SOW-SPK-061", str(path))


def test_a_file_of_nothing_and_empty_parts_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "pairs"
    assert write_pairs(path, iter(())) == (0, 0)
    assert list(read_pairs(path)) == []
    row = [b"k" * 8], [b"v"]
    assert write_pairs(path, iter([([], []), row, ([], []), row])) == (2, 2)
    assert list(read_pairs(path)) == [row, row]


def test_at_a_url_it_is_the_same(lake: ObjectStore) -> None:
    place = parse_url(lake.url("stage/pairs"))
    rows = [([b"k" * 8], [b"v" * number]) for number in range(1, 40)]
    assert write_pairs(place, iter(rows)) == (39, sum(range(40)))
    assert list(read_pairs(place)) == rows
    whole = lake.objects["lake/stage/pairs"]
    lake.objects["lake/stage/pairs"] = whole[: len(whole) // 2]
    with pytest.raises(DamageError) as caught:
        list(read_pairs(place))
    assert caught.value.code == "SOW-SPK-061" and caught.value.place == "s3://lake/stage/pairs"
    del lake.objects["lake/stage/pairs"]
    with pytest.raises(DamageError) as caught:
        list(read_pairs(place))
    assert caught.value.code == "SOW-SPK-158" and caught.value.hint
    lake.refused.add("lake/stage/pairs")
    with pytest.raises(StorageError) as refused:
        write_pairs(place, iter(rows))
    assert refused.value.code == "SOW-RMT-004"


def test_what_ends_a_task_is_told_and_its_file_is_not_whole(lake: ObjectStore) -> None:
    place = parse_url(lake.url("stage/part"))

    def rows() -> Iterator[tuple[list[bytes], list[bytes]]]:
        yield [b"k" * 8], [b"v"]
        raise ValueError("of the task")

    with pytest.raises(ValueError, match="of the task"):
        write_pairs(place, rows())
    with pytest.raises(DamageError):
        list(read_pairs(place))
