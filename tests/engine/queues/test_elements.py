"""Each element of a queue's configuration has an effect, and its absence another one (``behaviour`` 5.4)."""

from __future__ import annotations

import re
import shutil

import pytest

from sowctl.engine.fold.blocks import find_entry_places
from sowctl.engine.queues.fairness import LeaseCandidate, compute_share
from sowctl.engine.topics.positions import open_log
from sowctl.errors import DamageError, MissingError
from sowctl.journal.reader import Journal
from sowctl.store.queue.file import QueueFile
from tests.engine.queues.conftest import MakeQueueLab
from tests.support.faults import CountingSeam
from tests.support.instances import message, topic_xml
from tests.support.queues import ids, lab_xml, queue_xml


def test_underlying_topic_is_a_name(queues: MakeQueueLab) -> None:
    lab = queues(
        xml=lab_xml(queue_xml(), topics_xml=topic_xml("orders") + topic_xml("other"), logged=("orders", "other"))
    )
    lab.put(1)
    lab.put(2, topic="other")
    assert lab.pending() == [1]


def test_underlying_topic_is_a_pattern(queues: MakeQueueLab) -> None:
    xml = queue_xml("<DefaultPublishTarget>orders_eu</DefaultPublishTarget>", underlying="^orders_(eu|us)$")
    names = ("orders_eu", "orders_us", "orders_as")
    lab = queues(xml=lab_xml(xml, topics_xml="".join(map(topic_xml, names)), logged=names))
    for number, name in enumerate(names):
        lab.put(number, topic=name)
    assert lab.pending() == [0, 1]


def test_without_underlying_topic_it_is_the_queues_own_name(queues: MakeQueueLab) -> None:
    lab = queues(xml=lab_xml(queue_xml(underlying=None), logged=("orders", "work")))
    lab.put(9)
    lab.put_to("work", 1, 2)
    assert lab.pending() == [1, 2]
    first, _ = lab.lease(2)
    lab.ack(first)
    # Acknowledgements are entries under the same name, but not messages.
    assert lab.pending() == [2]
    lab.state_file().unlink()
    assert lab.pending() == [2]


def test_acknowledgements_are_no_messages_of_a_topic_of_the_queues_name(queues: MakeQueueLab) -> None:
    lab = queues(xml=lab_xml(queue_xml(underlying=None), logged=("work",)))
    lab.put_to("work", 1, 2)
    lab.ack(*lab.lease())
    ref = "work", "json"
    with open_log(lab.open()) as log:
        blocks = list(log.iter_blocks())
    assert [len(block) for block in blocks] == [2, 1]
    assert [list(find_entry_places(block, ref, unkeyed=True)) for block in blocks] == [[0, 1], []]
    assert [list(find_entry_places(block, ref)) for block in blocks] == [[], []]


def test_underlying_names_may_be_logical(queues: MakeQueueLab) -> None:
    pattern = topic_xml("all", "<Pattern>^desk_</Pattern>")
    lab = queues(xml=lab_xml(queue_xml(underlying="desk_1"), topics_xml=pattern, logged=("all",)))
    lab.put(1, topic="desk_1")
    lab.put(2, topic="desk_2")
    assert lab.pending() == [1]
    assert lab.peek()[0].topic == "desk_1"


def test_filter(queues: MakeQueueLab) -> None:
    lab = queues("<Filter>/id &gt; 2</Filter>")
    lab.put(1, 2, 3, 4)
    assert lab.pending() == [3, 4]


def test_filter_takes_no_message_that_cannot_be_read(queues: MakeQueueLab) -> None:
    topics_xml = topic_xml("orders", key=None)
    lab = queues(xml=lab_xml(queue_xml("<Filter>/id &gt; 2</Filter>"), topics_xml=topics_xml))
    lab.publish("orders", message(id=3), sow_key="a")
    assert lab.pending() == [3]


def test_lease_period(queues: MakeQueueLab) -> None:
    lab = queues("<LeasePeriod>10s</LeasePeriod>")
    lab.put(1)
    lab.lease()
    lab.clock.tick(9.999)
    assert lab.lease() == []
    lab.clock.tick(0.001)
    # A lease ends at its instant, not after it.
    (again,) = lab.lease()
    assert again.deliveries == 2
    assert again.until == lab.clock.at + 10_000_000


