"""Leases by token, order, returns, late and foreign acknowledgements (``behaviour`` 11.66, 11.72)."""

from __future__ import annotations

from threading import Thread

import pytest

from sowctl.engine.queues.handles import MessageHandle
from sowctl.engine.queues.queue import MAX_IDLE_CLIENTS, build_handle
from sowctl.errors import LockedError, MissingError, NegativeError
from tests.engine.queues.conftest import MakeQueueLab
from tests.support.instances import message
from tests.support.queues import id_of, ids, lab_xml, queue_xml


def test_a_stalled_worker_cannot_touch_its_successors_lease(queues: MakeQueueLab) -> None:
    lab = queues("<LeasePeriod>10s</LeasePeriod>")
    lab.put(1)
    (stalled,) = lab.lease(1, "a")
    lab.clock.tick(11)
    (successor,) = lab.lease(1, "b")
    assert successor.token != stalled.token
    assert successor.bookmark == stalled.bookmark
    with lab.queue() as queue:
        for act in (queue.acknowledge, queue.cancel, queue.renew):
            assert act([build_handle(stalled)], "a") == ["stale"]
        assert queue.renew([build_handle(successor)], "b") == ["done"]
        assert queue.acknowledge([build_handle(successor)], "b") == ["done"]
    assert lab.pending() == []


def test_a_lease_that_ended_is_over_even_if_nobody_else_has_it(queues: MakeQueueLab) -> None:
    lab = queues("<LeasePeriod>10s</LeasePeriod>")
    lab.put(1)
    (late,) = lab.lease()
    lab.clock.tick(10)
    assert lab.ack(late) == ["stale"]
    assert lab.states() == [(1, "ready")]


def test_renewing_counts_from_now(queues: MakeQueueLab) -> None:
    lab = queues("<LeasePeriod>10s</LeasePeriod>")
    lab.put(1)
    (leased,) = lab.lease()
    for _ in range(5):
        lab.clock.tick(9)
        with lab.queue() as queue:
            assert queue.renew([build_handle(leased)]) == ["done"]
    assert lab.states() == [(1, "leased")]
    assert lab.ack(leased) == ["done"]


def test_a_renewal_may_make_a_lease_shorter(queues: MakeQueueLab) -> None:
    lab = queues("<LeasePeriod>1h</LeasePeriod>")
    lab.put(1)
    (leased,) = lab.lease()
    lab.config.write_text(lab.config.read_text().replace("1h", "1s"))
    with lab.queue() as queue:
        assert queue.renew([build_handle(leased)]) == ["done"]
    lab.clock.tick(1)
    assert lab.states() == [(1, "ready")]


