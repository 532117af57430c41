"""Stretches cover what a reader reads, each by itself."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from sowctl.errors import DamageError
from sowctl.journal.reader import Journal
from tests.support.instances import Lab, config_xml, message, topic_xml

XML = config_xml(topic_xml("a") + topic_xml("b"), ("a", "b"))


@pytest.mark.parametrize("size", [1, 5_000, 1 << 30])
@pytest.mark.parametrize("span", [(0, None), (30, 170), (199, None), (500, None)])
def test_stretches_hold_every_block_once(tmp_path: Path, size: int, span: tuple[int, int | None]) -> None:
    lab = Lab(tmp_path, XML, journal_size=4096)
    for start in range(0, 200, 20):
        lab.publish("a" if start % 40 else "b", *[message(id=n, pad="x" * n) for n in range(start, start + 20)])
    after, until = span
    with Journal.open(tmp_path / "journal", "test") as journal:
        wanted = [block.first_txid for block in journal.blocks(after=after, until=until)]
        found = list(journal.stretches(after, until, size))
        read = [block for stretch in found for block in pickle.loads(pickle.dumps(stretch)).blocks()]
    assert [block.first_txid for block in read] == wanted
    assert sum(stretch.entries for stretch in found) == sum(map(len, read))
    assert sum(stretch.payload_bytes for stretch in found) == sum(len(block.payload_bytes()) for block in read)
    if size == 1:
        assert len(found) == len(wanted)


def test_a_stretch_of_a_file_that_changed_is_damage(tmp_path: Path) -> None:
    lab = Lab(tmp_path, XML)
    lab.publish("a", *[message(id=n) for n in range(5)])
    with Journal.open(tmp_path / "journal", "test") as journal:
        (stretch,) = journal.stretches()
    path = lab.journals()[0]
    path.write_bytes(path.read_bytes()[: stretch.end - 1])
    with pytest.raises(DamageError):
        list(stretch.blocks())
