"""Batches that share a sync: the number of syncs for a full input, and the state after errors and interrupts."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterator
from threading import Event
from time import sleep
from typing import Any

import pytest

import sowctl.engine.writing.commit as commit_module
from sowctl.engine.options import PublishOptions
from sowctl.engine.reports import InputRest, PublishReport, Rejected
from sowctl.engine.topics.positions import open_log
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.writing.batches import ListSource
from sowctl.engine.writing.commit import AcknowledgedBatch
from sowctl.engine.writing.group_commit import MESSAGE_OVERHEAD_BYTES
from sowctl.engine.writing.limits import WRITING_LIMITS
from sowctl.errors import InputError, LimitError, SowError
from sowctl.messages.framing.frames import FrameReader
from sowctl.seam import SEAM, Seam
from tests.engine.writing.test_interrupted import Once
from tests.support.faults import CountingSeam, FailAt
from tests.support.instances import Lab, message

BATCH = 2


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WRITING_LIMITS, "default_batch_messages", BATCH)
    monkeypatch.setattr(WRITING_LIMITS, "max_batch_messages", BATCH)


def _messages(count: int, start: int = 0) -> list[bytes]:
    return [message(id=n, v=n).encode() for n in range(start, start + count)]


def _publish(
    lab: Lab, messages: list[bytes], topic: str = "t", **options: object
) -> tuple[list[AcknowledgedBatch], object]:
    """Return the acknowledged batches, and the report or the error that ended the run."""
    seen: list[AcknowledgedBatch] = []
    chosen = PublishOptions(**{"linger": 9.0} | options)  # type: ignore[arg-type]
    try:
        with lab.open() as instance:
            report = publish_messages(
                instance, topic, [("in", ListSource(messages, 3))], chosen, on_acknowledged=seen.append
            )
    except (SowError, KeyboardInterrupt) as error:
        return seen, error
    return seen, report


def _logged(lab: Lab) -> list[bytes]:
    if not lab.journals():
        return []
    with open_log(lab.open()) as log:
        return [payload for block in log.iter_blocks() for payload in block.list_payloads()]


def _syncs(lab: Lab, count: int, topic: str = "t", **options: object) -> int:
    """Return the number of syncs for ``count`` messages, without the one at opening."""
    lab.publish(topic, *_messages(1))
    lab.seam = seam = CountingSeam(("file.sync",))
    _, report = _publish(lab, _messages(count), topic, **options)
    assert isinstance(report, PublishReport)
    assert report.published == count
    lab.seam = SEAM
    return seam.count - 1


def test_a_full_input_is_synced_once_for_many_batches(lab: Lab) -> None:
    assert _syncs(lab, 40) == 1


def test_a_batch_of_a_given_number_is_synced_by_itself(lab: Lab) -> None:
    assert _syncs(lab, 40, batch=BATCH) == 20


def test_what_is_synced_together_has_bounds_of_bytes_and_of_time(lab: Lab) -> None:
    size = len(_messages(40)[-1]) + MESSAGE_OVERHEAD_BYTES
    assert _syncs(lab, 40, batch_bytes=8 * size) in (5, 6)
    assert _syncs(lab, 40, linger=0.0) >= 20


def test_each_batch_is_acknowledged_with_its_place_and_is_a_group(lab: Lab) -> None:
    data = b"".join(one + b"\n" for one in _messages(7))
    seen: list[AcknowledgedBatch] = []
    with (lab.directory / "in").open("w+b") as file:
        file.write(data)
        file.seek(0)
        source = FrameReader(file.fileno(), "lines")
        publish_messages(lab.open(), "t", [("in", source)], PublishOptions(linger=9), on_acknowledged=seen.append)
    assert [(len(a.payloads), a.first_txid, a.last_txid) for a in seen] == [(2, 1, 2), (2, 3, 4), (2, 5, 6), (1, 7, 7)]
    assert [a.end_offset for a in seen] == [data.index(b"\n", a.end_offset - 1) + 1 for a in seen]
    with open_log(lab.open()) as log:
        assert [(b.header.group, b.header.first_txid, b.header.last_txid) for b in log.iter_blocks()] == [
            (1, 1, 2), (3, 3, 4), (5, 5, 6), (7, 7, 7),
        ]  # fmt: skip


class Waiting:
    """A source that pauses between its messages, and notes the acknowledged count at each wait."""

    blocking = ended = False

    def __init__(self, seen: list[AcknowledgedBatch], messages: list[bytes]) -> None:
        self.seen, self.messages, self.at, self.noted = seen, messages, 0, list[int]()

    def poll(self, timeout: float | None = None):  # type: ignore[no-untyped-def]
        if timeout == 0 and self.at % 4 == 0 and self.at < len(self.messages):
            return None
        self.noted.append(sum(len(one.payloads) for one in self.seen))
        if self.at == len(self.messages):
            self.ended = True
            return None
        self.at += 2
        return ListSource(self.messages[self.at - 2 : self.at]).poll()


def test_all_is_acknowledged_before_the_run_waits_for_more(lab: Lab) -> None:
    seen: list[AcknowledgedBatch] = []
    source = Waiting(seen, _messages(12))
    publish_messages(lab.open(), "t", [("in", source)], PublishOptions(linger=9), on_acknowledged=seen.append)
    # It had no message ready before the messages 0, 4 and 8; at the end it reports the end at once.
    assert source.noted == [0, 0, 4, 4, 8, 8, 8]


def test_nothing_behind_a_refused_message_is_published(lab: Lab) -> None:
    seen, error = _publish(lab, [*_messages(5), b"{bad", *_messages(9, 5)])
    assert isinstance(error, InputError)
    assert error.facts["report"].published == 5
    assert sum(len(one.payloads) for one in seen) == 5
    assert _logged(lab) == _messages(5)


def test_what_is_refused_is_counted_over_batches(lab: Lab) -> None:
    messages = [one for n in range(6) for one in (*_messages(3, 3 * n), b"{bad")]
    refused: list[Rejected] = []
    with pytest.raises(LimitError):
        publish_messages(
            lab.open(), "t", [("in", ListSource(messages))], PublishOptions(on_error="skip", max_errors=2),
            on_reject=refused.append,
        )  # fmt: skip
    assert len(refused) == 3
    assert _logged(lab) == _messages(9)


def test_messages_of_batches_that_are_not_synced_yet_are_met(lab: Lab) -> None:
    _, report = _publish(lab, [message(id=n % 3, v=n // 6).encode() for n in range(12)])
    assert isinstance(report, PublishReport)
    assert (report.inserted, report.updated, report.unchanged) == (3, 3, 6)
    assert lab.open().topic("t").replay(verify=True).action == "verified"


def test_a_topic_without_a_journal_syncs_each_batch(lab: Lab) -> None:
    lab.publish("alone", *_messages(1))
    seen, _ = _publish(lab, _messages(9), "alone")
    assert [(one.first_txid, one.last_txid) for one in seen] == [(2, 3), (4, 5), (6, 7), (8, 9), (10, 10)]


def test_envelopes_of_other_topics_go_on_under_locks_of_their_own(lab: Lab) -> None:
    names = ["t", "t", "t", "t", "quotes", "quotes", "t", "own", "t", "alone", "quotes", "t"]
    lines = b"".join(
        b'{"topic":"%s","sow_key":"k%d","data":%s}\n' % (name.encode(), n, message(id=n).encode())
        if name == "own"
        else b'{"topic":"%s","data":%s}\n' % (name.encode(), message(id=n).encode())
        for n, name in enumerate(names)
    )
    report = publish_messages(
        lab.open(), None, [("in", FrameReader(io.BytesIO(lines), "envelope"))], PublishOptions(linger=9)
    )
    assert report.published == len(names)
    for name in set(names):
        assert len(lab.query(name)) == names.count(name)


class LateSync(Seam):
    """Begins a sync before the transaction beside it ends, and delays it. ``size``: that of the file when it began."""

    def __init__(self) -> None:
        self.size = 0
        self._begun = Event()

    def call(self, point: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if point == "file.write":
            self._begun.clear()
        elif point == "lmdb.commit":
            self._begun.wait(0.2)
        elif function is os.fdatasync:
            size = os.fstat(args[0]).st_size
            self._begun.set()
            sleep(0.1)
            function(*args, **kwargs)
            self.size = size
            return None
        return function(*args, **kwargs)


def test_nothing_joins_batches_whose_sync_is_under_way(lab: Lab) -> None:
    lab.publish("t", *_messages(1))
    lab.publish("alone", *_messages(1))
    lab.seam = seam = LateSync()
    # A batch for a topic without a journal is synced at once.
    names = ["t", "alone", "t", "t"]
    lines = b"".join(
        b'{"topic":"%s","data":%s}\n' % (name.encode(), message(id=n).encode()) for n, name in enumerate(names)
    )
    synced: list[bool] = []

    def compare_sizes(_: AcknowledgedBatch) -> None:
        synced.append(lab.journals()[-1].stat().st_size == seam.size)

    report = publish_messages(
        lab.open(),
        None,
        [("in", FrameReader(io.BytesIO(lines), "envelope"))],
        PublishOptions(linger=9),
        on_acknowledged=compare_sizes,
    )
    assert report.published == len(names)
    assert synced
    assert all(synced)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", [1, 2, 3])
def test_an_interrupt_leaves_the_batches_before_it_acknowledged(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, call: int, after: bool
) -> None:
    monkeypatch.setattr(commit_module, "apply_to_memtable", Once(commit_module.apply_to_memtable, call, after=after))
    seen, error = _publish(lab, _messages(10))
    monkeypatch.undo()
    assert isinstance(error, KeyboardInterrupt)
    assert sum(len(one.payloads) for one in seen) == BATCH * (call - 1)
    # The interrupted batch is in the journal but not acknowledged: a run may report less than is stored.
    assert _logged(lab) == _messages(BATCH * call)
    assert len(lab.query("t")) == BATCH * call
    assert lab.open().topic("t").replay(verify=True).action == "verified"


def _failures(lab: Lab, number: int, after: bool, code: int) -> Iterator[None]:
    """Run with an error at one call to the outside; yield only if there was such a call."""
    lab.seam = seam = FailAt(number, code, after=after, points=("file.",))
    rests: list[InputRest] = []
    seen: list[AcknowledgedBatch] = []
    messages = _messages(12, 100 * number)
    try:
        with lab.open() as instance:
            report = publish_messages(
                instance, "t", [("in", ListSource(messages))], PublishOptions(linger=9, batch_bytes=150),
                on_acknowledged=seen.append, on_broken_off=rests.append,
            )  # fmt: skip
    except SowError as error:
        if "report" not in error.facts:
            rests.append(InputRest(0, 1, 0, 0))
        else:
            report = error.facts["report"]
            assert report.published == sum(len(one.payloads) for one in seen)
    lab.seam = SEAM
    told = [payload for one in seen for payload in one.payloads]
    mine = [payload for payload in _logged(lab) if payload in messages]
    # The acknowledged messages are stored in order, followed by any others.
    assert mine[: len(told)] == told
    assert mine == messages[: len(mine)]
    for rest in rests[-1:]:
        assert rest.messages <= len(mine)
        lab.publish("t", *messages[rest.messages :])
    assert {one.encode() for one in lab.query("t")} >= set(messages)
    assert lab.open().topic("t").replay(verify=True).action == "verified"
    if seam.failed:
        yield


@pytest.mark.parametrize("after", [False, True])
def test_an_error_at_any_call_keeps_what_was_acknowledged(lab: Lab, after: bool) -> None:
    lab.publish("t", *_messages(1))
    number = 1
    while any(True for _ in _failures(lab, number, after, errno.EIO)):
        number += 1
    assert number > 10
