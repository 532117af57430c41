"""journal repair: afterwards the journal can be read again, and every reader reports its gaps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from sowctl.engine.maintenance.retention.journal_repair import repair_journal
from sowctl.engine.options import ReplayOptions, SubscribeOptions
from sowctl.engine.queues.settlement import find_pending, settle_message
from sowctl.engine.reports import ReplayReport
from sowctl.engine.topics.queuestates import read_boot_id
from sowctl.engine.topics.targets import find_topic
from sowctl.engine.verbs.check import check_instance
from sowctl.engine.verbs.journal import EntryFilter, dump_entries
from sowctl.engine.verbs.replay import replay_topics
from sowctl.engine.verbs.subscribe import subscribe_topics
from sowctl.engine.verbs.upkeep.journal_bisect import BisectOptions, bisect_journal
from sowctl.engine.verbs.upkeep.journal_check import check_journal
from sowctl.engine.verbs.upkeep.journal_search import SearchOptions, search_journal
from sowctl.engine.verbs.upkeep.journal_tail import read_journal_tail
from sowctl.errors import DamageError, MissingError, RefusedError
from sowctl.findings import Level
from sowctl.journal.block import Block
from sowctl.journal.reader import Journal
from sowctl.journal.state import build_topics_path
from sowctl.store.queue.file import QueueFile
from tests.support.instances import START, Lab, config_xml, message, topic_xml
from tests.support.queues import QueueLab, lab_xml, queue_xml

XML = config_xml(
    topic_xml("t")
    + topic_xml("u")
    + topic_xml("past", "<History><Window>1h</Window><Granularity>1s</Granularity></History>"),
    ("t", "u", "past"),
)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Ten entries of t, the sixth of which (txid 6) is damaged; three of u and of past after them."""
    lab = Lab(tmp_path / "lab", XML)
    for number in range(10):
        lab.publish("t", message(id=number, text="x" * 50))
        lab.clock.tick(1)
    for number in range(3):
        lab.publish("u", message(id=number))
        lab.publish("past", message(id=number))
    damage(lab, 6)
    return lab


def damage(lab: Lab, txid: int) -> None:
    """Flip one bit in the block that begins with a txid."""
    with Journal.open(lab.directory / "journal", "test") as log:
        found = [block for block in log.iter_blocks(resync=True) if isinstance(block, Block)]
    (block,) = [block for block in found if block.first_txid == txid]
    content = bytearray(block.path.read_bytes())
    content[block.end.offset - 2] ^= 1
    block.path.write_bytes(content)


def dumped(lab: Lab) -> list[int]:
    return [record.txid for batch in dump_entries(lab.open(), EntryFilter()) for record in batch.records]


def test_a_dry_run_says_what_would_be_cut_out(lab: Lab) -> None:
    before = {path: path.read_bytes() for path in (lab.directory / "journal").iterdir()}
    done = repair_journal(lab.open(), dry_run=True)
    (gap,) = done.gaps
    assert (gap.first_txid, gap.last_txid, gap.topics, gap.receipt) == (6, 6, ("t",), None)
    assert done.tail is None and done.left == []
    assert {path: path.read_bytes() for path in (lab.directory / "journal").iterdir()} == before


def test_stores_keep_what_they_have_and_writers_go_on(lab: Lab) -> None:
    digests = [lab.digest(topic) for topic in ("t", "u", "past")]
    (gap,) = repair_journal(lab.open()).gaps
    assert gap.receipt is not None and gap.receipt.exists()
    assert [lab.digest(topic) for topic in ("t", "u", "past")] == digests
    assert dumped(lab) == [*range(1, 6), *range(7, 17)]
    assert repair_journal(lab.open()).gaps == []
    lab.publish("t", message(id=99))
    assert dumped(lab)[-1] == 17
    findings = lab.findings()
    assert [one.id for one in findings] == ["SOW-JRN-071"]
    assert findings[0].level is Level.WARNING