def test_without_lease_period_a_lease_has_no_end(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1)
    (message,) = lab.lease()
    assert message.until is None
    lab.clock.tick(10_000_000)
    assert lab.states() == [(1, "leased")]


def test_at_most_once_journals_the_removal_before_it_hands_out(queues: MakeQueueLab) -> None:
    lab = queues("<Semantics>at-most-once</Semantics>")
    lab.put(1, 2)
    assert ids(lab.lease()) == [1]
    assert lab.pending() == [2]
    lab.state_file().unlink()
    assert lab.pending() == [2]


def test_max_backlog_bounds_what_is_leased_in_all(queues: MakeQueueLab) -> None:
    lab = queues("<MaxBacklog>3</MaxBacklog>")
    lab.put(*range(9))
    first = lab.lease(2, "a")
    assert ids(lab.lease(9, "b")) == [2]
    assert lab.lease(9, "c") == []
    lab.ack(first[0])
    assert ids(lab.lease(9, "c")) == [3]


def test_max_per_subscription_backlog_bounds_a_client(queues: MakeQueueLab) -> None:
    lab = queues("<MaxPerSubscriptionBacklog>2</MaxPerSubscriptionBacklog>")
    lab.put(*range(9))
    assert ids(lab.lease(9, "a")) == [0, 1]
    assert lab.lease(9, "a") == []
    assert ids(lab.lease(9, "b")) == [2, 3]


