"""Journal files that a queue still needs, and how it works without the others (``sow-queue(5)``)."""

from __future__ import annotations

import pytest

from sowctl.engine.queues.queue import build_handle
from sowctl.engine.queues.reports import find_oldest_needed_txid
from sowctl.engine.topics.positions import open_log
from sowctl.errors import LockedError
from tests.engine.queues.conftest import MakeQueueLab
from tests.support.instances import message
from tests.support.queues import QueueLab, ids, lab_xml, queue_xml


def needed(lab: QueueLab, name: str = "work") -> int | None:
    with lab.queue(name) as queue:
        return find_oldest_needed_txid(queue)


def prune(lab: QueueLab) -> list[int]:
    """Remove the files that the queue does not need; return the ids of the messages left in the journal."""
    limit = needed(lab)
    with open_log(lab.open()) as log:
        infos = log.list_files()
    for info, path in zip(infos[:-1], lab.journals()[:-1], strict=True):
        if info.last_txid is None or (limit is not None and info.last_txid >= limit):
            break
        path.unlink()
    for path in lab.directory.rglob("*.topics"):
        path.unlink()
    with open_log(lab.open()) as log:
        return [txid for block in log.iter_blocks() for txid in range(block.first_txid, block.last_txid + 1)]


def long(queues: MakeQueueLab, *parts: str, count: int = 60) -> QueueLab:
    """Return a queue whose journal has many files."""
    lab = queues("<LeasePeriod>1h</LeasePeriod>", *parts)
    lab.journal_size = 2000
    for number in range(count):
        lab.put(number)
    return lab


def test_nothing_is_needed_of_a_queue_that_is_empty(queues: MakeQueueLab) -> None:
    lab = queues()
    assert needed(lab) is None, "there is no journal"
    lab.put(1, 2)
    lab.ack(*lab.lease(2))
    assert needed(lab) is None
    lab.put(3)
    assert needed(lab) == lab.peek()[0].txid, "the state is brought up to the end first"


def test_pending_messages_are_needed_in_every_state(queues: MakeQueueLab) -> None:
    lab = queues("<LeasePeriod>10s</LeasePeriod>", "<MaxCancels>2</MaxCancels>")
    lab.put(*range(5))
    txids = [one.txid for one in lab.peek()]
    assert needed(lab) == txids[0], "ready"
    first, second, third, *_ = lab.lease(5)
    lab.cancel(first, delay=3600)
    assert needed(lab) == txids[0], "delayed"
    lab.clock.tick(3600)
    lab.cancel(*lab.lease(1))
    assert lab.states()[-1] == (0, "dead")
    assert needed(lab) == txids[0], "dead: it can be looked at and requeued"
    with lab.queue() as queue:
        queue.bury()
    assert needed(lab) == txids[1], "ready once more, as its lease ended"
    (leased,) = lab.lease()
    assert (leased.txid, needed(lab)) == (second.txid, second.txid), "leased"
    lab.ack(leased)
    assert needed(lab) == third.txid


def test_blocked_messages_are_needed(queues: MakeQueueLab) -> None:
    lab = queues("<BarrierExpression>/sync = 1</BarrierExpression>")
    lab.publish("orders", message(id=1), message(id=9, sync=1), message(id=3))
    first = lab.lease(1)
    barrier = lab.peek()[1]
    lab.ack(*first)
    assert needed(lab) == barrier.txid


def test_what_a_priority_delivers_last_is_needed_though_others_are_done(queues: MakeQueueLab) -> None:
    lab = queues("<Priority>/p</Priority>")
    for number in range(600):
        lab.publish("orders", message(id=number, p=number))
    lab.ack(*lab.lease(599))
    assert lab.pending() == [0]
    assert needed(lab) == lab.peek()[0].txid


def test_what_has_expired_is_not_needed(queues: MakeQueueLab) -> None:
    lab = queues("<Expiration>10s</Expiration>")
    lab.put(1)
    lab.clock.tick(5)
    lab.put(2)
    lab.clock.tick(5)
    assert needed(lab) == lab.peek()[0].txid
    assert lab.pending() == [2]


def test_beyond_the_target_depth_all_is_needed(queues: MakeQueueLab) -> None:
    lab = queues("<TargetQueueDepth>1000</TargetQueueDepth>")
    lab.put(*range(1500))
    assert needed(lab) == lab.peek()[0].txid
    lab.ack(*lab.lease(1000))
    assert needed(lab) == lab.peek()[0].txid
    assert lab.pending()[0] == 1000


def test_a_queue_that_cannot_be_asked_is_an_error(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1)
    with lab.queue() as queue, lab.queue(lock_wait=0.1) as other:

        def act(turn: object) -> None:
            with pytest.raises(LockedError):
                find_oldest_needed_txid(other)

        queue.turns.run_change(act)


@pytest.mark.parametrize("point", ["epoch", "now", "creation", "2026-01-05T08:00:00Z", "BOOKMARK"])
@pytest.mark.parametrize("lost", [False, True])
def test_what_is_needed_survives_the_removal_of_the_rest(queues: MakeQueueLab, point: str, lost: bool) -> None:
    if point == "BOOKMARK":
        owner = queues().open().publisher_id
        point = f"{owner}|1|"
    lab = queues(f"<RecoveryPoint>{point}</RecoveryPoint>", "<MaxCancels>1</MaxCancels>")
    lab.journal_size = 2000
    lab.put(-1)
    lab.pending()
    for number in range(60):
        lab.put(number)
    leased = [one for one in lab.lease(50) if one.payload != b'{"id":-1}']
    lab.ack(*leased[:40])
    lab.cancel(leased[40])
    if lab.states()[0] == (-1, "leased"):
        lab.ack(lab.peek()[0])
    with lab.queue() as queue:
        kept = sorted(ids(queue.peek()))
    expected = list(range(40, 60))
    assert kept == expected
    oldest = needed(lab)
    left = prune(lab)
    assert oldest is not None
    assert left[0] > 30
    assert left[0] <= oldest
    if lost:
        lab.state_file().unlink()
    assert sorted(ids(lab.peek())) == ([] if lost and point == "now" else expected)
    assert [number for number, state in lab.states() if state == "dead"] == ([] if lost and point == "now" else [40])
    lab.put(99)
    assert lab.pending()[-1] == 99


def test_a_queue_of_its_own_topic_that_is_new_begins_now_in_a_pruned_journal(queues: MakeQueueLab) -> None:
    lab = queues(xml=lab_xml(queue_xml(underlying=None, name="other"), logged=("orders", "other", "work")))
    lab.journal_size = 2000
    for number in range(60):
        lab.put_to("other", number)
    config = lab_xml(
        queue_xml("<RecoveryPoint>creation</RecoveryPoint>", underlying=None, name="other"),
        logged=("orders", "other", "work"),
    )
    for path in lab.journals()[:3]:
        path.unlink()
    for path in lab.directory.rglob("*.topics"):
        path.unlink()
    lab.config.write_text(config)
    assert lab.pending("other") == [], "what stood before were messages of the topic"
    lab.put_to("other", 61)
    assert lab.pending("other") == [61]


def test_a_message_that_was_removed_all_the_same_is_gone(queues: MakeQueueLab) -> None:
    lab = long(queues)
    assert len(lab.pending()) == 60
    lab.journals()[0].unlink()
    for path in lab.directory.rglob("*.topics"):
        path.unlink()
    left = ids(lab.lease(60))
    assert 0 < len(left) < 60
    with lab.queue() as queue:
        assert {build_handle(one).name[1] for one in queue.peek()} == {one.txid for one in lab.peek()}
