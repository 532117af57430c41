"""A truncated journal: wherever it was cut, no command skips an acknowledged entry, and no txid is assigned twice.

The loss is proven by the stores and the topics file; each exists or not. Without both, a cut between two blocks cannot
be distinguished from a shorter journal: then a prefix is read, and torn blocks are reported (sow-journal(5)).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from sowctl.engine.reports import PublishReport
from sowctl.engine.verbs.check import check_instance
from sowctl.engine.verbs.journal import EntryFilter, dump_entries, list_files
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.writing.batches import ListSource
from sowctl.errors import DamageError, SowError
from sowctl.findings import Level
from sowctl.journal.blockcodec import BLOCK_MAGIC
from sowctl.journal.state import build_topics_path
from tests.support.instances import Lab, config_xml, message, topic_xml

ENTRIES = 24


@pytest.fixture
def written(memory: Path) -> Lab:
    """A topic with a store, one only in the transaction log, blocks of one to three entries of both."""
    lab = Lab(memory / "lab", config_xml(topic_xml("t"), ("t", "log")))
    number = 0
    while number < ENTRIES:
        for topic, count in (("t", 1), ("log", 2), ("t", 3)):
            put(lab, topic, *(message(id=number + place) for place in range(count)))
            number += count
    return lab


def put(lab: Lab, topic: str, *messages: str) -> PublishReport:
    """Publish to a topic with a store or to one that is only in the transaction log."""
    return publish_messages(lab.open(), topic, [("input", ListSource([one.encode() for one in messages]))])


def places(content: bytes, deep: bool) -> Iterator[int]:
    """Yield the offsets of cuts: all, or around the starts of blocks and at some offsets within them."""
    if deep:
        yield from range(len(content))
        return
    starts = []
    at = content.find(BLOCK_MAGIC)
    while at >= 0:
        starts.append(at)
        at = content.find(BLOCK_MAGIC, at + 1)
    yield from (0, 7, 79, 80, starts[0] - 1)
    for index, start in enumerate(starts):
        yield from (start, start + (1, 5, 60, 103, 104, 130)[index % 6])
    yield len(content) - 1


def entries(lab: Lab) -> tuple[list[int], SowError | None]:
    """Return the txids of a dump, and its error."""
    txids: list[int] = []
    try:
        for batch in dump_entries(lab.open(), EntryFilter()):
            txids += [record.txid for record in batch.records]
    except SowError as error:
        return txids, error
    return txids, None


def state(lab: Lab) -> list[str] | SowError:
    try:
        return sorted(lab.query("t"))
    except SowError as error:
        return error


@pytest.mark.parametrize("keeps_topics_file", [True, False], ids=["topics-file", "no-topics-file"])
@pytest.mark.parametrize("stores", [True, False], ids=["stores", "no-stores"])
def test_a_cut_journal_is_damage_wherever_anything_proves_it(
    written: Lab, stores: bool, keeps_topics_file: bool, deep: bool
) -> None:
    (path,) = written.journals()
    whole = path.read_bytes()
    side = build_topics_path(path.parent, "test")
    kept = {one: one.read_bytes() for one in (side, written.store("t"))}
    complete = sorted(written.query("t"))
    for index, size in enumerate(places(whole, deep)):
        written.forget("t")
        for leftover in path.parent.glob("*.torn-*"):
            leftover.unlink()
        if stores:
            written.store("t").write_bytes(kept[written.store("t")])
        if keeps_topics_file:
            side.write_bytes(kept[side])
        else:
            side.unlink(missing_ok=True)
        path.write_bytes(whole[:size])
        written.notes.clear()

        txids, error = entries(written)
        assert txids == list(range(1, len(txids) + 1)), size
        found = state(written)
        listed = list_error(written)
        findings = (
            list(check_instance(written.open())) if deep or index % 5 == 0 else None
        )  # it starts a process per store
        if stores or keeps_topics_file or size < whole.index(BLOCK_MAGIC):
            assert isinstance(error, DamageError), size
            assert isinstance(listed, DamageError), size
            assert isinstance(found, DamageError), size
            assert findings is None or any(one.level is Level.ERROR for one in findings), size
            with pytest.raises(DamageError):
                put(written, "log" if size % 2 else "t", message(id=1000))
            assert path.read_bytes() == whole[:size]
        else:
            assert error is None and listed is None, size
            assert isinstance(found, list | SowError)
            if isinstance(found, list):
                assert set(found) <= set(complete)
            torn = not (size == len(whole) or whole.startswith(BLOCK_MAGIC, size))
            assert any(note.startswith(f"{path}@") for note in written.notes) == torn, size
            assert findings is None or any(one.id == "SOW-JRN-040" for one in findings) == torn, size
            report = put(written, "log", message(id=1000))
            assert report.first_txid == len(txids) + 1
            assert len(report.torn_tails) == torn
            assert entries(written) == ([*txids, len(txids) + 1], None)


def list_error(lab: Lab) -> SowError | None:
    try:
        list(list_files(lab.open()))
    except SowError as error:
        return error
    return None


def test_damage_at_the_end_is_no_tear_where_the_topics_file_knows_better(written: Lab, seed: int) -> None:
    """Zeros, holes, insertions and bit flips in the last header; the stores are lost."""
    import random

    rng = random.Random(seed)
    (path,) = written.journals()
    whole = path.read_bytes()
    start, last = whole.index(BLOCK_MAGIC), whole.rindex(BLOCK_MAGIC)
    wrong: list[bytes] = []
    for _ in range(12):
        at, size = rng.randrange(start, len(whole)), rng.randrange(1, 400)
        wrong.append(whole[:at] + bytes(len(whole) - at))
        wrong.append(whole[:at] + whole[at + size :])
        wrong.append(whole[:at] + rng.randbytes(size) + whole[at:])
        place = last * 8 + rng.randrange(104 * 8)
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        wrong.append(bytes(flipped))
    written.forget("t")
    for content in wrong:
        if content == whole or content.startswith(whole):
            continue
        path.write_bytes(content)
        for act in (lambda: entries(written)[1], lambda: state(written), lambda: list_error(written)):
            assert isinstance(act(), DamageError)
        with pytest.raises(DamageError):
            put(written, "log", message(id=1))
        assert any(one.level is Level.ERROR for one in check_instance(written.open()))


def test_whole_blocks_behind_a_hole_are_no_tear_whatever_is_gone(written: Lab) -> None:
    """Bytes were cut out of the file, or inserted: the following blocks contain their original offsets."""
    (path,) = written.journals()
    whole = path.read_bytes()
    starts = [at for at in range(len(whole)) if whole.startswith(BLOCK_MAGIC, at)]
    written.forget("t")
    build_topics_path(path.parent, "test").unlink()
    for first, second in pairwise(starts[1:-1:3]):
        for content in (
            whole[:first] + whole[first + 50 :],
            whole[: first + 30] + whole[second:],
            whole[: first + 130] + whole[second + 10 :],
            whole[:first] + b"put in" + whole[first:],
            whole[: first + 40] + bytes(range(1, 100)) + whole[first + 40 :],
        ):
            path.write_bytes(content)
            assert isinstance(entries(written)[1], DamageError)
            with pytest.raises(DamageError):
                put(written, "log", message(id=1))


def test_a_journal_that_is_given_up_is_followed_by_one_above_all_that_is_known(written: Lab) -> None:
    """The solution of sow-journal(5), "Accepting a loss"."""
    (path,) = written.journals()
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(BLOCK_MAGIC)])
    with pytest.raises(DamageError) as caught:
        put(written, "log", message(id=1))
    assert "Accepting a loss" in (caught.value.hint or "")
    before = sorted(written.query("t")) if not isinstance(state(written), SowError) else None
    assert before is None
    old = written.directory / "old"
    old.mkdir()
    shutil.move(path, old / path.name)
    kept = sorted(json.loads(text)["id"] for text in written.query("t"))
    report = put(written, "log", message(id=1))
    assert report.first_txid == ENTRIES + 1
    assert sorted(json.loads(text)["id"] for text in written.query("t")) == kept
    assert put(written, "t", message(id=2000)).first_txid == ENTRIES + 2
    assert [one for one in check_instance(written.open()) if one.level > Level.INFO] == []
    left = [
        record.txid for batch in dump_entries(written.open(), EntryFilter(), directory=old) for record in batch.records
    ]
    assert left == list(range(1, len(left) + 1))
    assert 0 < len(left) < ENTRIES


def test_a_store_that_is_gone_with_the_end_is_rebuilt_from_what_is_left(written: Lab) -> None:
    (path,) = written.journals()
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(BLOCK_MAGIC)])
    written.forget("t")
    old = written.directory / "old"
    old.mkdir()
    shutil.move(path, old / path.name)
    rebuilt = written.open().topic("t").replay(journal=str(old))
    assert rebuilt.action == "rebuilt"
    assert put(written, "log", message(id=1)).first_txid == ENTRIES + 1
    assert len(written.query("t")) == rebuilt.records
