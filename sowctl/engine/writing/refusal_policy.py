"""The policy for refused messages: locates them in the input, cuts a batch after a stop or abort, enforces limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sowctl.engine.options import PublishOptions
from sowctl.engine.reports import PublishReport, Rejected
from sowctl.engine.writing.rejects import build_rejected
from sowctl.errors import InputError, LimitError
from sowctl.values.display import format_count
from sowctl.values.fields import Refusal

if TYPE_CHECKING:
    from sowctl.engine.writing.batches import PublishBatch
    from sowctl.engine.writing.entries import TopicEntries
    from sowctl.engine.writing.routing import TopicShare


_ON_ERROR_HINT = "--on-error skip skips invalid messages; --rejects FILE saves them"
_REPLACE_HINT = "--replace-all takes the whole input or nothing: correct the message"
_REFUSAL_HINTS = {
    "SOW-PUB-001": f"increase SlabSize of the topic, to 1GB at most; {_ON_ERROR_HINT}",
    "SOW-PUB-006": "to use the time of the run, omit --timestamp, --timestamp-field and envelopes: sowctl publish "
    f"TOPIC FILE (extract the messages of envelopes with jq -c .data); {_ON_ERROR_HINT}",
}
"""Hints for a run that a refused message ends, by code; the default is :data:`_ON_ERROR_HINT`."""


class RefusalPolicy:
    """The policy of one run (``--on-error``, ``--max-errors``); counts refused messages in ``report``."""

    def __init__(
        self, options: PublishOptions, report: PublishReport, on_reject: Callable[[Rejected], None] | None
    ) -> None:
        self._on_error = options.on_error
        self._replaces = options.replace_all
        self._limit = options.max_errors
        self._report = report
        self._on_reject = on_reject
        self._ending: Rejected | None = None

    def locate_refusals(
        self, batch: PublishBatch, refusals: Sequence[Refusal], *, framing: bool = False
    ) -> list[Rejected]:
        """Return refusals of messages with their places, in input order; ``framing``: also the refused frames."""
        found = []
        for index, frame in enumerate(batch.refused if framing else ()):
            number, name = batch.find_input(index, frame=True)
            one = build_rejected(name, (frame.line, frame.offset), (frame.code, frame.message), frame.payload, frame.at)
            found.append((number, one))
        enveloped = batch.envelopes is not None
        for refusal in refusals:
            number, name = batch.find_input(refusal.index)
            reason = refusal.code, refusal.message
            payload = batch.payloads[refusal.index]
            one = build_rejected(
                name, batch.locate_message(refusal.index), reason, payload, refusal.offset, enveloped=enveloped
            )
            found.append((number, one))
        # Refused frames and refused messages are reported in input order.
        found.sort(key=lambda pair: (pair[0], pair[1].offset))
        return [one for _, one in found]

    def cut_batch(
        self, batch: PublishBatch, columns: Sequence[TopicShare | TopicEntries], rejected: list[Rejected]
    ) -> None:
        """Cut a batch at the refused message that ends the run: keep the messages before it, with ``abort`` none.

        ``rejected`` are the refused messages of the batch so far; those after that message are removed, because the run
        does not reach them.
        """
        last = self._find_last_allowed(len(rejected))
        if last is None:
            return
        self._ending = rejected[last]
        # Messages before this one are published; with abort, none is: no offset is less than -1.
        limit = -1 if self._on_error == "abort" else rejected[last].offset
        for part in columns:
            part.keep_indexes(
                [index for index, place in enumerate(part.places) if batch.locate_message(place)[1] < limit]
            )
        del rejected[last + 1 :]

    def _find_last_allowed(self, count: int) -> int | None:
        """Return the index of the one of the next ``count`` refused messages that ends the run; None if none does."""
        if self._on_error != "skip":
            return 0 if count else None
        if self._limit is None or self._report.rejected + count <= self._limit:
            return None
        return self._limit - self._report.rejected

    def find_batch_end(self, batch: PublishBatch, rejected: Sequence[Rejected]) -> tuple[int, int]:
        """Return line and byte offset of the first unprocessed input once ``batch`` is finished.

        A message at which a run stops must be corrected, so it counts as unprocessed; a skipped one does not, even if
        it exceeds ``max_errors``.
        """
        last = rejected[-1] if rejected else None
        # The complete batch is processed: the rest begins after it.
        if last is None or last is not self._ending:
            return batch.last_line + 1, batch.end_offset
        if self._on_error != "skip":
            return last.line, last.offset
        places = [batch.locate_message(index) for index in range(len(batch.payloads))]
        places += [(frame.line, frame.offset) for frame in batch.refused]
        behind = [place for place in places if place[1] > last.offset]
        return min(behind, default=(batch.last_line + 1, batch.end_offset))

    def report_rejected(self, rejected: Sequence[Rejected]) -> None:
        """Count refused messages and pass them to the callback.

        Raises InputError (exit 3) if the run stops or aborts, LimitError ``SOW-PUB-020`` beyond ``max_errors``.
        """
        for one in rejected:
            self._report.rejected += 1
            if self._on_reject is not None:
                self._on_reject(one)
            if self._on_error != "skip":
                raise self._build_stop_error(one)
            if self._limit is not None and self._report.rejected > self._limit:
                raise LimitError(
                    "SOW-PUB-020",
                    f"{format_count(self._report.rejected, 'message was', 'messages were')} rejected, "
                    f"more than --max-errors {self._limit:,}; the last one: {one.message}",
                    place=one.place,
                    line=one.line,
                    column=one.column,
                    byte=one.offset,
                )

    def _build_stop_error(self, one: Rejected) -> InputError:
        return InputError(
            one.code,
            f"{one.message}. Nothing was published." if self._on_error == "abort" or self._replaces else one.message,
            place=one.place,
            hint=_REPLACE_HINT if self._replaces else _REFUSAL_HINTS.get(one.code, _ON_ERROR_HINT),
            line=one.line,
            column=one.column,
            byte=one.offset,
        )