def test_several_handles_of_one_queue_in_one_process(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1, 2, 3)
    found: list[list[int]] = []
    with lab.queue() as one, lab.queue() as two:
        first = one.lease_for_client(1, "a")
        assert ids(two.lease_for_client(1, "b")) == [2]
        # A query of the queue opens it once more; and other threads have their own handles.
        assert lab.query("work") == ['{"id":3}']
        threads = [Thread(target=lambda: found.append(ids(lab.lease()))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        two.close()
        assert one.acknowledge([build_handle(one) for one in first]) == ["done"]
    assert sorted(found) == [[], [], [], [3]]
    assert lab.states() == [(2, "leased"), (3, "leased")]


def test_tokens_are_not_given_twice_even_when_the_state_is_lost(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1, 2, 3)
    tokens = [one.token for one in lab.lease(3)]
    assert len(set(tokens)) == 3
    # Tokens depend on neither the clock nor a counter: here the instant is the same, and then the state is older.
    lab.state_file().unlink()
    again = lab.lease(3)
    assert not set(tokens) & {one.token for one in again}
    with lab.queue() as queue:
        stale = [MessageHandle(build_handle(one).name, token) for one, token in zip(again, tokens, strict=True)]
        assert queue.acknowledge(stale) == ["stale"] * 3
    lab.cancel(*again)
    kept = lab.state_file().read_bytes()
    (mine,) = lab.lease()
    lab.state_file().write_bytes(kept)
    (theirs,) = lab.lease()
    assert (mine.txid, lab.ack(mine)) == (theirs.txid, ["stale"])


def test_back_off(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1, 2)
    lab.cancel(lab.lease()[0], delay=5)
    assert lab.states() == [(1, "delayed"), (2, "ready")]
    assert ids(lab.lease(2)) == [2]
    lab.clock.tick(5)
    assert ids(lab.lease(2)) == [1], "an instant that is now is over"


def test_a_returned_message_takes_its_old_place(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(*range(1000))
    leased = lab.lease(600)
    lab.cancel(*leased[250:260], *leased[3:5])
    assert ids(lab.lease(15)) == [3, 4, *range(250, 260), 600, 601, 602]


def test_priority_then_age_over_many_pages(queues: MakeQueueLab) -> None:
    lab = queues("<Priority>/p</Priority>")
    rows = [(number, number * 7919 % 5) for number in range(1200)]
    lab.publish("orders", *(message(id=number, p=priority) for number, priority in rows))
    expected = [number for number, _ in sorted(rows, key=lambda row: (-row[1], row[0]))]
    got: list[int] = []
    while batch := lab.lease(101):
        got += ids(batch)
    assert got == expected
    assert lab.lease() == []


def test_acknowledgements_in_any_order_finish_what_they_name(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(*range(600))
    leased = lab.lease(520, "a")
    other = lab.lease(20, "b")
    part = leased[:100] + leased[250:260] + other[:3] + leased[300:101:-1] + [leased[5], leased[519]]
    # Repeated messages are finished by their first occurrence.
    before = [{other.txid for other in part[:place]} for place in range(len(part))]
    expected = ["stale" if one.txid in seen else "done" for one, seen in zip(part, before, strict=True)]
    assert lab.ack(*part) == expected
    gone = {id_of(one) for one in part}
    assert lab.pending() == [number for number in range(600) if number not in gone]
    holders = {one.name: (one.in_flight, one.acknowledged) for one in lab.info().holders}
    assert holders == {"a": (520 - len(gone) + 3, len(gone) - 3), "b": (17, 3)}
    lab.state_file().unlink()
    assert lab.pending() == [number for number in range(600) if number not in gone]


def test_acknowledging_twice(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1)
    (leased,) = lab.lease()
    assert lab.ack_bookmark(leased.bookmark) == "done"
    assert lab.ack_bookmark(leased.bookmark) == "unknown"
    assert lab.ack(leased) == ["stale"]


def test_only_what_is_leased_can_be_cancelled_or_renewed(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1)
    name = build_handle(lab.peek()[0]).name
    with lab.queue() as queue:
        assert queue.cancel([MessageHandle(name)]) == ["not leased"]
        assert queue.renew([MessageHandle(name)]) == ["not leased"]
        assert queue.cancel([MessageHandle((name[0], 99))]) == ["unknown"]


def test_forced_expiry(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1, 2)
    assert lab.ack_bookmark(lab.peek()[0].bookmark, expire=True) == "done"
    assert lab.pending() == [2]
    assert lab.info().expired == {"forced_expire": 1}
    lab.state_file().unlink()
    assert lab.pending() == [2]
    assert lab.ack_bookmark("1|5|", expire=True) == "unknown", "an expiry is not remembered"


def test_dead_messages_come_back_in_their_old_place(queues: MakeQueueLab) -> None:
    lab = queues("<MaxCancels>1</MaxCancels>")
    lab.put(*range(600))
    leased = lab.lease(600)
    assert set(lab.cancel(*leased[100:103])) == {"max_cancels"}
    lab.ack(*leased[:90], *leased[110:599])
    lab.cancel(leased[599])
    with lab.queue() as queue:
        names = [build_handle(leased[place]).name for place in (101, 599)]
        assert queue.requeue(names) == ["done", "done"]
        assert queue.requeue(names) == ["done", "done"], "they are ready"
    assert [number for number, state in lab.states() if state == "ready"] == [101, 599]
    assert [number for number, state in lab.states() if state == "dead"] == [100, 102]
    lab.state_file().unlink()
    assert [number for number, state in lab.states() if state == "dead"] == [100, 102]
    # The leases are lost with the state; the requeued message is among the pending ones.
    assert lab.pending() == [*range(90, 100), 101, *range(103, 110), 599]


def test_a_dead_message_whose_page_has_gone_comes_back(queues: MakeQueueLab) -> None:
    lab = queues("<MaxCancels>1</MaxCancels>")
    lab.put(*range(300))
    leased = lab.lease(300)
    lab.cancel(leased[5])
    lab.ack(*leased[:5], *leased[6:256])
    with lab.queue() as queue:
        assert queue.requeue([build_handle(leased[5]).name]) == ["done"]
    assert lab.pending() == [5, *range(256, 300)]


def test_a_dead_message_can_be_acknowledged(queues: MakeQueueLab) -> None:
    lab = queues("<MaxCancels>1</MaxCancels>")
    lab.put(1)
    (leased,) = lab.lease()
    lab.cancel(leased)
    assert lab.ack_bookmark(leased.bookmark) == "done"
    assert lab.states() == []
    lab.state_file().unlink()
    assert lab.states() == []


def test_purging_leaves_what_is_leased(queues: MakeQueueLab) -> None:
    lab = queues("<MaxCancels>1</MaxCancels>")
    lab.put(*range(5))
    first, second = lab.lease(2)
    lab.cancel(second)
    with lab.queue() as queue:
        assert queue.purge() == 3
        assert queue.bury() == 1
    assert lab.states() == [(0, "leased")]
    assert lab.ack(first) == ["done"]


def test_messages_of_a_client_have_its_bookmarks(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1, 2, client="feed", sequence=10)
    one, two = lab.lease(2)
    publisher = one.bookmark.split("|")[0]
    assert [one.bookmark, two.bookmark] == [f"{publisher}|10|", f"{publisher}|11|"]
    assert lab.ack(one) == ["done"]
    assert lab.ack_bookmark(two.bookmark) == "done"
    assert lab.ack_bookmark(two.bookmark) == "unknown"
    lab.state_file().unlink()
    assert lab.pending() == []


def test_pruned_messages_are_gone_and_hold_nobody_up(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.journal_size = 2000
    for number in range(60):
        lab.put(number)
    assert len(lab.pending()) == 60
    files = lab.journals()
    assert len(files) > 2
    for path in files[:-1]:
        path.unlink()
    for path in lab.directory.rglob("*.topics"):
        path.unlink()
    left = ids(lab.lease(60))
    assert left == list(range(60 - len(left), 60))
    assert 0 < len(left) < 60
    assert lab.info().expired == {"gone": 60 - len(left)}
    assert any("dropped" in note for note in lab.notes)


def test_a_block_of_the_api_acknowledges_or_gives_back(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1, 2, 3)
    with lab.open().queue("work") as queue:
        with queue.lease(2) as messages:
            assert ids(messages) == [1, 2]
        with pytest.raises(RuntimeError, match="no"), queue.lease(2) as messages:
            raise RuntimeError("no")
        assert [(one.state, one.cancels) for one in queue.peek()] == [("ready", 1)]
        assert queue.depth().pending == 1
        (third,) = queue.peek()
        assert queue.acknowledge(third) == ["done"]
        assert (queue.name, queue.info().acknowledged) == ("work", 3)


def test_a_block_that_took_longer_than_its_lease_says_so(queues: MakeQueueLab) -> None:
    lab = queues("<LeasePeriod>10s</LeasePeriod>")
    lab.put(1)
    with lab.open().queue("work") as queue:
        with pytest.raises(NegativeError) as caught, queue.lease() as messages:
            assert ids(messages) == [1]
            lab.clock.tick(10)
        assert (caught.value.code, caught.value.facts["lost"]) == ("SOW-QUE-015", 1)
        assert [one.state for one in queue.peek()] == ["ready"]


def test_what_the_api_can_do_besides(queues: MakeQueueLab) -> None:
    lab = queues("<MaxCancels>1</MaxCancels>")
    lab.put(1, 2, 3, 4)
    with lab.open().queue("work") as queue:
        first, second, *_ = queue.peek()
        assert queue.expire(first) == ["done"]
        with pytest.raises(RuntimeError), queue.lease():
            raise RuntimeError
        assert [(one.txid, one.state) for one in queue.peek()][-1] == (second.txid, "dead")
        assert queue.requeue(second) == ["done"]
        assert [one.state for one in queue.peek()] == ["ready"] * 3
        assert queue.purge() == 3


def test_at_most_once_gives_no_tokens(queues: MakeQueueLab) -> None:
    lab = queues("<Semantics>at-most-once</Semantics>", "<BarrierExpression>/sync = 1</BarrierExpression>")
    lab.put(1)
    (taken,) = lab.lease()
    assert (taken.token, taken.until) == (0, None)
    with lab.open().queue("work") as queue:
        lab.put(2)
        with queue.lease() as messages:
            assert ids(messages) == [2]
    assert lab.info().acknowledged == 2


def test_no_such_queue(queues: MakeQueueLab) -> None:
    lab = queues()
    with pytest.raises(MissingError) as caught:
        lab.open().queue("none")
    assert (caught.value.code, caught.value.hint) == ("SOW-QUE-001", "the queues are: work")
    with pytest.raises(MissingError) as caught:
        lab.open().queue("wrok")
    assert caught.value.hint == "did you mean work?"
    with pytest.raises(MissingError) as caught:
        lab.open().queue("work", "xml")
    assert caught.value.code == "SOW-QUE-001" and str(caught.value.hint).endswith(" json")
    assert "'work'" in caught.value.message and " xml " in caught.value.message
    many = queues(xml=lab_xml(*(queue_xml(name=f"q{number}") for number in range(20))))
    with pytest.raises(MissingError) as caught:
        many.open().queue("none")
    assert "sowctl queue list" in str(caught.value.hint) and "q1" not in str(caught.value.hint)


def test_a_queue_before_anything_was_published(queues: MakeQueueLab) -> None:
    lab = queues()
    assert (lab.pending(), lab.lease(), lab.depth().pending) == ([], [], 0)
    assert not lab.state_file().exists()


def test_a_stopped_process_holds_others_up_for_as_long_as_they_wait(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1)
    with lab.queue() as queue, lab.queue(lock_wait=0.1) as other:

        def act(turn: object) -> None:
            with pytest.raises(LockedError) as caught:
                other.peek()
            assert caught.value.code == "SOW-QUE-010"

        queue.turns.run_change(act)


def test_a_clock_that_goes_back_ends_no_lease_early(queues: MakeQueueLab) -> None:
    lab = queues("<LeasePeriod>10s</LeasePeriod>")
    lab.put(1, 2)
    (leased,) = lab.lease()
    lab.clock.tick(-3600)
    assert ids(lab.lease(2)) == [2]
    assert lab.ack(leased) == ["done"]
    lab.clock.tick(2 * 3600)
    assert lab.states() == [(2, "ready")]


def test_names_that_differ_have_state_files_that_differ(queues: MakeQueueLab) -> None:
    lab = queues(xml=lab_xml(queue_xml(name="a/b"), queue_xml(name="a%2Fb")))
    lab.put(1)
    assert [ids(lab.lease(1, name=name)) for name in ("a/b", "a%2Fb")] == [[1], [1]]
    assert lab.depth("a/b").leased == lab.depth("a%2Fb").leased == 1


def test_names_of_clients_do_not_add_up(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(*range(300))
    with lab.queue() as queue:
        for number in range(250):
            (leased,) = queue.lease_for_client(1, f"job-{number}")
            if number:
                queue.acknowledge([build_handle(leased)])
    holders = lab.info().holders
    assert len(holders) <= MAX_IDLE_CLIENTS + 1
    assert holders[0].name == "job-0", "who has something is not forgotten"


def test_depth_is_right_when_very_much_falls_due_at_once(queues: MakeQueueLab) -> None:
    lab = queues("<LeasePeriod>10s</LeasePeriod>", "<Expiration>20s</Expiration>")
    count = 300 * 256
    for first in range(0, count, 8192):
        lab.put(*range(first, min(count, first + 8192)))
    assert len(lab.lease(count)) == count
    lab.clock.tick(10)
    depth = lab.depth()
    assert (depth.ready, depth.leased) == (count, 0)
    lab.clock.tick(10)
    assert lab.depth().pending == 0
