"""The input of a run of publish: its batches, a process that reads ahead, and the position of the run.

Called by :mod:`sowctl.engine.verbs.publish`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from sowctl.engine.reports import InputRest
from sowctl.engine.writing.batches import READ_AHEAD_MIN_BYTES, iterate_batches, merge_batches
from sowctl.engine.writing.limits import WRITING_LIMITS
from sowctl.interrupts import without_interrupts

if TYPE_CHECKING:
    from sowctl.engine.options import PublishOptions
    from sowctl.engine.reports import Rejected
    from sowctl.engine.writing.batches import MessageSource, PublishBatch
    from sowctl.engine.writing.commit import WrittenBatch
    from sowctl.engine.writing.group_commit import GroupCommit
    from sowctl.engine.writing.prepare import Preparer
    from sowctl.engine.writing.refusal_policy import RefusalPolicy
    from sowctl.engine.writing.topicwriter import TopicWriter


class PublishInput:
    """The inputs of a run, read one after the other, as batches that are at most ``linger`` seconds old.

    ``commits`` is finished before the run waits for more input. ``target`` is the writer and the preparer of the topic
    of the command, None if envelopes have the topics.
    """

    def __init__(
        self,
        options: PublishOptions,
        commits: GroupCommit,
        refusals: RefusalPolicy,
        target: tuple[TopicWriter, Preparer] | None,
        *,
        linger: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._options, self._commits, self._refusals, self._target = options, commits, refusals, target
        self._linger, self._monotonic = linger, monotonic
        self._input = self._inputs = 0
        self._messages = 0
        """Messages of all finished batches."""
        self._last: tuple[PublishBatch, list[Rejected]] | None = None
        """The last finished batch."""
        self._last_of_input: tuple[PublishBatch, list[Rejected]] | None = None
        """The last finished batch of the current input."""

    def iterate_batches(self, name: str, source: MessageSource) -> Generator[PublishBatch, None, None]:
        """Yield the batches of an input; another process reads the rest of a large one."""
        options = self._options
        writer, preparer = self._target if self._target is not None else (None, None)
        columned = writer is not None and not options.delta and writer.is_columnar
        most = WRITING_LIMITS.max_batch_messages if columned else WRITING_LIMITS.default_batch_messages
        found = iterate_batches(
            name,
            source,
            count=options.batch or most,
            size=options.batch_bytes,
            linger=self._linger,
            monotonic=self._monotonic,
            before_waiting=self._commits.finish,
        )
        seen = 0
        for batch in found:
            yield batch
            seen += batch.size
            if seen < READ_AHEAD_MIN_BYTES or preparer is None or batch.envelopes is not None:
                continue
            from sowctl.engine.writing.read_ahead import (  # a small run does not load what that needs
                is_read_ahead_useful,
                start_read_ahead,
            )

            if not is_read_ahead_useful(source, preparer):
                continue
            # The process is forked without locks and without the sync thread.
            self._commits.stop_sync_thread()
            with ExitStack() as held:
                # Interrupts are delayed until the process is registered for its termination.
                with without_interrupts():
                    ahead = start_read_ahead(found, source, preparer)
                    if ahead is not None:
                        held.callback(ahead.close)
                if ahead is not None:
                    yield from ahead.receive_batches(name, self._commits.finish)
                    return
            # No process could be started: continue in this one, and do not try again.
            seen = -sys.maxsize

    def read_all(self, sources: Iterable[tuple[str, MessageSource]]) -> PublishBatch:
        """Return all messages of all inputs as one batch, in memory."""
        whole: list[PublishBatch] = []
        for name, source in sources:
            self._inputs += 1
            whole.extend(
                iterate_batches(
                    name,
                    source,
                    count=1 << 20,
                    size=1 << 30,
                    linger=3600.0,
                    monotonic=self._monotonic,
                    before_waiting=self._commits.finish,
                )
            )
        return merge_batches(whole)

    def note_finished(self, written: WrittenBatch) -> None:
        """Note that a batch is durable and its refused messages are known: the rest of the input begins after it."""
        self._last = self._last_of_input = written.batch, written.rejected
        self._messages += len(written.batch.payloads)

    def note_input_end(self) -> None:
        """Note that all batches of an input are finished."""
        self._input, self._last_of_input = self._input + 1, None

    def find_end(self) -> tuple[int, int] | None:
        """Return line and byte offset of the end of the last finished batch; None if there is none."""
        return None if self._last is None else self._refusals.find_batch_end(*self._last)

    def build_rest(self, published: int) -> InputRest:
        """Return the start of the unprocessed part of the input, after ``published`` messages were published."""
        if self._options.on_error == "abort":  # the input is one group, which is published completely or not at all
            return InputRest(self._inputs, 1, 0, self._messages) if published else InputRest(0, 1, 0, 0)
        if self._last_of_input is None:
            return InputRest(self._input, 1, 0, self._messages)
        batch, rejected = self._last_of_input
        line, offset = self._refusals.find_batch_end(batch, rejected)
        before = self._messages - len(batch.payloads) + batch.count_before(offset)
        return InputRest(self._input, line, offset, before)
