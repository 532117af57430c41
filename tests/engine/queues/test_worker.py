"""Workers: commands with messages, their status, signals, renewal, dead letters (``behaviour`` 11.64-11.66)."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from msgspec.structs import asdict

from sowctl.engine.queues import worker as worker_module
from sowctl.engine.queues.queue import OpenQueue, build_handle
from sowctl.engine.queues.reports import build_queue_info
from sowctl.engine.queues.worker import Worker, WorkOptions, WorkReport
from sowctl.errors import InputError, LockedError, MissingError, StorageError
from sowctl.journal.lock import JournalLock
from sowctl.values.times import system_clock
from tests.engine.queues.conftest import MakeQueueLab
from tests.support.instances import message
from tests.support.processes import Child
from tests.support.queues import QueueLab, ids

APPEND = 'cat >> "$OUT"; echo >> "$OUT"'
"""A command that appends its message to a file, one per line."""


def work(lab: QueueLab, *command: str, out: Path | None = None, **options: object) -> WorkReport:
    """Run a worker until the queue is empty."""
    environment = {"PATH": os.environ["PATH"], "OUT": str(out or lab.directory / "out")}
    chosen: dict[str, object] = {"until_empty": True, "backoff": 0.0, "environment": environment} | options
    with lab.queue() as queue:
        return Worker(queue, WorkOptions(command, "w", **chosen)).run()  # type: ignore[arg-type]


def lines(lab: QueueLab) -> list[str]:
    return (lab.directory / "out").read_text().splitlines()


def live(lab: QueueLab) -> QueueLab:
    """A lab whose clock is the system's."""
    lab.clock = system_clock  # type: ignore[assignment]
    return lab


