"""What ``sowctl publish`` says while it runs: progress, rejects, acknowledged messages, and at the end the report."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO

from sowctl.cli.context import Invocation
from sowctl.cli.reporting import show_report
from sowctl.cli.sources import STDIN, frames
from sowctl.engine.rejects import reject_line
from sowctl.errors import SowError
from sowctl.messages.framing import framed
from sowctl.output.display import display

if TYPE_CHECKING:
    from sowctl.engine.commit import Acknowledged
    from sowctl.engine.reports import Rejected
    from sowctl.messages.base import MessageType
    from sowctl.messages.framing import FrameReader

_EVERY = 0.2
"""Seconds between two drawings of the progress line."""


class Publishing:
    """Watches one run; a context manager, because the rejects file has to be closed and the progress line ended.

    ``framing`` is None until it is known which one the messages' type has; it is set before the inputs are read.
    """

    def __init__(
        self, invocation: Invocation, framing: str | None, rejects: str | None, *, tee: bool, skips: bool
    ) -> None:
        self.invocation = invocation
        self.framing = framing
        self.skips = skips
        self.tee = tee
        self.rejects = 0
        self.published = 0
        self._path = rejects
        self._file: BinaryIO | None = None
        self._started = self._drawn = time.monotonic()
        self._line = False

    def __enter__(self) -> Publishing:
        if self._path is not None:
            self._file = Path(self._path).open("ab")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._line:
            self.invocation.streams.talk("")
        if self._file is not None:
            self._file.close()
        if isinstance(error, SowError):
            self._explain(error)

    def sources(self, names: Sequence[str]) -> Iterator[tuple[str, FrameReader]]:
        """The inputs, opened in turn."""
        return frames(self.invocation, names, self.framing or "lines")

    def acknowledged(self, batch: Acknowledged) -> None:
        """Count a durable batch; with --tee write its messages."""
        self.published += len(batch.payloads)
        words = "message is" if self.published == 1 else "messages are"
        self.invocation.durable = f"{self.published:,} {words} durable, up to txid {batch.last_txid}"
        if self.tee:
            self.invocation.streams.stdout.write(framed(batch.payloads, self.framing or "lines"))
            self.invocation.streams.stdout.flush()
        if self.invocation.settings.progress == "json":
            row = {"published": self.published, "last_txid": batch.last_txid, "offset": batch.end}
            self.invocation.streams.talk(json.dumps(row))
        elif self.invocation.shows_progress():
            self._draw()

    def rejected(self, refused: Rejected) -> None:
        """Count a refused message; write it to the rejects file, else say it."""
        self.rejects += 1
        if self._file is not None:
            self._file.write(reject_line(refused))
            self._file.flush()
        elif self.skips:
            place = f"{refused.source}:{refused.line}"
            self.invocation.warn(f"[{refused.code}] {display(place)}: {display(refused.message)}")

    def warn_of_replacing(self, kinds: Iterable[MessageType]) -> None:
        """Say which of these types cannot be merged, so that their deltas took the place of records."""
        for name in sorted(kind.name for kind in kinds if not kind.mergeable):
            self.invocation.warn(f"{name} messages cannot be merged: each delta took the place of its record")

    def report(self, report: object, summary: str | None) -> None:
        """The report at the end."""
        show_report(self.invocation, report, summary)

    def _explain(self, error: SowError) -> None:
        """Add to an error what is published and how to go on from there."""
        error.facts.pop("report", None)
        error.facts.setdefault("published", self.published)
        line, place = error.facts.get("line"), error.place or ""
        if line is not None and self.framing in ("lines", "envelope") and not place.startswith(STDIN):
            file = place.rpartition(":")[0]
            error.facts.setdefault("resume", f"the rest begins at line {line}: tail -n +{line} {file}")

    def _draw(self) -> None:
        now = time.monotonic()
        if now - self._drawn < _EVERY:
            return
        self._drawn, self._line = now, True
        rate = self.published / (now - self._started)
        stream = self.invocation.streams.stderr
        stream.write(f"\r{self.published:,} published, {rate:,.0f} a second ".encode())
        stream.flush()
