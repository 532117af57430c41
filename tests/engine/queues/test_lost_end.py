"""A journal that lost the last entries of a queue: only the queue's state proves it, and every command fails.

An acknowledgement is synced before the state is committed, and no store applies it. If the process ended before it
wrote the topics file, and the end of the journal is lost afterwards, only the state knows the txid.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from sowctl.engine.maintenance.retention.journal_repair import repair_journal
from sowctl.engine.queues.summary import read_queue_summary
from sowctl.engine.topics.positions import open_log
from sowctl.engine.topics.queuestates import list_configured_queues, read_boot_id
from sowctl.engine.verbs.check import check_instance
from sowctl.engine.verbs.journal import EntryFilter, dump_entries, list_files
from sowctl.engine.writing.session import open_journal
from sowctl.errors import DamageError, SowError
from sowctl.findings import Level
from sowctl.journal.state import build_topics_path
from sowctl.store.queue.file import QueueFile
from tests.support.queues import QueueLab, id_of, lab_xml, queue_xml

Change = Callable[[QueueLab], None]


def topics_of(lab: QueueLab) -> Path:
    return build_topics_path(lab.journals()[0].parent, "test")


@pytest.fixture
def lost(tmp_path: Path) -> QueueLab:
    """Txids 1 to 3 are messages; 4 and 5 were acknowledgements of the first two, and only the state knows of them."""
    lab = QueueLab(tmp_path / "lost", lab_xml(queue_xml(), queue_xml(name="other")))
    lab.put(1, 2, 3)
    (path,) = lab.journals()
    size, known = path.stat().st_size, topics_of(lab).read_bytes()
    assert lab.ack(*lab.lease(2)) == ["done", "done"]
    topics_of(lab).write_bytes(known)
    os.truncate(path, size)
    return lab


def without_topics_file(lab: QueueLab) -> None:
    topics_of(lab).unlink()


def without_the_queue(lab: QueueLab) -> None:
    """The state of a queue that was removed from the configuration proves the loss as well."""
    text = lab.config.read_text().replace("<Name>work</Name>", "<Name>renamed</Name>")
    lab.config.write_text(text)


def torn(lab: QueueLab) -> None:
    """The rest of the block is not a torn tail."""
    with lab.journals()[0].open("ab") as file:
        file.write(b"\x89block\r\n" + b"rest" * 5)


def unchanged(_: QueueLab) -> None:
    return


@pytest.mark.parametrize("change", [unchanged, without_topics_file, without_the_queue, torn])
def test_whoever_asks_for_the_end_of_the_journal_is_told(lost: QueueLab, change: Change) -> None:
    change(lost)
    (path,) = lost.journals()
    before = path.read_bytes()
    handle = lost.open()
    acts: list[Callable[[], object]] = [
        lambda: lost.put(9),
        lambda: open_journal(handle),
        lambda: list(list_files(handle)),
        lambda: list(dump_entries(handle, EntryFilter())),
    ]
    if change is not without_the_queue:
        acts += [
            lost.peek,
            lost.lease,
            lost.info,
            lost.depth,
            lambda: read_queue_summary(handle, list_configured_queues(handle)[0]),
        ]
    if change is without_topics_file:
        acts += [lambda: lost.query("orders"), lambda: lost.peek("other")]
    for act in acts:
        with pytest.raises(SowError) as caught:
            act()
        assert caught.value.exit_status == DamageError.exit_status, caught.value
        assert caught.value.code in ("SOW-JRN-010", "SOW-JRN-013")
    assert path.read_bytes() == before
    run = check_instance(handle)
    assert {one.id for one in run if one.level is Level.ERROR} & {"SOW-JRN-010", "SOW-JRN-013"}
    assert run.status == DamageError.exit_status


def test_a_repair_keeps_the_txids_and_the_state(lost: QueueLab) -> None:
    (gap,) = repair_journal(lost.open()).gaps
    assert (gap.first_txid, gap.last_txid) == (4, 5)
    assert lost.pending() == [3]
    assert lost.publish("orders", '{"id":9}').first_txid == 6
    assert lost.pending() == [3, 9]
    assert check_instance(lost.open()).status == 0


def test_the_journal_put_back_ends_it(tmp_path: Path, lost: QueueLab) -> None:
    lab = QueueLab(tmp_path / "whole", lab_xml(queue_xml()))
    lab.put(1, 2, 3)
    (path,) = lab.journals()
    before = topics_of(lab).read_bytes()
    lab.ack(*lab.lease(2))
    content, size = path.read_bytes(), path.stat().st_size
    os.truncate(path, size - 10)
    topics_of(lab).write_bytes(before)
    with pytest.raises(DamageError):
        lab.peek()
    path.write_bytes(content)
    assert lab.pending() == [3]


# Ways in which a state may be ahead without a loss


def test_a_journal_that_was_given_up(lost: QueueLab) -> None:
    """The new journal also begins above the txid of the state, although topics file and store know less."""
    for path in lost.journals():
        path.unlink()
    assert lost.put(7) is None
    with open_log(lost.open()) as log:
        assert (log.first_txid, log.read_last_txid()) == (6, 6)
    assert lost.pending() == [7]
    assert check_instance(lost.open()).status == 0


def test_a_state_that_was_removed(lost: QueueLab) -> None:
    """Removing the state accepts the loss, also where the instance was rolled back on purpose: the proof is removed."""
    lost.state_file().unlink()
    assert lost.pending() == [1, 2, 3]
    assert lost.publish("orders", '{"id":4}').first_txid == 4


def test_a_state_that_was_written_before_the_machine_was_started_anew(lost: QueueLab) -> None:
    """The state was not synced, so it proves nothing."""
    lock = lost.state_file().with_name(f"{lost.state_file().name}-lock")
    lock.write_text("0a1b2c3d-0000-4000-8000-00000000000f")
    lost.put(4)
    assert lost.pending() == [1, 2, 3, 4]


def test_a_state_of_another_lineage(lost: QueueLab) -> None:
    file = QueueFile(lost.state_file(), lost.open().seam, boot=read_boot_id(), lock_wait=0)
    with closing(file), file.begin_change() as rows:
        rows.state.lineage = b"another lineage."
    lost.put(4)
    assert lost.pending() == [1, 2, 3, 4]


def test_what_was_read_and_taken_back(tmp_path: Path) -> None:
    """A queue reads without the journal's lock; a writer whose sync failed truncates entries that were already read."""
    lab = QueueLab(tmp_path / "read", lab_xml(queue_xml()))
    lab.put(1, 2)
    (path,) = lab.journals()
    size, known = path.stat().st_size, topics_of(lab).read_bytes()
    lab.forget("orders")
    lab.put(3)
    assert lab.pending() == [1, 2, 3]
    lab.forget("orders")
    topics_of(lab).write_bytes(known)
    os.truncate(path, size)
    (finding,) = (one for one in check_instance(lab.open()) if one.id == "SOW-QUE-020")
    assert (finding.level, finding.kind) == (Level.WARNING, "ahead-of-journal")
    assert "txid 3" in finding.message and "txid 2" in finding.message
    assert lab.publish("orders", '{"id":33}').first_txid == 3
    assert lab.pending() == [1, 2, 33]
    assert [one for one in check_instance(lab.open()) if one.level > Level.INFO] == []


def test_nobody_waits_for_the_lock_that_it_holds_itself(tmp_path: Path) -> None:
    """A state is rebuilt within a change; if its RecoveryPoint is a txid, the journal is opened again for it, and reads
    all states if there is no topics file.
    """
    plain = QueueLab(tmp_path / "plain", lab_xml())
    point = f"<RecoveryPoint>{plain.open().publisher_id}|2|</RecoveryPoint>"
    lab = QueueLab(tmp_path / "point", lab_xml(queue_xml(point)))
    lab.put(1, 2, 3)
    assert lab.pending() == [3]
    lab.state_file().unlink()
    topics_of(lab).unlink()
    began = time.monotonic()
    with lab.queue(lock_wait=30.0) as queue:
        assert [id_of(one) for one in queue.peek()] == [3]
    assert time.monotonic() - began < 0.9
