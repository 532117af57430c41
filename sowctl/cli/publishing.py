"""What ``sowctl publish`` says while it runs: progress, rejects, acknowledged messages, and at the end the report."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol

from sowctl.cli.context import Invocation
from sowctl.cli.reporting import show_report
from sowctl.cli.sources import open_all
from sowctl.output.display import display

_EVERY = 0.2
"""Seconds between two drawings of the progress line."""


class Acknowledged(Protocol):
    """A batch that is in the journal and synced."""

    @property
    def payloads(self) -> Sequence[bytes]: ...
    @property
    def last_txid(self) -> int: ...
    @property
    def offset(self) -> int:
        """Bytes of the current input that are dealt with."""
        ...


class Rejected(Protocol):
    """A message that was refused, and where it stood."""

    @property
    def source(self) -> str: ...
    @property
    def line(self) -> int | None: ...
    @property
    def offset(self) -> int: ...
    @property
    def code(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def payload(self) -> bytes: ...


class Publishing:
    """Watches one run; a context manager, because the rejects file has to be closed and the progress line ended."""

    def __init__(self, invocation: Invocation, rejects: str | None, *, tee: bool) -> None:
        self.invocation = invocation
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

    def sources(self, names: Sequence[str]) -> Iterator[tuple[str, BinaryIO]]:
        """The inputs, opened in turn."""
        return open_all(self.invocation, names)

    def acknowledged(self, batch: Acknowledged) -> None:
        """Count a durable batch; with --tee write its messages."""
        self.published += len(batch.payloads)
        words = "message is" if self.published == 1 else "messages are"
        self.invocation.durable = f"{self.published:,} {words} durable, up to txid {batch.last_txid}"
        if self.tee:
            self.invocation.streams.stdout.write(b"".join(payload + b"\n" for payload in batch.payloads))
            self.invocation.streams.stdout.flush()
        if self.invocation.settings.progress == "json":
            row = {"published": self.published, "last_txid": batch.last_txid, "offset": batch.offset}
            self.invocation.streams.talk(json.dumps(row))
        elif self.invocation.shows_progress():
            self._draw()

    def rejected(self, refused: Rejected) -> None:
        """Count a refused message; write it to the rejects file, else say it."""
        self.rejects += 1
        if self._file is not None:
            self._file.write(_reject_line(refused))
            self._file.flush()
            return
        place = refused.source + (f":{refused.line}" if refused.line is not None else f"@{refused.offset}")
        self.invocation.warn(f"[{refused.code}] {display(place)}: {display(refused.message)}")

    def report(self, report: object, summary: str | None) -> None:
        """The report at the end."""
        show_report(self.invocation, report, summary)

    def _draw(self) -> None:
        now = time.monotonic()
        if now - self._drawn < _EVERY:
            return
        self._drawn, self._line = now, True
        rate = self.published / (now - self._started)
        stream = self.invocation.streams.stderr
        stream.write(f"\r{self.published:,} published, {rate:,.0f} a second ".encode())
        stream.flush()


def _reject_line(refused: Rejected) -> bytes:
    row: dict[str, object] = {"source": refused.source, "line": refused.line, "byte": refused.offset}
    row |= {"code": refused.code, "error": refused.message}
    try:
        row["input"] = refused.payload.decode()
    except UnicodeDecodeError:
        row["input_base64"] = b64encode(refused.payload).decode()
    return json.dumps(row).encode() + b"\n"
