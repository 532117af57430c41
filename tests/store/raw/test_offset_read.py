"""Records at known offsets: bytes count only if they are the requested record; the others are looked up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sowctl.seam import SEAM
from sowctl.store.codec import Offsets
from sowctl.store.raw import offset_read
from sowctl.store.raw.offset_read import MAX_OPEN_FILES, DataFile, open_data_file, read_records_at
from tests.support.stores import key_of, value_of

KEYS = [key_of(number) for number in range(4)]
VALUES = [value_of(key, 1, b"payload of %d" % number) for number, key in enumerate(KEYS)]
OLD = [value_of(key, 1, b"before, of %d" % number) for number, key in enumerate(KEYS)]


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    offset_read.close_open_files()
    yield
    offset_read.close_open_files()


def where(values: Sequence[bytes], sums: Sequence[bytes] | None = None) -> Offsets:
    """Return the offsets of ``values`` if they are stored without gaps."""
    sizes = list(map(len, values))
    return Offsets([sum(sizes[:index]) for index in range(len(sizes))], sizes, b"".join(v[-4:] for v in sums or values))


def opened(path: Path, content: bytes) -> DataFile:
    path.write_bytes(content)
    file = open_data_file(path, path.stat().st_ino, SEAM)
    assert file is not None
    return file


def unasked(keys: Sequence[bytes]) -> dict[bytes, bytes]:
    raise AssertionError(keys)


def test_what_lies_where_it_should_is_not_looked_up(tmp_path: Path) -> None:
    file = opened(tmp_path / "file", b"".join(VALUES))
    for _ in range(3):  # by plain reads, then mapped
        assert read_records_at(file, KEYS, where(VALUES), unasked) == (KEYS, VALUES)


def test_another_version_and_wrong_bytes_are_looked_up(tmp_path: Path) -> None:
    """A valid older version is stored at one offset, bytes of no record at another."""
    content = OLD[0] + bytes(len(VALUES[1])) + VALUES[2] + VALUES[3]
    file = opened(tmp_path / "file", content)
    asked: list[bytes] = []

    def look_up(keys: Sequence[bytes]) -> dict[bytes, bytes]:
        asked.extend(keys)
        return {KEYS[0]: VALUES[0]}

    found = read_records_at(file, KEYS, where([OLD[0], *VALUES[1:]], VALUES), look_up)
    assert asked == KEYS[:2]
    assert found == ([KEYS[0], KEYS[2], KEYS[3]], [VALUES[0], VALUES[2], VALUES[3]]), (
        "a record that is gone is left out"
    )


def test_without_a_file_all_is_looked_up(tmp_path: Path) -> None:
    known = dict(zip(KEYS, VALUES, strict=True))
    assert read_records_at(None, KEYS, where(VALUES), lambda keys: {key: known[key] for key in keys}) == (KEYS, VALUES)
    assert offset_read.locate_records(None, 1, b"".join(KEYS)) is None


def test_a_file_that_was_replaced_or_cut_is_opened_anew(tmp_path: Path) -> None:
    path = tmp_path / "file"
    first = opened(path, b"1" * 100)
    inode = path.stat().st_ino
    assert open_data_file(path, inode, SEAM) is first
    path.write_bytes(b"1" * 50)
    assert open_data_file(path, inode, SEAM) is not first
    (tmp_path / "other").write_bytes(b"2" * 100)
    (tmp_path / "other").replace(path)
    assert open_data_file(path, inode, SEAM) is None, "it is not the file of the snapshot"
    path.unlink()
    assert open_data_file(path, inode, SEAM) is None


def test_few_files_are_kept(tmp_path: Path) -> None:
    for number in range(MAX_OPEN_FILES + 3):
        opened(tmp_path / str(number), b"1")
    assert len(offset_read._open_files) == MAX_OPEN_FILES
