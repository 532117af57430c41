"""The numbered cases of queues (``behaviour`` 5.4)."""

from __future__ import annotations

import pytest

from sowctl.engine.queues.fairness import LeaseCandidate, compute_share
from tests.engine.queues.conftest import MakeQueueLab
from tests.support.instances import START, message, topic_xml
from tests.support.queues import ids, lab_xml, queue_xml


def test_c127_what_is_not_acknowledged_is_pending(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1, 2, 3)
    second = lab.peek()[1]
    assert lab.ack_bookmark(second.bookmark) == "done"
    assert lab.pending() == [1, 3]


def test_c128_each_publish_of_a_key_is_a_message(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(7)
    lab.put(7)
    assert lab.pending() == [7, 7]
    assert len(lab.query("orders")) == 1


def test_c129_a_delete_takes_no_message_out(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1, 2)
    lab.open().topic("orders").delete(filter="/id = 1")
    assert lab.query("orders") == ['{"id":2}']
    assert lab.pending() == [1, 2]


def test_c130_two_queues_over_one_topic_and_their_publish_targets(queues: MakeQueueLab) -> None:
    lab = queues(
        xml=lab_xml(
            queue_xml(
                "<DefaultPublishTarget>orders_direct</DefaultPublishTarget>", name="analytics", underlying="^orders"
            ),
            queue_xml(name="work", underlying="orders"),
            topics_xml=topic_xml("orders") + topic_xml("orders_direct"),
            logged=("orders", "orders_direct"),
        )
    )
    lab.put(1)
    lab.put_to("analytics", 2)
    assert lab.pending("work") == [1]
    assert lab.pending("analytics") == [1, 2]
    assert lab.query("orders_direct") == ['{"id":2}']


def test_c131_higher_priorities_come_first_and_equal_ones_by_age(queues: MakeQueueLab) -> None:
    lab = queues("<Priority>/p</Priority>")
    for number, priority in enumerate((1, 9, 5, 9, None)):
        lab.publish("orders", message(id=number, p=priority))
    assert lab.pending() == [1, 3, 2, 0, 4]
    assert [ids(lab.lease())[0] for _ in range(5)] == [1, 3, 2, 0, 4]


def test_c132_a_barrier_waits_for_all_before_it_and_holds_up_all_behind(queues: MakeQueueLab) -> None:
    lab = queues("<BarrierExpression>/sync = 1</BarrierExpression>")
    lab.publish("orders", message(id=1), message(id=2), message(id=9, sync=1), message(id=3))
    first = lab.lease(2)
    assert ids(first) == [1, 2]
    lab.ack(first[1])
    assert lab.states() == [(1, "leased"), (9, "blocked"), (3, "blocked")]
    assert lab.lease(5) == []
    info = lab.info()
    assert info.blocked_by == lab.peek()[1].bookmark
    assert str(info.waiting_for).startswith(f"txid {first[0].txid} ")
    lab.ack(first[0])
    assert lab.states() == [(9, "ready"), (3, "blocked")]
    (barrier,) = lab.lease(5)
    assert (ids([barrier]), barrier.barrier) == ([9], True)
    assert lab.pending() == [3], "a barrier acknowledges itself"
    assert ids(lab.lease(5)) == [3]


def test_what_stands_before_a_barrier_is_delivered_whatever_is_ready_behind_it(queues: MakeQueueLab) -> None:
    """Messages of a higher priority after the barrier are in separate pages."""
    lab = queues("<Priority>/p</Priority>", "<BarrierExpression>/sync = 1</BarrierExpression>")
    lab.publish("orders", message(id=1, p=1), message(id=2, p=1), message(id=3, sync=1))
    lab.publish("orders", *[message(id=number, p=9) for number in range(4, 600)])
    assert (lab.depth().ready, lab.depth().blocked) == (2, 597)
    before = lab.lease(5)
    assert ids(before) == [1, 2]
    lab.ack(*before)
    assert [message.barrier for message in lab.lease()] == [True]
    assert ids(lab.lease()) == [4]


def test_a_query_has_what_is_not_leased_in_the_order_of_delivery(queues: MakeQueueLab) -> None:
    lab = queues(
        xml=lab_xml(
            queue_xml("<BarrierExpression>/sync = 1</BarrierExpression>"),
            queue_xml("<Priority>/id</Priority>", name="ranked"),
        )
    )
    lab.publish("orders", message(id=1), message(id=2), message(id=9, sync=1), message(id=3))
    lab.cancel(*lab.lease(2)[1:], delay=5)
    # Messages after the barrier and delayed ones are included (decision 70); queue peek gives the state of each.
    assert lab.query("work") == ['{"id":2}', '{"id":9,"sync":1}', '{"id":3}']
    assert lab.states() == [(1, "leased"), (2, "delayed"), (9, "blocked"), (3, "blocked")]
    assert lab.query("ranked") == ['{"id":9,"sync":1}', '{"id":3}', '{"id":2}', '{"id":1}']


@pytest.mark.parametrize(("model", "seconds"), [("default", 60), ("queue", 10), ("latest", 60), ("earliest", 10)])
def test_c133_which_of_two_lifetimes_counts(queues: MakeQueueLab, model: str, seconds: int) -> None:
    lab = queues("<Expiration>10s</Expiration>", f"<ExpirationModel>{model}</ExpirationModel>")
    lab.put(1, expiration=60)
    assert lab.peek()[0].expiration == START + seconds * 1_000_000
    lab.clock.tick(seconds - 0.001)
    assert lab.pending() == [1]
    lab.clock.tick(0.001)
    assert lab.pending() == []
    assert lab.info().expired == {"time_limit": 1}


def test_c134_the_second_of_two_cancels_ends_a_message(queues: MakeQueueLab) -> None:
    lab = queues("<MaxCancels>2</MaxCancels>")
    lab.put(1)
    assert lab.cancel(*lab.lease()) == ["done"]
    assert lab.cancel(*lab.lease()) == ["max_cancels"]
    assert lab.states() == [(1, "dead")]
    assert lab.info().expired == {"max_cancels": 1}


def test_c135_proportional_serves_the_least_leased_for_its_room() -> None:
    inky, blinky, clyde = LeaseCandidate(1, 1, 2), LeaseCandidate(2, 3, 4), LeaseCandidate(3, 4, 10)
    got = [compute_share("proportional", [inky, blinky, clyde], seat.number, 1) for seat in (inky, blinky, clyde)]
    assert got == [0, 0, 1]
