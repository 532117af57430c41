"""A signal between the append to the journal and the update of the memtable: the store must not claim the entries."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sowctl.engine.verbs.delete as delete_module
import sowctl.engine.writing.commit as commit_module
from sowctl.engine.fold.memtable import Memtable
from sowctl.engine.verbs.delete import DELETE_LIMITS
from sowctl.engine.writing.session import WriteSession
from sowctl.store.env import Store
from tests.support.instances import Lab, message


class Once:
    """Wrap a function, but raise an interrupt at its n-th call."""

    def __init__(self, function, n: int, *, after: bool) -> None:  # type: ignore[no-untyped-def]
        self.function, self.left, self.after = function, n, after

    def __call__(self, *args: object, **kwargs: object) -> object:
        self.left -= 1
        if self.left == 0:
            if self.after:
                self.function(*args, **kwargs)
            raise KeyboardInterrupt
        return self.function(*args, **kwargs)


def _sound(lab: Lab, expected: int) -> None:
    assert len(lab.query("t")) == expected
    assert lab.open().topic("t").replay(verify=True).action == "verified"
    lab.open().topic("t").replay()
    assert lab.open().topic("t").replay(verify=True).action == "verified"
    lab.publish("t", message(id=77))
    assert len(lab.query("t")) == expected + 1
    assert lab.open().topic("t").replay(verify=True).action == "verified"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", [1, 2, 3])
def test_between_the_append_and_the_overlay(lab: Lab, monkeypatch: pytest.MonkeyPatch, call: int, after: bool) -> None:
    lab.publish("t", message(id=0))
    once = Once(commit_module.apply_to_memtable, call, after=after)
    monkeypatch.setattr(commit_module, "apply_to_memtable", once)
    with pytest.raises(KeyboardInterrupt):
        lab.publish("t", *(message(id=n) for n in range(1, 10)), batch=2)
    monkeypatch.undo()
    _sound(lab, 1 + 2 * call)


def test_while_others_entries_are_taken_in(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other's message is in the journal and visible; this writer must not skip it in the store."""
    lab.publish("t", message(id=0))

    command = [sys.executable, "-m", "sowctl", "publish", "t", "--tee", "--linger", "1ms", "-c", str(lab.config)]
    pipe, root = subprocess.PIPE, Path(__file__).parents[3]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=root, bufsize=0) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        try:
            with WriteSession(lab.open()) as session:
                writer = session.open_topic(lab.open().topic("t").config)
                other.stdin.write(b'{"id":1}\n')
                assert other.stdout.readline() == b'{"id":1}\n'
                with session.hold_batch_locks([writer]):
                    assert len(writer.memtable) == 1
                other.stdin.write(b'{"id":2}\n')
                assert other.stdout.readline() == b'{"id":2}\n'
                monkeypatch.setattr(Memtable, "fold_block", Once(Memtable.fold_block, 1, after=False))
                with pytest.raises(KeyboardInterrupt), session.hold_batch_locks([writer]):
                    pass
                monkeypatch.undo()
                session.flush_final()
        finally:
            other.kill()
    _sound(lab, 3)


@pytest.mark.parametrize("topic", ["t", "alone"])
def test_in_the_middle_of_a_delete(lab: Lab, monkeypatch: pytest.MonkeyPatch, topic: str) -> None:
    lab.publish(topic, *(message(id=n) for n in range(6)))
    # two parts are already in the store, or in its transaction
    monkeypatch.setattr(DELETE_LIMITS, "part_records", 2)
    monkeypatch.setattr("sowctl.engine.fold.limits.MEMTABLE_LIMITS.changes", 2)
    monkeypatch.setattr(delete_module, "encode_tombstones", Once(delete_module.encode_tombstones, 3, after=False))
    with pytest.raises(KeyboardInterrupt):
        lab.open().topic(topic).delete(filter="1=1")
    monkeypatch.undo()
    assert len(lab.query(topic)) == (0 if topic == "t" else 6)
    if topic == "t":
        assert lab.open().topic("t").replay(verify=True).action == "verified"
    lab.publish(topic, message(id=3))
    assert len(lab.query(topic)) == (1 if topic == "t" else 6)


@pytest.mark.parametrize("verb", ["publish", "delete"])
def test_interrupted_right_after_a_store_was_opened(lab: Lab, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """The program continues, and the interrupted command leaves the store neither open nor locked."""
    lab.publish("t", b'{"id":1}')
    opened = Store.open
    struck: list[str] = []

    def opening(*arguments: Any, **options: Any) -> Store:
        store = opened(*arguments, **options)
        if not struck:
            struck.append(store.path)
            signal.raise_signal(signal.SIGINT)
        return store

    monkeypatch.setattr(Store, "open", opening)
    with pytest.raises(KeyboardInterrupt) as caught:
        if verb == "publish":
            lab.publish("t", b'{"id":2}')
        else:
            lab.open().topic("t").delete(filter="/id = 1")
    assert struck
    # The interrupted frames are still referenced, as in a program that logs the error.
    assert caught.value.__traceback__ is not None
    assert lab.publish("t", b'{"id":3}').published == 1
