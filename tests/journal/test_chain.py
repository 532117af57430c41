"""Blocks and files name their previous block: parts of two copies are not accepted as one journal (sow-journal(5))."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.checksum import crc32
from sowctl.errors import DamageError
from sowctl.journal.blockcodec import BLOCK_HEADER_SIZE, compute_header_seed
from sowctl.journal.check import check_journal
from sowctl.journal.format import CRC_LAYOUT, FILE_HEADER_SIZE
from sowctl.journal.reader import Journal
from sowctl.journal.state import build_topics_path
from tests.support.journals import INSTANCE, NO_SYNC, group, open_writer, publish

CODE = "SOW-JRN-054"
SIZE = 1400


def fill(directory: Path, payloads: list[bytes]) -> None:
    with open_writer(directory, NO_SYNC, journal_size=SIZE) as writer:
        for payload in payloads:
            publish(writer, group([payload]))


@pytest.fixture
def copies(tmp_path: Path) -> tuple[Path, Path]:
    """Two copies of a journal of several files; each was continued with entries of the same length."""
    here, there = tmp_path / "here", tmp_path / "there"
    fill(here, [b"common %02d" % number * 10 for number in range(12)])
    shutil.copytree(here, there)
    fill(here, [b"here   %02d" % number * 10 for number in range(12)])
    fill(there, [b"there  %02d" % number * 10 for number in range(12)])
    assert sorted(path.name for path in here.iterdir()) == sorted(path.name for path in there.iterdir())
    return here, there


def files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.journal"))


def found(act: Callable[[], object]) -> str:
    with pytest.raises(DamageError) as caught:
        act()
    assert caught.value.facts["written_behind"]
    return caught.value.code


def walked(directory: Path) -> int:
    with Journal.open(directory, INSTANCE) as journal:
        return sum(len(block) for block in journal.iter_blocks())


def ended(directory: Path) -> int:
    with Journal.open(directory, INSTANCE) as journal:
        return journal.read_last_txid()


def test_each_block_and_file_names_the_block_before(copies: tuple[Path, Path]) -> None:
    here, _ = copies
    chain = 0
    with Journal.open(here, INSTANCE) as journal:
        for block in journal.iter_blocks():
            if block.start.offset == FILE_HEADER_SIZE:
                assert chain == 0
            assert block.header.chain == chain
            chain = block.header.crc
    assert chain
    assert len(files(here)) > 3


@pytest.mark.parametrize("act", [walked, ended], ids=["walked", "ended"])
def test_the_last_file_of_another_copy_is_refused(copies: tuple[Path, Path], act: Callable[[Path], int]) -> None:
    here, there = copies
    build_topics_path(here, INSTANCE).unlink()
    shutil.copy(files(there)[-1], files(here)[-1])
    assert found(lambda: act(here)) == CODE
    assert CODE in [finding.id for finding in check_journal(here, INSTANCE)]
    assert found(lambda: fill(here, [b"more"])) == CODE


def test_a_file_of_another_copy_in_between_is_refused(copies: tuple[Path, Path]) -> None:
    here, there = copies
    number = next(
        index
        for index, (one, other) in enumerate(zip(files(here), files(there), strict=True))
        if b"here" in one.read_bytes() and b"there" in other.read_bytes() and b"common" not in one.read_bytes()
    )
    shutil.copy(files(there)[number], files(here)[number])
    assert found(lambda: walked(here)) == CODE
    assert [finding.id for finding in check_journal(here, INSTANCE)] == [CODE]


def test_a_block_behind_another_block_than_its_own_is_refused(tmp_path: Path) -> None:
    """The last block keeps its offset and its txid, and names another previous block."""
    fill(tmp_path, [b"one" * 9, b"two" * 9])
    path = files(tmp_path)[0]
    raw = bytearray(path.read_bytes())
    with Journal.open(tmp_path, INSTANCE) as journal:
        last = list(journal.iter_blocks())[-1]
        lineage = journal.lineage
    at = last.start.offset
    raw[at + 96 : at + 100] = b"\1\2\3\4"
    seed = compute_header_seed(lineage, 0, at)
    raw[at + 100 : at + 104] = CRC_LAYOUT.pack(crc32(bytes(raw[at : at + 100]), seed))
    assert BLOCK_HEADER_SIZE == 104
    path.write_bytes(raw)
    build_topics_path(tmp_path, INSTANCE).unlink()
    assert found(lambda: ended(tmp_path)) == CODE
    assert CODE in [finding.id for finding in check_journal(tmp_path, INSTANCE)]
    with Journal.open(tmp_path, INSTANCE) as journal:
        items = list(journal.iter_blocks(resync=True))
    assert [type(item).__name__ for item in items] == ["Block", "Damage", "Block"]


def test_files_of_before_the_chain_go_on_with_one(tmp_path: Path) -> None:
    formats = Path(__file__).parents[1] / "formats" / "v1"
    for path in formats.glob("golden.*"):
        shutil.copy(path, tmp_path / path.name.replace("golden", INSTANCE))
    fill(tmp_path, [b"more", b"and more"])
    with Journal.open(tmp_path, INSTANCE) as journal:
        blocks = list(journal.iter_blocks())
    old, first, second = blocks[-3:]
    assert old.header.chain == 0
    assert first.header.chain == old.header.crc
    assert second.header.chain == first.header.crc
    # The times of these entries are older than those of the golden files.
    assert {finding.id for finding in check_journal(tmp_path, INSTANCE)} == {"SOW-JRN-042"}