def test_the_default_of_one_does_not_hold_for_clients(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(*range(9))
    assert ids(lab.lease(5, "a")) == [0, 1, 2, 3, 4]


def test_a_worker_has_room_for_what_it_entered_with(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(*range(9))
    with lab.queue() as queue:
        number = queue.register_worker("w", 2, 2)
        assert ids(queue.lease_for_worker(number, 9)) == [0, 1]
        assert queue.lease_for_worker(number, 9) == []
        queue.unregister_worker(number)
    assert lab.states()[:2] == [(0, "ready"), (1, "ready")]


def test_target_queue_depth_bounds_the_state(queues: MakeQueueLab) -> None:
    lab = queues("<TargetQueueDepth>1000</TargetQueueDepth>")
    lab.put(*range(1500))
    depth = lab.depth()
    assert (depth.pending, depth.whole) == (1000, False)
    assert lab.ack(*lab.lease(200)) == ["done"] * 200
    assert lab.depth().pending == 1000
    assert lab.pending()[0] == 200
    while lab.depth().pending:
        assert set(lab.ack(*lab.lease(400))) == {"done"}
    assert (lab.depth().whole, lab.info().acknowledged) == (True, 1500)


def test_acknowledged_while_it_is_beyond_the_target_depth(queues: MakeQueueLab) -> None:
    lab = queues("<TargetQueueDepth>1000</TargetQueueDepth>")
    lab.put(*range(1100))
    first = lab.peek()[0].bookmark.split("|")[0]
    assert lab.ack_bookmark(f"{first}|1050|") == "deferred"
    lab.ack(*lab.lease(500))
    assert 1049 not in lab.pending()
    assert lab.depth().pending == 599


def test_own_entries_that_are_read_again_touch_no_later_lease(queues: MakeQueueLab) -> None:
    parts = "<LeasePeriod>1h</LeasePeriod>", "<TargetQueueDepth>1000</TargetQueueDepth>", "<MaxCancels>1</MaxCancels>"
    lab = queues(*parts)
    lab.put(*range(1500))
    assert lab.cancel(*lab.lease()) == ["max_cancels"]
    with lab.queue() as queue:
        assert queue.requeue([_handle(queue.list_dead()[0]).name]) == ["done"]  # type: ignore[attr-defined]
    (held,) = lab.lease(1, "a")
    # The acknowledgements free space, and the journal is read beyond the entries about the first message.
    lab.ack(*lab.lease(600, "b"), client="b")
    assert (lab.depth().leased, lab.depth().whole) == (1, True)
    info = lab.info()
    assert (info.requeued, info.expired) == (1, {"max_cancels": 1})
    assert lab.ack(held, client="a") == ["done"]


def test_expiration_is_the_queues_where_the_message_has_none(queues: MakeQueueLab) -> None:
    lab = queues("<Expiration>10s</Expiration>")
    lab.put(1)
    lab.clock.tick(10)
    assert lab.pending() == []
    # The record still exists: only its time in the queue is over.
    assert lab.query("orders") == ['{"id":1}']


def test_without_expiration_a_message_stays(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1)
    lab.clock.tick(1_000_000)
    assert lab.pending() == [1]


def test_a_message_expires_while_it_is_leased(queues: MakeQueueLab) -> None:
    lab = queues("<Expiration>10s</Expiration>")
    lab.put(1)
    (message,) = lab.lease()
    lab.clock.tick(10)
    assert lab.ack(message) == ["stale"]
    assert lab.depth().pending == 0


@pytest.mark.parametrize(
    ("point", "expected"),
    [("epoch", [1, 2, 3]), ("now", []), ("2026-01-05T08:00:10Z", [2, 3]), ("20260105T080020Z", [3])],
)
def test_recovery_point(queues: MakeQueueLab, point: str, expected: list[int]) -> None:
    lab = queues(f"<RecoveryPoint>{point}</RecoveryPoint>")
    for number in (1, 2, 3):
        lab.put(number)
        lab.clock.tick(10)
    assert lab.pending() == expected
    lab.put(4)
    assert lab.pending() == [*expected, 4]


def test_recovery_point_bookmark(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1, 2, 3)
    second = lab.peek()[1].bookmark
    lab.config.write_text(lab_xml(queue_xml(f"<RecoveryPoint>{second}</RecoveryPoint>")))
    assert lab.pending() == [3]


def test_recovery_point_creation_survives_the_loss_of_the_state(queues: MakeQueueLab) -> None:
    lab = queues("<RecoveryPoint>creation</RecoveryPoint>")
    lab.put(1)
    assert lab.pending() == []
    lab.put(2)
    lab.state_file().unlink()
    assert lab.pending() == [2]


def test_a_state_of_an_unchanged_recovery_point_is_gone_on_with(queues: MakeQueueLab) -> None:
    lab = queues("<RecoveryPoint>now</RecoveryPoint>")
    lab.put(0)
    assert lab.pending() == [], "now is when the state is made"
    lab.put(1)
    assert lab.pending() == [1]
    lab.put(2)
    assert lab.pending() == [1, 2]


def three(model: str, asking: int, available: int, turn: int = 0) -> int:
    seats = [LeaseCandidate(1, 0, 2), LeaseCandidate(2, 1, 2), LeaseCandidate(3, 0, 4)]
    return compute_share(model, seats, asking, available, turn)  # type: ignore[arg-type]


def test_fairness_models_share_differently() -> None:
    assert [three("fast", number, 3) for number in (1, 2, 3)] == [2, 1, 3]
    assert [three("round-robin", number, 3) for number in (1, 2, 3)] == [1, 1, 1]
    assert [three("round-robin", number, 1, turn=2) for number in (1, 2, 3)] == [0, 0, 1]
    assert [three("proportional", number, 3) for number in (1, 2, 3)] == [1, 0, 2]
    # If there are enough messages, every consumer gets its full capacity.
    for model in ("fast", "round-robin", "proportional"):
        assert [three(model, number, 7) for number in (1, 2, 3)] == [2, 1, 4]


@pytest.mark.parametrize(("model", "expected"), [("fast", [2, 0]), ("round-robin", [1, 1]), ("proportional", [1, 1])])
def test_fairness_among_workers_that_wait(queues: MakeQueueLab, model: str, expected: list[int]) -> None:
    lab = queues(f"<FairnessModel>{model}</FairnessModel>")
    lab.put(0)
    with lab.queue() as queue:
        first, second = queue.register_worker("a", 2, 2), queue.register_worker("b", 2, 2)
        queue.turns.run_change(lambda turn: None)
        (only,) = queue.lease_for_worker(first, 2)
        queue.acknowledge([_handle(only)])
        # Both get no messages and wait.
        assert queue.lease_for_worker(second, 2) == queue.lease_for_worker(first, 2) == []
        lab.put(1, 2)
        got = [len(queue.lease_for_worker(number, 2)) for number in (first, second)]
        assert got == expected
        queue.unregister_worker(first)
        queue.unregister_worker(second)


def test_who_asked_long_ago_is_not_waited_for(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(0)
    with lab.queue() as queue:
        first, second = queue.register_worker("a", 2, 2), queue.register_worker("b", 2, 2)
        queue.lease_for_worker(second, 2)
        queue.lease_for_worker(first, 2)
        lab.clock.tick(3)
        lab.put(1)
        assert len(queue.lease_for_worker(second, 1)) == 1
        queue.unregister_worker(first)
        queue.unregister_worker(second)


def _handle(message: object) -> object:
    from sowctl.engine.queues.queue import build_handle

    return build_handle(message)  # type: ignore[arg-type]


def test_strict_leasing_refuses_a_bookmark_of_another_clients_lease(queues: MakeQueueLab) -> None:
    lab = queues("<Leasing>strict</Leasing>")
    lab.put(1, 2)
    (message,) = lab.lease(1, "a")
    assert lab.ack_bookmark(message.bookmark, "b") == "leased"
    assert lab.states()[0] == (1, "leased")
    assert lab.ack_bookmark(lab.peek()[1].bookmark, "b") == "done", "what is not leased, anyone may acknowledge"
    assert lab.ack_bookmark(message.bookmark, "a") == "done"


def test_sublet_leasing_lets_anyone_acknowledge_by_bookmark(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1)
    (message,) = lab.lease(1, "a")
    assert lab.ack_bookmark(message.bookmark, "b") == "done"
    assert lab.pending() == []


def test_max_deliveries(queues: MakeQueueLab) -> None:
    lab = queues("<MaxDeliveries>2</MaxDeliveries>", "<LeasePeriod>10s</LeasePeriod>")
    lab.put(1)
    lab.lease()
    lab.clock.tick(10)
    lab.lease()
    lab.clock.tick(10)
    assert lab.states() == [(1, "dead")]
    assert lab.info().expired == {"max_deliveries": 1}
    lab.state_file().unlink()
    assert lab.states() == [(1, "dead")], "that it died is journalled"


def test_without_max_deliveries_a_message_comes_back_for_ever(queues: MakeQueueLab) -> None:
    lab = queues("<LeasePeriod>10s</LeasePeriod>")
    lab.put(1)
    for count in range(1, 6):
        assert lab.lease()[0].deliveries == count
        lab.clock.tick(10)
    assert lab.pending() == [1]


def test_without_max_cancels_a_message_comes_back_for_ever(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1)
    for count in range(5):
        (message,) = lab.lease()
        assert (message.cancels, message.deliveries) == (count, count + 1)
        assert lab.cancel(message) == ["done"]


def test_handed_back_untouched_is_neither_a_delivery_nor_a_cancel(queues: MakeQueueLab) -> None:
    lab = queues("<MaxDeliveries>1</MaxDeliveries>", "<MaxCancels>1</MaxCancels>")
    lab.put(1)
    for _ in range(3):
        (message,) = lab.lease()
        assert (message.deliveries, message.cancels) == (1, 0)
        assert lab.cancel(message, started=False) == ["done"]
    assert lab.info().delivered == 0


def test_without_priority_the_order_is_that_of_the_log(queues: MakeQueueLab) -> None:
    lab = queues()
    for number, priority in enumerate((1, 9, 5)):
        lab.publish("orders", message(id=number, p=priority))
    assert ids(lab.lease(3)) == [0, 1, 2]


def test_priority_is_an_expression_read_as_an_unsigned_long(queues: MakeQueueLab) -> None:
    lab = queues("<Priority>/price * /qty</Priority>")
    rows = [(2, 3), (10, 1), (2.5, 3), (-5, 1), ("x", 1), (1e30, 1)]
    for number, (price, qty) in enumerate(rows):
        lab.publish("orders", message(id=number, price=price, qty=qty))
    assert lab.pending() == [5, 1, 2, 0, 3, 4]
    assert [one.priority for one in lab.peek()] == [(1 << 64) - 1, 10, 7, 6, 0, 0]


def test_without_barrier_expression_nothing_is_held_up(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.publish("orders", message(id=1), message(id=9, sync=1), message(id=3))
    assert ids(lab.lease(3)) == [1, 9, 3]


def test_a_barrier_goes_once_to_each_worker_that_lives(queues: MakeQueueLab) -> None:
    lab = queues("<BarrierExpression>/sync = 1</BarrierExpression>")
    lab.publish("orders", message(id=9, sync=1), message(id=3))
    with lab.queue() as queue:
        first, second = queue.register_worker("a", 1, 5), queue.register_worker("b", 1, 5)
        assert [one.barrier for one in queue.lease_for_worker(first, 5)] == [True]
        assert queue.lease_for_worker(first, 5) == [], "not again, and nothing behind it before b has it"
        assert [one.barrier for one in queue.lease_for_worker(second, 5)] == [True]
        assert ids(queue.lease_for_worker(first, 5)) == [3]
        queue.unregister_worker(first)
        queue.unregister_worker(second)


def test_a_barrier_goes_to_all_workers_that_wait(queues: MakeQueueLab) -> None:
    lab = queues("<BarrierExpression>/sync = 1</BarrierExpression>")
    lab.publish("orders", message(id=8, sync=1))
    with lab.queue() as queue:
        workers = [queue.register_worker(name, 1, 1) for name in "abc"]
        assert [len(queue.lease_for_worker(worker, 1)) for worker in workers] == [1, 1, 1]
        assert [queue.lease_for_worker(worker, 1) for worker in workers] == [[], [], []]
        lab.publish("orders", message(id=9, sync=1), message(id=3))
        assert [[one.barrier for one in queue.lease_for_worker(worker, 1)] for worker in workers] == [[True]] * 3
        for worker in workers:
            queue.unregister_worker(worker)


def test_a_barrier_does_not_wait_for_a_worker_that_ended(queues: MakeQueueLab) -> None:
    lab = queues("<BarrierExpression>/sync = 1</BarrierExpression>")
    lab.publish("orders", message(id=9, sync=1), message(id=3))
    with lab.queue() as queue:
        first, second = queue.register_worker("a", 1, 5), queue.register_worker("b", 1, 5)
        queue.lease_for_worker(first, 5)
        queue.unregister_worker(second)
        assert ids(queue.lease_for_worker(first, 5)) == [3]
        queue.unregister_worker(first)


def test_deferred_acknowledgement(queues: MakeQueueLab) -> None:
    lab = queues("<DeferredAckExpiration>1h</DeferredAckExpiration>")
    lab.put(0)
    publisher = client("feed")
    for sequence in (1, 2):
        assert lab.ack_bookmark(f"{publisher}|{sequence}|") == "deferred"
    lab.put(1, client="feed", sequence=1)
    assert lab.pending() == [0]
    lab.clock.tick(3600)
    lab.put(2, client="feed", sequence=2)
    assert lab.pending() == [0, 2], "remembered for an hour"
    lab.state_file().unlink()
    assert lab.pending() == [0, 2], "and so it follows from the journal"


def test_deferred_acknowledgements_are_kept_for_a_day_by_default(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(0)
    lab.ack_bookmark(f"{client('feed')}|1|")
    lab.clock.tick(24 * 3600 - 1)
    lab.put(1, client="feed", sequence=1)
    assert lab.pending() == [0]


def client(name: str) -> int:
    from sowctl.identity.hashes import hash_client_name

    return hash_client_name(name)


def reboot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a reboot: the boot id of the system changes."""
    monkeypatch.setattr(
        "sowctl.engine.queues.change_runner.read_boot_id", lambda: "0a1b2c3d-0000-4000-8000-00000000000f"
    )
    monkeypatch.setattr(
        "sowctl.engine.queues.verification.read_boot_id", lambda: "0a1b2c3d-0000-4000-8000-00000000000f"
    )


@pytest.mark.parametrize(("parts", "cancels"), [((), 0), (("<FileBackedMetadata>enabled</FileBackedMetadata>",), 1)])
def test_file_backed_metadata_outlives_a_crash_of_the_machine(
    queues: MakeQueueLab, monkeypatch: pytest.MonkeyPatch, parts: tuple[str, ...], cancels: int
) -> None:
    lab = queues(*parts)
    lab.put(1)
    lab.cancel(*lab.lease())
    reboot(monkeypatch)
    assert [(one.state, one.cancels) for one in lab.peek()] == [("ready", cancels)]
    assert any("was restarted" in note for note in lab.notes) == (not parts)


def test_file_backed_metadata_can_be_switched_on_while_leases_run(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1)
    (leased,) = lab.lease()
    lab.config.write_text(lab_xml(queue_xml("<FileBackedMetadata>enabled</FileBackedMetadata>")))
    assert lab.ack(leased) == ["done"]
    assert lab.state_file().with_name("work.json.queue-lock").read_text() == "synced"


def test_a_mark_that_says_nothing_is_damage(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1)
    lab.lease()
    mark = lab.state_file().with_name("work.json.queue-lock")
    kept = mark.read_text()
    mark.write_text("garbage")
    with pytest.raises(DamageError) as caught:
        lab.peek()
    assert caught.value.code == "SOW-QUE-002"
    mark.write_text(kept)
    assert lab.states() == [(1, "leased")]


def test_file_backed_metadata_syncs_every_change(queues: MakeQueueLab, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[bool] = []
    original = QueueFile._open_environment

    def noting(self: QueueFile, path: object) -> object:
        opened.append(self.synced)
        return original(self, path)  # type: ignore[arg-type]

    monkeypatch.setattr(QueueFile, "_open_environment", noting)
    lab = queues("<FileBackedMetadata>enabled</FileBackedMetadata>")
    lab.put(1)
    lab.pending()
    assert opened
    assert all(opened)


def test_elements_between_servers_are_shown(queues: MakeQueueLab) -> None:
    parts = "<InitialOwner>other</InitialOwner>", "<GroupLocalQueueDomain>east</GroupLocalQueueDomain>"
    lab = queues(xml=lab_xml(queue_xml(*parts, kind="GroupLocalQueue"), queue_xml(name="near", kind="LocalQueue")))
    lab.put(1)
    assert lab.info().elements == {"InitialOwner": "other", "identity": "work in east"}
    assert lab.info("near").elements == {}
    assert (lab.info().kind, lab.info("near").kind) == ("GroupLocalQueue", "LocalQueue")
    assert lab.pending("near") == [1]


def test_default_publish_target_is_the_underlying_topic(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put_to("work", 1)
    assert lab.query("orders") == ['{"id":1}']
    lab.open().topic("work").publish([b'{"id":2}'])
    assert lab.pending() == [1, 2]


def test_a_look_writes_nothing(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1)
    lab.depth()
    seam = CountingSeam(("lmdb.put",))
    with lab.queue(seam=seam) as queue:
        queue.peek()
    assert seam.count == 0


def test_the_definition_changes_and_leases_stay(queues: MakeQueueLab) -> None:
    lab = queues("<LeasePeriod>1h</LeasePeriod>")
    lab.put(1, 2, 3)
    one, two = lab.lease(2)
    lab.cancel(two)
    lab.config.write_text(lab_xml(queue_xml("<LeasePeriod>1h</LeasePeriod>", "<Filter>/id &lt; 3</Filter>")))
    assert [(one.state, one.deliveries, one.cancels) for one in lab.peek()] == [("leased", 1, 0), ("ready", 1, 1)]
    assert lab.ack(one) == ["done"]
    assert any("rebuilding" in note for note in lab.notes)


def test_leases_do_not_pass_to_the_messages_of_another_copy_of_the_journal(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1)
    lab.pending()
    kept = lab.directory.with_name("kept")
    shutil.copytree(lab.directory / "journal", kept)
    lab.put(2, 3)
    _, two, three = lab.lease(3)
    # An older copy of the journal is restored, and other messages get the same txids.
    state = lab.state_file().read_bytes()
    shutil.rmtree(lab.directory / "journal")
    shutil.copytree(kept, lab.directory / "journal")
    lab.state_file().write_bytes(state)
    lab.forget("orders")
    lab.put(20, 30)
    assert lab.states() == [(1, "ready"), (20, "ready"), (30, "ready")]
    assert lab.ack(two, three) == ["stale", "stale"]
    assert any("another copy" in note or "ahead" in note for note in lab.notes)


def test_a_journal_whose_files_were_all_lost_is_said_to_lack_the_messages(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1, 2, 3)
    for path in lab.journals():
        path.unlink()
    with pytest.raises(MissingError) as caught:
        Journal.open(lab.directory / "journal", lab.open().config.name)
    assert caught.value.code == "SOW-JRN-001" and re.search(r"\b3\b", caught.value.message)
    lab.put(4)
    assert lab.pending() == [4]
    (note,) = [note for note in lab.notes if "'orders'" in note]
    assert re.findall(r"txid (\d+)", note) == ["4", "3"]
