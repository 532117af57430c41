"""One attempt of one task of a bulk write, which writes messages to segments (``sowctl-pipeline(1)``, STAGING).

Tasks run in processes without locks or access to stores. Their input is a :class:`StagePlan`; their results are files
in the run's directory and a :class:`StagedAttempt`, which is returned to the driver. Called by the jobs and writers of
:mod:`sowctl.spark`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from sowctl.engine.bulk.segments import (
    EXPIRES_AT,
    HAS_LIFETIME,
    HAS_TIME,
    IS_DELTA,
    SegmentInfo,
    SegmentWriter,
    StagedBatch,
)
from sowctl.engine.bulk.staging import StagedAttempt, StagePlan, create_own_directory
from sowctl.engine.instance import Instance
from sowctl.engine.reports import Rejected
from sowctl.engine.writing.outcome import ExpirationInstant
from sowctl.engine.writing.prepare import PreparedMessages, Preparer
from sowctl.engine.writing.rejects import format_reject_line
from sowctl.identity.keys import parse_sow_key, split_digests
from sowctl.journal.entries import TEXT_NAMES, EntryBatch
from sowctl.journal.format import DELETE, PUBLISH
from sowctl.remote.place import RemotePath, require_local
from sowctl.values.fields import Refusal

if TYPE_CHECKING:
    from sowctl.messages.framing.envelope import Envelope

MAX_REFUSAL_SAMPLES = 20
"""Maximum rejected messages per task that are returned to the driver as samples."""


class _RefusedMessages(Struct):
    count: int = 0
    samples: list[Rejected] = field(default_factory=list)


class StageTask:
    """Writes the messages of one attempt of one task to segments. Use as a context manager; after an error, segments
    are removed.

    ``attempt`` is a name that is unique within the run.
    """

    def __init__(self, plan: StagePlan, attempt: str) -> None:
        self.plan = plan
        self.attempt = attempt
        self.stopped = False
        # Files at a URL are written in one step, so they are built locally and uploaded when the attempt succeeds.
        self._held = ExitStack()
        # All tasks use the driver's clock, so that every attempt prepares a message with the same time.
        instance = Instance(plan.config, partial(int, plan.now))
        here = isinstance(plan.place, Path)
        self._directory = (
            require_local(plan.place) if here else self._held.enter_context(create_own_directory(instance))
        )
        # Publishing uses the same preparer, so bulk loads reject messages and assign keys and times in the same way.
        self._preparer = Preparer(instance, plan.topic, plan.options)
        self._writer: SegmentWriter | None = None
        self._done: list[SegmentInfo] = []
        self._messages = 0
        self._deltas = plan.operation == "delta"
        self._blank = 0
        self._refused = _RefusedMessages()
        self._first: tuple[int, int] | None = None
        self._rejects = self._directory / f"{attempt}.rejects" if plan.keep_rejects else None

    def add_messages(
        self,
        payloads: Sequence[bytes],
        file: int,
        positions: Sequence[int],
        *,
        envelopes: Sequence[Envelope] | None = None,
        source: str = "messages",
        operations: Sequence[str] | None = None,
        lines: Sequence[int] | None = None,
    ) -> None:
        """Prepare and stage messages. ``file`` and ``positions`` are their input order; ``source`` is the file's name.

        ``operations`` replace the operation of the plan, one per message. After the task has stopped, messages are
        ignored.
        """
        if self.stopped or not payloads:
            return
        self._messages += len(payloads)
        self._note_position(file, positions[0])
        ready, refusals = self._prepare_messages(payloads, envelopes)
        if refusals:
            self._refuse_messages(refusals, payloads, positions, source, lines)
            if self.stopped:
                return
        self._stage_batch(self._build_batch(ready, file, positions, operations))

    def count_blank(self, count: int) -> None:
        """Count empty lines."""
        self._blank += count

    def note_rejected(self, rejected: Rejected, file: int = 0) -> None:
        """Record a message of a file that the caller has rejected."""
        self._messages += 1
        self._note_position(file, rejected.offset)
        self._note_refusal([rejected])

    def _note_position(self, file: int, position: int) -> None:
        self._first = min((file, position), self._first or (file, position))

    def _prepare_messages(
        self, payloads: Sequence[bytes], envelopes: Sequence[Envelope] | None
    ) -> tuple[PreparedMessages, list[Refusal]]:
        # Only with key fields can a deletion give the SOW key instead of a message. Publishers' keys are strings, which
        # must be prepared.
        by_key = self.plan.operation == "delete" and self.plan.topic.key_mode == "fields" and envelopes is not None
        if not by_key or envelopes is None or any(envelope.sow_key is None for envelope in envelopes):
            return self._preparer.prepare(payloads, envelopes)
        return _prepare_deletions([envelope.sow_key or "" for envelope in envelopes])

    def _build_batch(
        self, ready: PreparedMessages, file: int, positions: Sequence[int], operations: Sequence[str] | None
    ) -> StagedBatch:
        import numpy as np

        count, one = len(ready.places), self.plan.operation
        words = [one] * count if operations is None else [operations[place] for place in ready.places]
        marks, lifetimes = [IS_DELTA if word == "delta" else 0 for word in words], [0] * count
        if operations is None and ready.deltas is not None and one == "publish":
            marks = [IS_DELTA if delta else 0 for delta in ready.deltas]
        self._deltas = self._deltas or IS_DELTA in marks or (ready.deltas is not None and one == "publish")
        times = [0] * count
        # Only explicit times of messages are staged. The commit assigns the others, because it knows the topic's last
        # time.
        for place, time in enumerate(ready.times or ()):
            if time is not None:
                marks[place] |= HAS_TIME
                times[place] = time
        for place, lifetime in enumerate(ready.lifetimes or ()):
            if isinstance(lifetime, ExpirationInstant):
                # Instants and lifetimes share a column; the mark distinguishes them.
                marks[place] |= EXPIRES_AT
                lifetimes[place] = lifetime.at
            elif lifetime is not None:
                marks[place] |= HAS_LIFETIME
                lifetimes[place] = lifetime
        texts: dict[str, Any] = {name: getattr(ready, name) for name in TEXT_NAMES}
        entries: EntryBatch = EntryBatch(
            [self.plan.topic.ref],
            # Deletions need only key and time, so their payloads are not staged.
            [b""] * count if operations is None and one == "delete" else ready.payloads,
            *split_digests(ready.digests),
            times if ready.times is not None else 0,
            operations=bytes(DELETE if word == "delete" else PUBLISH for word in words),
            **texts,
        )
        return StagedBatch(
            entries,
            np.full(count, file, dtype="u4"),
            np.array([positions[place] for place in ready.places], dtype="i8"),
            np.array(lifetimes, dtype="i8"),
            np.array(marks, dtype="u4"),
        )

    def _stage_batch(self, batch: StagedBatch) -> None:
        if not len(batch):
            return
        # Segments are ascending, so that the commit can merge them. If the input goes back, start another segment.
        if self._writer is not None and batch.get_order(0) <= self._writer.last:
            self._close_segment()
        if self._writer is None:
            self._writer = SegmentWriter(self._directory, f"{self.attempt}-{len(self._done)}.segment")
        self._writer.add_batch(batch)

    def _close_segment(self) -> None:
        if self._writer is not None:
            self._done.append(self._writer.finish())
            self._writer = None

    def _refuse_messages(
        self,
        refusals: Sequence[Refusal],
        payloads: Sequence[bytes],
        positions: Sequence[int],
        source: str,
        lines: Sequence[int] | None,
    ) -> None:
        self._note_refusal(
            [
                Rejected(
                    source,
                    0 if lines is None else lines[one.index],
                    positions[one.index],
                    one.code,
                    one.message,
                    payloads[one.index],
                )
                for one in refusals
            ]
        )

    def _note_refusal(self, found: list[Rejected]) -> None:
        self._refused.count += len(found)
        self._refused.samples += found[: MAX_REFUSAL_SAMPLES - len(self._refused.samples)]
        if self._rejects is not None:
            # Each attempt has a separate file, so that concurrent attempts do not mix their lines.
            with self._rejects.open("ab") as file:
                file.write(b"".join(map(format_reject_line, found)))
        # One rejected message aborts the run, so further messages of this task would not be committed.
        self.stopped = self.plan.stop

    def finish(self) -> StagedAttempt:
        """Complete the segments, upload them if staged at a URL, and return the result of the attempt."""
        self._close_segment()
        rejects = self._rejects.name if self._rejects is not None and self._refused.count else None
        if isinstance(self.plan.place, RemotePath):
            from sowctl.remote import remote_files

            for name in [info.name for info in self._done] + ([rejects] if rejects is not None else []):
                remote_files.upload_file(self._directory / name, self.plan.place / name)
        # Samples are sent to the driver, so their payloads are truncated; the file of rejects has them completely.
        samples = tuple(replace(one, payload=(one.payload or b"")[:4096]) for one in self._refused.samples)
        counts = self._messages, self._blank, self._refused.count
        return StagedAttempt(
            self.attempt, tuple(self._done), *counts, samples, rejects, self._deltas, self._first or (-1, -1)
        )

    def __enter__(self) -> StageTask:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._writer is not None:
            self._writer.discard()
            self._writer = None
        if kind is not None:
            # A failed attempt is repeated under another name, so its files are useless.
            for info in self._done:
                (self._directory / info.name).unlink(missing_ok=True)
        self._held.close()


def _prepare_deletions(sow_keys: Sequence[str]) -> tuple[PreparedMessages, list[Refusal]]:
    """Prepare deletions by SOW key; return them, and refusals of texts that are not SOW keys."""
    places, digests, refused = [], [], []
    for place, text in enumerate(sow_keys):
        key = parse_sow_key(text)
        if key is not None:
            places.append(place)
            # A deletion by SOW key has no key values, so its check word is zero; the commit sets that of the record.
            digests.append(key + bytes(8))
        else:
            refused.append(Refusal(place, "SOW-PUB-003", f"{text!r} is not a SOW key"))
    return PreparedMessages(places, [b""] * len(places), digests), refused