def test_each_message_is_processed_once_in_order(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(*range(10))
    report = work(lab, "sh", "-c", APPEND)
    assert lines(lab) == [message(id=number) for number in range(10)]
    assert (report.delivered, report.acknowledged, report.cancelled) == (10, 10, 0)
    assert lab.depth().pending == 0
    assert lab.info().holders == []


def test_another_status_cancels_with_a_back_off_that_doubles(queues: MakeQueueLab) -> None:
    lab = queues("<MaxCancels>3</MaxCancels>")
    lab.put(1)
    with lab.queue() as queue:
        worker = Worker(queue, WorkOptions(("false",), "w", backoff=10.0))
        assert [worker._compute_backoff(cancels) for cancels in (0, 1, 2, 9)] == [10, 20, 40, 300]
    report = work(lab, "sh", "-c", f"{APPEND}; exit 3")
    assert (report.cancelled, report.dead) == (2, 1)
    assert len(lines(lab)) == 3
    assert lab.states() == [(1, "dead")]


def test_the_message_may_come_in_a_file(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1, 2)
    work(lab, "sh", "-c", 'cat "$0" >> "$OUT"; echo " $(cat)" >> "$OUT"', "{}")
    assert lines(lab) == ['{"id":1} ', '{"id":2} '], "and nothing on standard input"


def test_a_batch_is_lines_and_is_acknowledged_together(queues: MakeQueueLab) -> None:
    lab = queues("<MaxPerSubscriptionBacklog>4</MaxPerSubscriptionBacklog>")
    lab.put(*range(10))
    report = work(lab, "sh", "-c", 'echo "$(cat | tr "\\n" " ")" >> "$OUT"', batch=4)
    assert [line.count("id") for line in lines(lab)] == [4, 4, 2]
    assert report.acknowledged == 10


def test_a_batch_is_bounded_by_the_backlog_of_a_subscription(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(*range(3))
    work(lab, "sh", "-c", 'wc -l >> "$OUT"', batch=4)
    assert [line.strip() for line in lines(lab)] == ["1"] * 3


def test_commands_run_side_by_side(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(*range(4))
    begin = time.monotonic()
    work(lab, "sleep", "0.5", concurrency=4)
    assert time.monotonic() - begin < 1.5


def test_commands_are_told_about_their_message(queues: MakeQueueLab) -> None:
    lab = queues("<BarrierExpression>/sync = 1</BarrierExpression>")
    lab.publish("orders", message(id=1), message(id=2, sync=1))
    first = lab.peek()[0]
    work(lab, "sh", "-c", 'echo "$SOWCTL_QUEUE $SOWCTL_BOOKMARK $SOWCTL_DELIVERIES $SOWCTL_BARRIER" >> "$OUT"')
    assert lines(lab)[0] == f"work {first.bookmark} 1 "
    assert lines(lab)[1].endswith(" 1 1")


def test_a_command_that_cannot_be_started(queues: MakeQueueLab) -> None:
    lab = queues("<MaxDeliveries>1</MaxDeliveries>")
    lab.put(1)
    with pytest.raises(MissingError) as caught:
        work(lab, "/nowhere/command")
    assert caught.value.code == "SOW-QUE-013"
    assert [(one.state, one.deliveries) for one in lab.peek()] == [("ready", 0)], "untouched"


def test_dead_messages_go_to_a_topic_of_their_own(queues: MakeQueueLab) -> None:
    lab = queues("<MaxCancels>1</MaxCancels>")
    lab.put(1, 2)
    buried: list[bytes] = []
    report = work(lab, "sh", "-c", "grep -q 2", bury=buried.extend)
    assert (report.dead, report.buried, buried) == (1, 1, [b'{"id":1}'])
    assert lab.states() == []
    lab.state_file().unlink()
    assert lab.states() == [], "that it was taken care of is journalled"


def test_at_most_once_acknowledges_before_and_whatever_the_status(queues: MakeQueueLab) -> None:
    lab = queues("<Semantics>at-most-once</Semantics>")
    lab.put(1, 2)
    report = work(lab, "sh", "-c", f"{APPEND}; exit 1")
    assert len(lines(lab)) == 2
    assert (report.delivered, report.failed, report.cancelled, lab.depth().pending) == (2, 2, 0, 0)
    assert lab.info().acknowledged == 2, "removed when they were handed out"


def test_at_most_once_looks_for_the_command_before_it_takes_a_message(queues: MakeQueueLab) -> None:
    lab = queues("<Semantics>at-most-once</Semantics>")
    lab.put(1)
    with pytest.raises(MissingError) as caught:
        work(lab, "no-such-command")
    assert (caught.value.code, lab.pending()) == ("SOW-QUE-013", [1])


def test_a_dead_message_that_is_refused_elsewhere_holds_up_no_other(queues: MakeQueueLab) -> None:
    lab = queues("<MaxCancels>1</MaxCancels>")
    lab.put(1, 2, 3)
    buried: list[bytes] = []

    def bury(payloads: list[bytes]) -> None:
        if b"2" in payloads[0]:
            raise InputError("SOW-PUB-002", "it has no key")
        buried.extend(payloads)

    report = work(lab, "false", bury=bury)
    assert (report.dead, report.buried, len(buried)) == (3, 2, 2)
    assert lab.states() == [(2, "dead")]
    assert sum("it has no key" in note for note in lab.notes) == 1


def test_a_lease_is_renewed_while_the_command_runs(queues: MakeQueueLab) -> None:
    lab = live(queues("<LeasePeriod>400ms</LeasePeriod>"))
    lab.put(1)
    report = work(lab, "sleep", "1.5")
    assert (report.acknowledged, report.lost, report.delivered) == (1, 0, 1)


def test_an_acknowledgement_that_has_to_wait_is_made_later(
    queues: MakeQueueLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = queues()
    lab.put(1, 2)
    acknowledge, tries = OpenQueue.acknowledge, []

    def busy(self: OpenQueue, *arguments: object, **options: object) -> object:
        tries.append(1)
        if len(tries) == 1:
            raise LockedError("SOW-JRN-030", "the journal is in use")
        return acknowledge(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(OpenQueue, "acknowledge", busy)
    report = work(lab, "sh", "-c", APPEND)
    assert (report.acknowledged, report.lost, len(lines(lab))) == (2, 0, 2)
    assert any(note.startswith("the journal is in use;") for note in lab.notes)


def test_a_worker_wakes_when_a_back_off_is_over(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1)
    with lab.queue() as queue:
        worker = Worker(queue, WorkOptions(("true",), "w"))
        number = queue.register_worker("w", 1, 1)
        assert worker._compute_pause() is None
        queue.cancel([build_handle(one, 200_000) for one in queue.lease_for_worker(number, 1)])
        assert queue.lease_for_worker(number, 1) == []
        assert worker._compute_pause() == 0.2
        lab.clock.tick(0.2)
        assert ids(queue.lease_for_worker(number, 1)) == [1]
        queue.unregister_worker(number)


def test_what_keeps_a_worker_from_ending_is_said_once(queues: MakeQueueLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module.WORKER_LIMITS, "idle_notice_seconds", 0.0)
    lab = live(queues("<LeasePeriod>1500ms</LeasePeriod>"))
    lab.put(1)
    lab.lease(1, "somebody")
    assert work(lab, "cat").acknowledged == 1
    (note,) = [note for note in lab.notes if "'work'" in note]
    assert ": 1 leased" in note


def test_commands_are_stopped_though_nothing_can_be_written(
    queues: MakeQueueLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = queues()
    lab.put(1, 2)

    def full(self: OpenQueue, *arguments: object, **options: object) -> object:
        raise StorageError("SOW-STO-040", "the disk is full")

    monkeypatch.setattr(OpenQueue, "acknowledge", full)
    # The first command ends, and its acknowledgement fails, only after the second one is running.
    command = 'grep -q 1 && { until [ -s "$OUT" ]; do sleep 0.01; done; exit 0; }; echo $$ > "$OUT"; sleep 60'
    with pytest.raises(StorageError):
        work(lab, "sh", "-c", command, concurrency=2)
    with pytest.raises(ProcessLookupError):
        os.kill(int(lines(lab)[0]), 0)
    assert [(one.state, one.deliveries) for one in lab.peek()] == [("ready", 1), ("ready", 1)]


def worker_in(lab: QueueLab, *command: str) -> Child:
    """Run a worker in a separate process; SIGTERM ends it as it ends the program."""

    def run(child: Child) -> None:
        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        signal.signal(signal.SIGTERM, stop)
        try:
            work(lab, *command, until_empty=False)
        except KeyboardInterrupt:
            child.say("stopped")

    return Child(run)


def stopped_after(
    lab: QueueLab, monkeypatch: pytest.MonkeyPatch, name: str, *command: str, **options: object
) -> WorkReport:
    """Return the report of a worker that a signal ends after a change of the queue, before the worker knows of it."""
    original = getattr(OpenQueue, name)

    def told(*arguments: object, **more: object) -> object:
        found = original(*arguments, **more)
        monkeypatch.setattr(OpenQueue, name, original)
        os.kill(os.getpid(), signal.SIGTERM)
        return found

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(OpenQueue, name, told)
    before = signal.signal(signal.SIGTERM, stop)
    environment = {"PATH": os.environ["PATH"], "OUT": str(lab.directory / "out")}
    chosen = WorkOptions(command, "w", backoff=0.0, environment=environment, **options)  # type: ignore[arg-type]
    try:
        with lab.queue() as queue:
            worker = Worker(queue, chosen)
            with pytest.raises(KeyboardInterrupt):
                worker.run()
            return worker.report
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("name", "command", "limits", "counts"),
    [
        ("acknowledge", "true", "", {"delivered": 1, "acknowledged": 1}),
        ("cancel", "false", "", {"delivered": 1, "cancelled": 1}),
        ("cancel", "false", "<MaxCancels>1</MaxCancels>", {"delivered": 1, "dead": 1}),
        ("lease_for_worker", "true", "", {"delivered": 1, "returned": 1}),
    ],
)
def test_a_signal_after_a_change_leaves_its_counts_right(
    queues: MakeQueueLab, monkeypatch: pytest.MonkeyPatch, name: str, command: str, limits: str, counts: dict[str, int]
) -> None:
    lab = live(queues("<LeasePeriod>1m</LeasePeriod>", *([limits] if limits else [])))
    lab.put(1, 2)
    report = stopped_after(lab, monkeypatch, name, command)
    assert {field: count for field, count in asdict(report).items() if count} == counts
    assert not any("expired" in note for note in lab.notes)
    info = lab.info()
    assert (info.acknowledged, info.cancelled) == (report.acknowledged, report.cancelled + report.dead)


def test_a_signal_after_dead_messages_are_buried_leaves_their_count_right(
    queues: MakeQueueLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = live(queues("<MaxCancels>1</MaxCancels>"))
    lab.put(1)
    published: list[bytes] = []
    report = stopped_after(lab, monkeypatch, "bury", "false", bury=published.extend)
    assert (report.dead, report.buried, len(published)) == (1, 1, 1)


@pytest.mark.parametrize(
    ("limits", "counts"),
    [
        ("", {"delivered": 1, "returned": 1}),
        ("<MaxDeliveries>1</MaxDeliveries>", {"delivered": 1, "dead": 1}),
        ("<Semantics>at-most-once</Semantics>", {"delivered": 1, "failed": 1}),
    ],
)
def test_messages_of_commands_that_are_stopped_are_counted(
    queues: MakeQueueLab, monkeypatch: pytest.MonkeyPatch, limits: str, counts: dict[str, int]
) -> None:
    lab = live(queues(*([limits] if limits else [])))
    lab.put(1)

    def stop(report: WorkReport) -> None:
        raise KeyboardInterrupt

    with lab.queue() as queue:
        worker = Worker(queue, WorkOptions(("sleep", "60"), "w", environment=dict(os.environ), on_round=stop))
        with pytest.raises(KeyboardInterrupt):
            worker.run()
    assert {field: count for field, count in asdict(worker.report).items() if count} == counts


def test_a_signal_while_a_change_takes_its_locks_leaves_none_held(
    queues: MakeQueueLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = live(queues())
    lab.put(1)
    original = JournalLock.acquire

    def told(*arguments: object, **options: object) -> object:
        found = original(*arguments, **options)  # type: ignore[arg-type]
        monkeypatch.setattr(JournalLock, "acquire", original)
        os.kill(os.getpid(), signal.SIGTERM)
        return found

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with lab.queue() as queue:
        (leased,) = queue.lease_for_client(1, "c")
        before = signal.signal(signal.SIGTERM, stop)
        try:
            monkeypatch.setattr(JournalLock, "acquire", told)
            with pytest.raises(KeyboardInterrupt):
                queue.acknowledge([build_handle(leased)], "c")
        finally:
            signal.signal(signal.SIGTERM, before)
        lab.put(2)
        (other,) = queue.lease_for_client(1, "c")
        assert queue.acknowledge([build_handle(other)], "c") == ["done"]


def until(lab: QueueLab, states: list[tuple[int, str]], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while lab.states() != states:
        assert time.monotonic() < end, lab.states()
        time.sleep(0.02)


def test_sigterm_stops_commands_and_gives_leases_back(queues: MakeQueueLab) -> None:
    lab = live(queues())
    lab.put(1)
    with worker_in(lab, "sleep", "60") as child:
        until(lab, [(1, "leased")])
        (holder,) = lab.info().holders
        assert (holder.kind, holder.pid, holder.in_flight) == ("worker", child.pid, 1)
        child.signal(signal.SIGTERM)
        child.wait_for(b"stopped")
    assert [(one.state, one.deliveries) for one in lab.peek()] == [("ready", 1)]
    assert lab.info().holders == []


def stopped_by_itself(lab: QueueLab, place: object, name: str) -> list[tuple[str, int]]:
    """Return states and deliveries after a signal at the end of a function that the worker calls."""
    original = getattr(place, name)

    def told(*arguments: object, **options: object) -> object:
        found = original(*arguments, **options)
        os.kill(os.getpid(), signal.SIGTERM)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, name, told)
        with worker_in(lab, "sleep", "60") as child:
            child.wait_for(b"stopped")
    return [(one.state, one.deliveries) for one in lab.peek()]


def test_a_signal_while_a_command_starts_stops_it_first(queues: MakeQueueLab) -> None:
    lab = live(queues("<LeasePeriod>1h</LeasePeriod>"))
    lab.put(1)
    # Returned as unprocessed, the message could be leased by another worker while the command still runs.
    assert stopped_by_itself(lab, worker_module.subprocess, "Popen") == [("ready", 1)]


def test_a_signal_while_messages_are_leased_makes_no_delivery_of_it(queues: MakeQueueLab) -> None:
    lab = live(queues("<LeasePeriod>1h</LeasePeriod>", "<MaxDeliveries>1</MaxDeliveries>"))
    lab.put(1)
    assert stopped_by_itself(lab, OpenQueue, "lease_for_worker") == [("ready", 0)]


def test_what_a_killed_worker_has_returns_when_its_command_has_ended(queues: MakeQueueLab) -> None:
    lab = live(queues())
    lab.put(1)
    begun = lab.directory / "out.begun"
    with worker_in(lab, "sh", "-c", 'touch "$OUT.begun"; while [ ! -e "$OUT" ]; do sleep 0.05; done') as child:
        end = time.monotonic() + 10
        while not begun.exists():
            assert time.monotonic() < end
            time.sleep(0.01)
        child.kill()
        time.sleep(0.7)
        lab.info()
        assert lab.states() == [(1, "leased")], "its command still runs"
        (lab.directory / "out").touch()
        end = time.monotonic() + 10
        while lab.info().holders:
            assert time.monotonic() < end
            time.sleep(0.05)
    assert lab.states() == [(1, "ready")]


def test_a_worker_stopped_past_its_lease_loses_it(queues: MakeQueueLab) -> None:
    lab = live(queues("<LeasePeriod>1s</LeasePeriod>"))
    lab.put(1)
    with worker_in(lab, "sh", "-c", "sleep 0.5") as child:
        until(lab, [(1, "leased")])
        child.signal(signal.SIGSTOP)
        until(lab, [(1, "ready")])
        (successor,) = lab.lease(1, "successor")
        child.signal(signal.SIGCONT)
        time.sleep(0.5)
        with lab.queue() as queue:
            assert [one.holder for one in queue.peek()] == ["successor"], "not finished by the stalled one"
            assert build_queue_info(queue).acknowledged == 0
        child.signal(signal.SIGTERM)
        child.wait_for(b"stopped")
    assert successor.deliveries == 2


def test_new_messages_wake_a_worker(queues: MakeQueueLab) -> None:
    lab = live(queues())
    lab.put(0)
    with worker_in(lab, "sh", "-c", APPEND) as child:
        end = time.monotonic() + 10
        while not (lab.directory / "out").exists():
            assert time.monotonic() < end
            time.sleep(0.01)
        for number in range(1, 4):
            lab.put(number)
        until(lab, [])
        child.signal(signal.SIGTERM)
        child.wait_for(b"stopped")
    assert len(lines(lab)) == 4


def message_files(lab: QueueLab) -> list[str]:
    return sorted(path.name for path in lab.state_file().with_name("work.json.queue-workers").glob("*.message-*"))


def test_message_files_go_with_the_commands(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1, 2)
    work(lab, "sh", "-c", 'basename "$0" >> "$OUT"', "{}")
    assert len(set(lines(lab))) == 2
    assert message_files(lab) == []


@pytest.mark.parametrize("lost", [False, True])
def test_the_next_worker_removes_the_message_file_of_a_killed_one(queues: MakeQueueLab, lost: bool) -> None:
    lab = live(queues())
    lab.put(1)
    begun, let_go = lab.directory / "out.begun", lab.directory / "out.end"
    slow = 'touch "$OUT.begun"; while [ ! -e "$OUT.end" ]; do sleep 0.05; done; cat "$0" > "$OUT.seen"'
    with worker_in(lab, "sh", "-c", slow, "{}") as child:
        end = time.monotonic() + 10
        while not begun.exists():
            assert time.monotonic() < end
            time.sleep(0.01)
        child.kill()
        if lost:
            # Then no state records the worker.
            lab.state_file().unlink()
        else:
            time.sleep(0.6)
        with lab.queue() as queue:
            queue.unregister_worker(queue.register_worker("next", 1, 1))
        assert len(message_files(lab)) == 1, "its command has yet to read it"
        let_go.touch()
        while not (lab.directory / "out.seen").exists():
            assert time.monotonic() < end
            time.sleep(0.01)
        time.sleep(0.2)
    assert (lab.directory / "out.seen").read_text() == '{"id":1}'
    assert work(lab, "cat").acknowledged == 1
    assert message_files(lab) == []
    assert list(lab.state_file().with_name("work.json.queue-workers").iterdir()) == []


def test_a_worker_outlives_the_loss_of_the_state(queues: MakeQueueLab) -> None:
    lab = queues()
    lab.put(1, 2, 3)
    with lab.queue() as queue:
        number = queue.register_worker("old", 1, 1)
        (first,) = queue.lease_for_worker(number, 1)
        lab.state_file().unlink()
        with lab.queue() as other:
            successor = other.register_worker("new", 1, 1)
            assert successor != number
            (again,) = other.lease_for_worker(successor, 1)
            assert again.payload == first.payload
            assert queue.acknowledge([build_handle(first)]) == ["stale"], "its lease went with the state"
            assert ids(queue.lease_for_worker(number, 1)) == [2]
            assert sorted((one.name, one.in_flight) for one in build_queue_info(queue).holders) == [
                ("new", 1),
                ("old", 1),
            ]
            other.unregister_worker(successor)
        queue.unregister_worker(number)
    assert lab.states() == [(1, "ready"), (2, "ready"), (3, "ready")]


def dead(lab: QueueLab) -> list[tuple[object, ...]]:
    """Return reason, deliveries, holder, exit status and standard error of each dead message."""
    with lab.queue() as queue:
        found = queue.peek(state="dead")
    return [(one.reason, one.deliveries, one.holder, one.exit_status, one.stderr) for one in found]


def test_a_dead_message_has_what_the_last_command_left(queues: MakeQueueLab, capfd: pytest.CaptureFixture[str]) -> None:
    lab = queues("<MaxCancels>2</MaxCancels>")
    lab.put(1)
    work(lab, "sh", "-c", 'for n in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "line $n" >&2; done; exit 3')
    (row,) = dead(lab)
    assert row[:4] == ("max_cancels", 2, "w", 3)
    assert str(row[4]).splitlines() == [f"line {number}" for number in range(3, 13)]
    # Standard error is also passed through, from both runs.
    assert capfd.readouterr().err.count("line 12\n") == 2
    lab.put(2)
    work(lab, "sh", "-c", "printf '%5000s' x >&2; kill -9 $$")
    assert [(row[3], len(str(row[4]))) for row in dead(lab)] == [(3, 72), (137, 2000)]
    # Another delivery is another attempt.
    with lab.queue() as queue:
        queue.requeue([one.name for one in queue.peek(state="dead")])
    work(lab, "true")
    assert dead(lab) == []


def test_a_dead_message_without_a_command_has_who_had_it_last(queues: MakeQueueLab) -> None:
    lab = queues("<MaxDeliveries>1</MaxDeliveries>", "<LeasePeriod>10s</LeasePeriod>")
    lab.put(1)
    with lab.queue() as queue:
        queue.lease_for_client(1, "by hand")
    lab.clock.tick(60)
    with lab.queue() as queue:
        queue.lease_for_client(1, "another")
    assert dead(lab) == [("max_deliveries", 1, "by hand", None, "")]
    # Rebuilt from the journal alone, the state has only the reason.
    for path in lab.directory.glob("journal/*.queues/*"):
        path.unlink()
    assert [row[0] for row in dead(lab)] == ["max_deliveries"]
    assert lab.findings() == []


def test_a_process_that_outlives_its_command_keeps_nobody_waiting(queues: MakeQueueLab) -> None:
    lab = queues("<MaxCancels>1</MaxCancels>")
    lab.put(1)
    began = time.monotonic()
    work(lab, "sh", "-c", "echo last words >&2; sleep 4 & exit 1")
    assert time.monotonic() - began < 3
    assert dead(lab)[0][3:] == (1, "last words")
    time.sleep(max(0.0, 4.5 - (time.monotonic() - began)))


def test_what_commands_write_comes_whole_through_the_worker(
    queues: MakeQueueLab, capfd: pytest.CaptureFixture[str]
) -> None:
    lab = queues()
    lab.put(*range(4))
    work(lab, "sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x >&2; echo >&2", concurrency=2)
    assert capfd.readouterr().err.count("x") == 4 * 300_000
