"""Batches of an input: where they end, that they wait no longer than necessary, and that no message is lost."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowctl.engine.writing.batches import ListSource, PublishBatch, iterate_batches
from sowctl.engine.writing.limits import WRITING_LIMITS
from sowctl.errors import InputError, StorageError
from sowctl.messages.framing.chunks import Chunk

SIZE = 1 << 20


class Script:
    """A source that follows a script: a number of messages, or seconds without input.

    ``waits`` lists the timeouts of its polls without a message.
    """

    blocking = False

    def __init__(self, *steps: int | float, size: int = 10) -> None:
        self.ended = False
        self.now = 0.0
        self.waits: list[float | None] = []
        self._size = size
        self._steps = list(steps)
        self._count = 0

    def monotonic(self) -> float:
        return self.now

    def poll(self, timeout: float | None = None) -> Chunk | None:
        if not self._steps:
            self.ended = True
            return None
        step = self._steps[0]
        if isinstance(step, float):
            waited = step if timeout is None else min(step, timeout)
            if timeout != 0:
                self.waits.append(timeout)
            self.now += waited
            self._steps[0] = step - waited
            if waited < step:
                return None
            del self._steps[0]
            return self.poll(0) if self._steps else None
        del self._steps[0]
        first = self._count
        self._count += int(step)
        payloads = [b"%d" % number + bytes(self._size) for number in range(first, self._count)]
        lines = range(first + 1, self._count + 1)
        return Chunk(payloads, lambda: (lines, range(first, self._count)), self._count)


def _batches(
    source: Script, count: int = WRITING_LIMITS.default_batch_messages, size: int = SIZE
) -> Iterator[PublishBatch]:
    return iterate_batches(
        "in", source, count=count, size=size, linger=0.1, monotonic=source.monotonic, before_waiting=lambda: None
    )


def _sizes(source: Script, count: int = WRITING_LIMITS.default_batch_messages, size: int = SIZE) -> list[int]:
    return [len(batch.payloads) for batch in _batches(source, count, size)]


def test_a_full_batch_does_not_wait_for_more() -> None:
    source = Script(WRITING_LIMITS.default_batch_messages, 50.0, 1)
    found = _batches(source)
    assert len(next(found).payloads) == WRITING_LIMITS.default_batch_messages
    assert source.now == 0.0
    assert source.waits == []
    assert [len(batch.payloads) for batch in found] == [1]


def test_a_smaller_batch_waits_until_its_first_message_is_old() -> None:
    source = Script(WRITING_LIMITS.default_batch_messages - 1, 0.06, 1, 0.06, 5, 1.0)
    found = _batches(source)
    assert len(next(found).payloads) == WRITING_LIMITS.default_batch_messages
    assert source.now == 0.06
    assert len(next(found).payloads) == 5
    assert 0.21 < source.now < 0.23


def test_chunks_fill_batches_whatever_their_sizes() -> None:
    assert _sizes(Script(10, 32), 4) == [4] * 10 + [2]
    assert _sizes(Script(3, 3, 3), 4) == [4, 4, 1]


def test_a_message_larger_than_a_batch_is_a_batch_of_its_own() -> None:
    assert _sizes(Script(3, size=5000), size=100) == [1, 1, 1]


def test_a_list_is_there_and_a_generator_may_take_its_time() -> None:
    messages = [b"{}"] * 3
    assert not ListSource(messages).blocking
    assert not ListSource(tuple(messages)).blocking
    assert ListSource(iter(messages)).blocking


@given(
    st.lists(st.one_of(st.integers(1, 2500), st.floats(0.001, 0.3)), max_size=8),
    st.integers(1, 3000),
    st.integers(1, 60_000),
)
def test_every_message_is_in_one_batch_in_order_and_at_its_place(
    steps: list[int | float], count: int, size: int
) -> None:
    at = 0
    for batch in _batches(Script(*steps), count, size):
        assert batch.payloads
        assert batch.size == sum(map(len, batch.payloads))
        assert batch.size - len(batch.payloads[-1]) < size
        assert len(batch.payloads) <= count
        for index in (0, len(batch.payloads) - 1):
            assert batch.payloads[index].rstrip(b"\0") == b"%d" % (at + index)
            assert batch.locate_message(index) == (at + index + 1, at + index)
        at += len(batch.payloads)
        assert batch.end_offset == at
    assert at == sum(step for step in steps if isinstance(step, int))


def test_what_is_raised_before_a_wait_ends_the_run_with_nothing_behind_it() -> None:
    """A rejected message of the previous batch, or its failed sync: the pending messages are not published."""
    source = Script(3, 9.0, 1)

    def refused() -> None:
        raise InputError("SOW-MSG-002", "a message of the batch before")

    found = iterate_batches(
        "in",
        source,
        count=WRITING_LIMITS.default_batch_messages,
        size=SIZE,
        linger=0.1,
        monotonic=source.monotonic,
        before_waiting=refused,
    )
    with pytest.raises(InputError):
        next(found)


def test_an_error_of_the_input_comes_behind_what_stood_before_it() -> None:
    class Broken(Script):
        def poll(self, timeout: float | None = None) -> Chunk | None:
            if not self._steps:
                raise StorageError("SOW-INP-005", "the input cannot be read")
            return super().poll(timeout)

    for steps in ((3,), (3, 0.01)):
        found = _batches(Broken(*steps))
        assert len(next(found).payloads) == 3
        with pytest.raises(StorageError):
            next(found)


def test_messages_are_bytes_whatever_carries_them() -> None:
    """A view counts items, which may be wider than a byte; a bytearray may be changed later."""
    wide = memoryview(array("H", b'{"id":2} '.ljust(10)))
    mutable = bytearray(b'{"id":3}')
    chunk = ListSource([b'{"id":1}', wide, mutable, memoryview(b"xxyy")[::2]]).poll()
    mutable[:] = b"gone"
    assert chunk is not None
    assert chunk.payloads == [b'{"id":1}', b'{"id":2}  ', b'{"id":3}', b"xy"]