def test_the_last_block_that_a_store_has_applied_may_be_a_gap(lab: Lab) -> None:
    damage(lab, 16)
    with pytest.raises(DamageError):
        dumped(lab)
    repair_journal(lab.open())
    assert len(lab.query("past")) == 3
    lab.publish("past", message(id=50))
    assert len(lab.query("past")) == 4
    assert dumped(lab)[-1] == 17


def test_a_lost_end_is_given_up_with_its_txids(lab: Lab) -> None:
    (path,) = lab.journals()
    with Journal.open(path.parent, "test") as log:
        places = list(log.iter_group_positions(after=6))
    path.write_bytes(path.read_bytes()[: places[-2].offset + 20])
    with pytest.raises(DamageError):
        lab.publish("t", message(id=1))
    done = repair_journal(lab.open())
    assert [(gap.first_txid, gap.last_txid) for gap in done.gaps] == [(6, 6), (15, 16)]
    lab.publish("t", message(id=1))
    assert dumped(lab)[-1] == 17


def test_stores_keep_what_they_have_of_a_lost_last_file(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", config_xml(topic_xml("t"), ("t",)), journal_size=1024)
    while len(lab.journals()) < 3:
        lab.publish("t", message(id=lab.digest("t") if lab.journals() else "first"))
    # The store has applied the last entry; the gap is in the file before.
    held = sorted(lab.query("t"))
    lab.journals()[-1].unlink()
    with pytest.raises(DamageError):
        lab.query("t")
    (gap,) = repair_journal(lab.open()).gaps
    assert gap.path == lab.journals()[-1]
    assert sorted(lab.query("t")) == held
    # The same holds if a new file has taken the number of the lost one.
    while len(lab.journals()) < 4:
        lab.publish("t", message(id=lab.digest("t"), text="longer than the former"))
    assert set(held) < set(lab.query("t"))


def test_what_a_queue_knows_of_a_gap_is_kept(tmp_path: Path) -> None:
    lab = QueueLab(tmp_path / "lab", lab_xml(queue_xml()))
    lab.put(1, 2, 3)
    lab.ack(*lab.lease(1))
    with Journal.open(lab.directory / "journal", lab.open().config.name) as log:  # type: ignore[union-attr]
        ack = log.read_last_txid()
        block = next(iter(log.iter_blocks(after=ack - 1)))
        assert isinstance(block, Block)
    lab.put(4)
    content = bytearray(block.path.read_bytes())
    content[block.end.offset - 2] ^= 1
    block.path.write_bytes(content)
    (gap,) = repair_journal(lab.open()).gaps
    assert (gap.first_txid, gap.last_txid) == (ack, ack)
    assert lab.pending() == [2, 3, 4]
    found = [one for one in check_instance(lab.open()) if one.id != "SOW-JRN-071"]
    (finding,) = found
    assert (finding.level, finding.id) == (Level.WARNING, "SOW-QUE-020")
    assert finding.hint is not None and finding.hint.startswith("keep the file")
    # A message after the gap was not part of the cut: if the state lacks it, the state is wrong.
    file = QueueFile(lab.state_file(), lab.open().seam, boot=read_boot_id(), lock_wait=0)
    with closing(file), file.begin_change() as rows:
        spot = find_pending(rows, ack + 1)
        assert spot is not None
        settle_message(rows, spot)
        rows.flush()
    wrong, kept = [one for one in check_instance(lab.open()) if one.id == "SOW-QUE-020"]
    assert (wrong.level, wrong.kind) == (Level.ERROR, "missing-message")
    assert (kept.level, kept.kind) == (Level.WARNING, "missing-message")
    assert wrong.message.startswith("1 ") and wrong.message.endswith(f" txid {ack + 1}")
    assert wrong.hint is not None
    assert kept.message.endswith("txid 1")


def test_a_torn_tail_is_cut_with_a_copy(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "torn", config_xml(topic_xml("t"), ("t",)))
    lab.publish("t", message(id=1))
    (path,) = lab.journals()
    whole = path.read_bytes()
    path.write_bytes(whole + b"\x89block\r\n" + b"torn" * 20)
    build_topics_path(path.parent, "test").unlink()
    dry = repair_journal(lab.open(), dry_run=True)
    assert dry.tail is not None and (dry.tail.size, dry.tail.copy) == (88, None)
    done = repair_journal(lab.open())
    assert done.tail is not None and done.tail.copy is not None
    assert (done.tail.size, done.tail.copy.read_bytes()[:8]) == (88, b"\x89block\r\n")
    assert path.read_bytes() == whole
    assert repair_journal(lab.open()).tail is None


def test_what_a_gap_does_not_mend_is_left(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "headless", config_xml(topic_xml("t"), ("t",)), journal_size=1100)
    for number in range(12):
        lab.publish("t", message(id=number, text="x" * 60))
    second = lab.journals()[1]
    content = bytearray(second.read_bytes())
    content[20] ^= 1
    second.write_bytes(content)
    done = repair_journal(lab.open())
    assert done.gaps == [] and [one.id for one in done.left] == ["SOW-JRN-004"]
    assert second.read_bytes() == content


def test_no_journal_is_an_error(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "none", XML)
    for dry_run in (True, False):
        with pytest.raises(MissingError):
            repair_journal(lab.open(), dry_run=dry_run)


def subscribed(lab: Lab) -> None:
    instance = lab.open()
    options = SubscribeOptions(bookmark="EPOCH", sow=False, until_now=True)
    with subscribe_topics(instance, [find_topic(instance, "t")], options) as subscription:
        while not subscription.finished:
            list(subscription.ready())


def replayed(lab: Lab, **options: bool) -> list[ReplayReport]:
    instance = lab.open()
    return replay_topics(instance, [find_topic(instance, "t")], ReplayOptions(**options))


def as_of(lab: Lab) -> None:
    list(lab.open().topic("t").query(None, at=START + 8_000_000).records())


READERS: dict[str, Callable[[Lab], object]] = {
    "dump": dumped,
    "tail": lambda lab: list(read_journal_tail(lab.open(), (), 100)),
    "search": lambda lab: list(search_journal(lab.open(), SearchOptions(keys=("9",)))),
    "bisect": lambda lab: bisect_journal(lab.open(), "t", BisectOptions(filter="/id = 9")),
    "history": lambda lab: lab.open().topic("t").versions("3", journal=True),
    "query as of": as_of,
    "query without a store": lambda lab: (lab.forget("t"), lab.query("t")),
    "replay": lambda lab: replayed(lab, rebuild=True, force=True),
    "replay --verify": lambda lab: replayed(lab, verify=True),
    "subscribe": subscribed,
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_every_reader_names_a_gap(lab: Lab, reader: Callable[[Lab], object]) -> None:
    (gap,) = repair_journal(lab.open()).gaps
    assert gap.receipt is not None
    lab.notes.clear()
    reader(lab)
    named = [note for note in lab.notes if gap.receipt.name in note]
    assert len(named) == 1 and "txid 6 " in named[0], lab.notes


def test_checks_name_a_gap(lab: Lab) -> None:
    repair_journal(lab.open())
    (finding,) = check_journal(lab.open())
    assert (finding.id, finding.level) == ("SOW-JRN-071", Level.WARNING) and "txid 6 " in finding.message


def test_a_rebuild_that_would_lose_what_the_store_still_has_needs_force(lab: Lab) -> None:
    repair_journal(lab.open())
    digest = lab.digest("t")
    with pytest.raises(RefusedError) as caught:
        replayed(lab, rebuild=True)
    assert caught.value.code == "SOW-RPL-002" and "repair" in caught.value.message
    assert lab.digest("t") == digest
    (report,) = replayed(lab, rebuild=True, force=True)
    assert report.moved is not None and report.records == 9
    # A topic without entries in the gap is rebuilt as usual.
    instance = lab.open()
    (report,) = replay_topics(instance, [find_topic(instance, "u")], ReplayOptions(rebuild=True))
    assert (report.action, report.records) == ("rebuilt", 3)
