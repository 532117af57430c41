"""Output of ``sowctl publish`` while it runs: progress, rejects, acknowledged messages, and the report."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO

from msgspec.structs import replace

from sowctl.cli.context import Invocation
from sowctl.cli.io.report_output import RefusedWarnings, show_report
from sowctl.cli.io.row_files import DELIMITED_ENDINGS, JSON_LINES_ENDINGS, RowOptions, find_format, open_row_sources
from sowctl.cli.io.sources import (
    STDIN_NAME,
    explain_refusal,
    find_framing,
    find_kind,
    is_compressed,
    open_frame_readers,
    refuse_unreadable,
    suggest_conversion,
)
from sowctl.cli.progress import ProgressMeter
from sowctl.engine.reports import InputRest
from sowctl.engine.writing.rejects import format_reject_line
from sowctl.errors import SowError, UsageError
from sowctl.messages.framing.frames import frame_messages
from sowctl.values.display import format_duration, format_rate

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import PublishOptions
    from sowctl.engine.reports import Rejected
    from sowctl.engine.writing.batches import MessageSource
    from sowctl.engine.writing.commit import AcknowledgedBatch
    from sowctl.messages.base import MessageType
    from sowctl.messages.framing.frames import FrameReader

_DRAW_INTERVAL_SECONDS = 0.2
"""Seconds between two drawings of the progress line."""


def split_operands(
    instance: Instance, topic: str | None, message_type: str | None, files: list[str]
) -> tuple[str | None, list[str]]:
    """Topic and files where messages come in envelopes, which name their topics themselves: a first operand that is a
    file, or standard input, and no topic is the first of the files."""
    from sowctl.engine.topics.targets import find_publish_topic

    if topic is None or not (topic == "-" or Path(topic).is_file()):
        return topic, files
    try:
        find_publish_topic(instance, topic, message_type)
    except SowError:
        return None, [topic, *files]
    return topic, files


def _build_file_hint(name: str) -> str:
    """The command that publishes a file whose name was given in the place of the topic."""
    from shlex import quote

    try:
        rows = find_format(name) not in JSON_LINES_ENDINGS
    except UsageError:
        if name.endswith(".zip"):
            return f"unpack the file: unzip -p {quote(name)} | sowctl publish TOPIC"
        rows = False
    return f"the topic comes before the file: sowctl publish TOPIC {'--from ' if rows else ''}{quote(name)}"


class PublishRun:
    """Watches one run; a context manager, because the rejects file has to be closed and the progress line ended.

    ``framing`` and ``kind``, that of the messages' type, are None until they are known: :meth:`prepare` is called
    before the inputs are read.
    """

    def __init__(
        self,
        invocation: Invocation,
        framing: str | None,
        rejects: str | None,
        options: PublishOptions,
        *,
        tee: bool,
    ) -> None:
        self.invocation = invocation
        self.framing = framing
        self.kind: str | None = None
        self.tee = tee
        self.published = 0
        self._options = options
        self._names: Sequence[str] = ()
        self._rows = False
        self._path = rejects
        self._file: BinaryIO | None = None
        self._warnings = RefusedWarnings(invocation, "--rejects FILE saves them; --verbose prints all messages")
        self._last: Rejected | None = None
        self.rejects = 0
        self._started = self._drawn = time.monotonic()
        self._line = False
        self._size = 0

    def __enter__(self) -> PublishRun:
        if self._path is not None:
            self._file = Path(self._path).open("ab")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._line:
            self.invocation.streams.write_stderr("")
        self._warnings.__exit__()
        if self._file is not None:
            self._file.close()
        if isinstance(error, SowError):
            self._explain_error(error)

    def prepare(self, instance: Instance, topic: str | None, message_type: str | None) -> None:
        """Know what is read, before it is: the framing, unless one is given, and the kind of the message type."""
        self.framing = self.framing or find_framing(instance, topic, message_type)
        self.kind = find_kind(instance, topic, message_type) if self.framing != "envelope" else None

    def open_inputs(self, names: Sequence[str]) -> Iterator[tuple[str, FrameReader]]:
        """The inputs, opened in turn. Raises OSError at once where one of them cannot be opened."""
        refuse_unreadable(names)
        self._names = names
        # Places in a packed file count what comes out of it, of which nobody knows how much there is.
        if len(names) == 1 and names[0] != "-" and Path(names[0]).is_file() and not is_compressed(names[0]):
            self._size = Path(names[0]).stat().st_size
        return open_frame_readers(self.invocation, names, self.framing or "lines", self.kind)

    def open_rows(
        self,
        instance: Instance,
        topic: str | None,
        message_type: str | None,
        names: Sequence[str],
        reading: RowOptions,
    ) -> Iterator[tuple[str, MessageSource]]:
        """The files of rows, opened in turn. Raises UsageError and OSError at once for what cannot be read."""
        if topic is None:
            raise UsageError("SOW-EXC-010", "--from requires a topic", hint="give TOPIC")
        for name in names:
            find_format(name)
        refuse_unreadable(names)
        self._names, self._rows = names, True
        return open_row_sources(instance, topic, message_type, names, reading)

    def watch_instance(self, instance: Instance) -> Instance:
        """The instance of a dry run, which acknowledges nothing: it tells how far the reading has come."""
        mode, shown = self.invocation.settings.progress, self.invocation.shows_progress()
        if not self._options.dry_run or not (shown or mode == "json"):
            return instance
        self.invocation.meter = meter = ProgressMeter(self.invocation.streams, "publish", mode, shown=shown)

        def tell(what: str, done: int, total: int) -> None:
            # Of rows the place is the number of the next one.
            meter.show_progress("rows" if self._rows else "bytes", done, 0 if self._rows else self._size)

        return replace(instance, watch=tell)

    def note_acknowledged(self, batch: AcknowledgedBatch) -> None:
        """Count a durable batch; with --tee write its messages."""
        self.published += len(batch.payloads)
        words = "message is" if self.published == 1 else "messages are"
        promise = "durable" if batch.durable else "published, not saved anywhere"
        self.invocation.durable = f"{self.published:,} {words} {promise}, up to txid {batch.last_txid}"
        if self.tee:
            # Envelopes may delete: such an entry has no message.
            told = batch.payloads if self.framing != "envelope" else [one for one in batch.payloads if one]
            self.invocation.streams.stdout.write(frame_messages(told, self.framing or "lines"))
            self.invocation.streams.stdout.flush()
        if self.invocation.settings.progress == "json":
            row = {"published": self.published, "last_txid": batch.last_txid, "offset": batch.end_offset}
            self.invocation.streams.write_stderr_json(row)
        elif self.invocation.shows_progress():
            self._draw_progress(batch.end_offset)

    def note_rejected(self, refused: Rejected) -> None:
        """Count a refused message; write it to the rejects file, else say it."""
        self.rejects += 1
        self._last = refused
        if self._file is not None:
            # A row of a table has a line alone.
            rows = self._rows and find_format(refused.source) not in JSON_LINES_ENDINGS
            self._file.write(format_reject_line(refused, offset=not rows))
            # One by one, so that the file is complete wherever the run ends.
            self._file.flush()
        elif self._options.on_error == "skip":
            self._warnings.warn(refused, suggest_conversion(refused, self.kind, self.invocation.command))

    def warn_replaced(self, kinds: Iterable[MessageType]) -> None:
        """Say which of these types cannot be merged, so that their deltas took the place of records."""
        for name in sorted(kind.name for kind in kinds if not kind.mergeable):
            self.invocation.warn(f"{name} messages cannot be merged: each delta replaced its record")

    def print_report(self, report: object, summary: str | None) -> None:
        """The report at the end."""
        show_report(self.invocation, report, summary)

    def note_resume(self, rest: InputRest) -> None:
        """Say at the end how to go on, unless all is to be done again.

        The rest begins with a message that was not published. Files that were not come to follow it: the rest comes
        to them through a pipe, in the place of its file.
        """
        from shlex import quote

        if not rest.input and not rest.messages:
            return
        if rest.offset and self._is_end(rest):
            rest = InputRest(rest.input + 1, 1, 0, rest.messages)
        names = [STDIN_NAME if name == "-" else quote(name) for name in self._names[rest.input :]]
        if not names:
            self.invocation.resume = "the complete input was published"
            return
        later = ", then " + " ".join(names[1:]) if names[1:] else ""
        if self._rows and rest.offset:
            what = (
                "line" if find_format(self._names[rest.input]) in (*DELIMITED_ENDINGS, *JSON_LINES_ENDINGS) else "row"
            )
            words = f"the rest begins at {what} {rest.line} of {names[0]}{later}"
        elif not rest.offset:
            words = f"the rest begins with {names[0]}{later}"
        else:
            by_lines = self.framing in ("lines", "envelope")
            words = f"the rest begins at {f'line {rest.line}' if by_lines else f'byte {rest.offset}'}"
            if names[0] == STDIN_NAME or not Path(self._names[rest.input]).is_file() or is_compressed(names[0]):
                # what came through a pipe, or is packed, is not there for tail(1) to read
                words += f" of {names[0]}{later}"
            else:
                # tail(1) counts lines and bytes from 1.
                tail = f"tail -n +{rest.line}" if by_lines else f"tail -c +{rest.offset + 1}"
                words += f": {tail} {'-- ' if names[0].startswith('-') else ''}{names[0]}{later}"
        if self._options.sequence is not None:
            words += f"; with --sequence {self._options.sequence + rest.messages}"
        self.invocation.resume = words

    def _is_end(self, rest: InputRest) -> bool:
        """True where nothing of its file follows a place."""
        path = Path(self._names[rest.input])
        return not self._rows and path.is_file() and not is_compressed(str(path)) and rest.offset >= path.stat().st_size

    def _explain_error(self, error: SowError) -> None:
        """Add to an error what is published, and the line that it is about."""
        error.facts.pop("report", None)
        error.facts.setdefault("published", self.published)
        if self._last is not None:
            explain_refusal(error, [self._last], self.kind, self.invocation.command)
        name = error.facts.get("topic")
        if error.code == "SOW-ENG-012" and isinstance(name, str) and Path(name).is_file():
            error.hint = _build_file_hint(name)

    def _draw_progress(self, place: int) -> None:
        now = time.monotonic()
        if now - self._drawn < _DRAW_INTERVAL_SECONDS:
            return
        self._drawn, self._line = now, True
        rate = self.published / (now - self._started)
        # A file that still grows is longer by now than it was.
        known = 0 < place <= self._size
        left = format_duration((now - self._started) * (self._size - place) / place, whole=True) if known else ""
        rest = f", {100 * place // self._size} % of the file, {left} left" if known else ""
        self.invocation.streams.draw_line(f"{self.published:,} published, {format_rate(rate)}{rest} ")
