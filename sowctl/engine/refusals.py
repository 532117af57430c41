"""What happens to refused messages: their places in the input, what a stop or an abort leaves of a batch, limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sowctl.engine.options import PublishOptions
from sowctl.engine.reports import PublishReport, Rejected
from sowctl.errors import InputError, LimitError
from sowctl.values.fields import Refusal

if TYPE_CHECKING:
    from sowctl.engine.intake import Batch
    from sowctl.engine.routing import Share
    from sowctl.engine.settling import Entries


class Refusals:
    """The policy of one run (``--on-error``, ``--max-errors``), and the count of what was refused."""

    def __init__(
        self, options: PublishOptions, report: PublishReport, on_reject: Callable[[Rejected], None] | None
    ) -> None:
        self._on_error = options.on_error
        self._limit = options.max_errors
        self._report = report
        self._on_reject = on_reject

    def of(self, batch: Batch, refusals: Sequence[Refusal], *, framing: bool = False) -> list[Rejected]:
        """Refusals of messages with their places in the input, in its order; ``framing``: the broken frames too."""
        found = [
            Rejected(batch.name, frame.line, frame.offset, frame.code, frame.message, frame.payload)
            for frame in (batch.refused if framing else ())
        ]
        for refusal in refusals:
            line, offset = batch.place(refusal.index)
            payload = batch.payloads[refusal.index]
            found.append(Rejected(batch.name, line, offset, refusal.code, refusal.message, payload))
        return sorted(found, key=lambda one: one.offset)

    def cut(self, batch: Batch, columns: Sequence[Share | Entries], rejected: list[Rejected]) -> None:
        """Unless the run skips: keep only what stands before the first refused message; with ``abort``, nothing."""
        if not rejected or self._on_error == "skip":
            return
        limit = -1 if self._on_error == "abort" else rejected[0].offset
        for part in columns:
            part.keep([index for index, place in enumerate(part.places) if batch.place(place)[1] < limit])
        del rejected[1:]

    def end_of(self, batch: Batch, rejected: Sequence[Rejected]) -> int:
        """The input offset behind what is dealt with once ``batch`` has landed."""
        return rejected[0].offset if rejected and self._on_error != "skip" else batch.end

    def report(self, rejected: Sequence[Rejected]) -> None:
        """Count and hand out refused messages.

        Raises InputError (exit 3) where the run stops or aborts, LimitError ``SOW-PUB-020`` beyond ``max_errors``.
        """
        for one in rejected:
            self._report.rejected += 1
            if self._on_reject is not None:
                self._on_reject(one)
            if self._on_error != "skip":
                raise self._end(one)
            if self._limit is not None and self._report.rejected > self._limit:
                raise LimitError(
                    "SOW-PUB-020",
                    f"more than {self._limit} messages were refused; the last one: {one.message}",
                    place=f"{one.source}:{one.line}",
                )

    def _end(self, one: Rejected) -> InputError:
        return InputError(
            one.code,
            f"{one.message}. Nothing was published." if self._on_error == "abort" else one.message,
            place=f"{one.source}:{one.line}",
            hint="--on-error skip --rejects FILE goes on past bad messages and keeps them",
            line=one.line,
            byte=one.offset,
        )
