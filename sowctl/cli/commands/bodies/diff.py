"""Output and status of ``diff`` for each topic; output of ``history --diff`` for versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO

from sowctl.cli.context import Invocation
from sowctl.cli.streams import is_terminal
from sowctl.declarations import DOCUMENT
from sowctl.output.differences.records import (
    DiffText,
    encode_change,
    encode_counts,
    encode_envelope,
    encode_version,
    format_counts,
)
from sowctl.output.display import escape_line
from sowctl.output.options import Terminal

if TYPE_CHECKING:
    from sowctl.engine.search.keyhistory import VersionRecord
    from sowctl.engine.verbs.history import VersionBatch
    from sowctl.engine.verbs.inspect.diff import Comparison, DiffCounts

FLUSH_BYTES = 256 << 10
"""Bytes of output to buffer before they are written."""


def _make_text(invocation: Invocation) -> DiffText:
    """Return the formatter of lines for people, for the terminal of standard output if it is one."""
    streams = invocation.streams
    shown, colored = is_terminal(streams.stdout), streams.shows_color(streams.stdout)
    terminal = Terminal(streams.measure_columns(), streams.find_encoding(), colored) if shown else None
    return DiffText(terminal, colored=colored)


def _choose_output(invocation: Invocation, format: str) -> BinaryIO:
    """Return standard output: for people with colours, in which data is escaped line by line."""
    return invocation.streams.painted_stdout if format == "text" else invocation.streams.stdout


def show_versions(invocation: Invocation, batches: Iterable[VersionBatch], format: str | None) -> None:
    """Print every version compared with the previous one: for people, or with ndjson or json as objects.

    A batch has all versions of its keys.
    """
    text, key = _make_text(invocation), b""
    # An array is opened by its first element, and closed even if it has none.
    opening, separator = ("[", ",\n") if format == "json" else ("", "")
    if format is None:
        invocation.start_paging()
    out = _choose_output(invocation, format or "text")
    several: bool | None = None
    for batch in batches:
        if several is None:
            several = len({record.key for record in batch.records}) > 1
        for version, rows in _format_versions(batch, format, text):
            if format is None and several and version.key != key:
                key = version.key
                rows = [*text.format_title(f"{batch.topic} {version.user_key or version.sow_key}"), *rows]
            end = "" if format == "json" else "\n"
            out.write("".join(opening + row + end for row in rows).encode("utf-8", "backslashreplace"))
            opening = separator
    if format == "json":
        out.write((("[" if opening == "[" else "") + "]\n").encode())
    out.flush()


def _format_versions(
    batch: VersionBatch, format: str | None, text: DiffText
) -> Iterator[tuple[VersionRecord, list[str]]]:
    from sowctl.engine.verbs.history import compare_versions
    from sowctl.output.records import build_metadata

    view = batch.kind.view
    for change in compare_versions(batch):
        version = change.version
        if format is not None:
            yield version, [encode_version(change, build_metadata(batch, version), view)]
        else:
            yield version, list(text.format_version(change, view))


class DiffPrinter:
    """Prints comparisons one after the other, at most ``most`` records of each."""

    def __init__(
        self, invocation: Invocation, format: str, *, stat: bool = False, summary: bool = False, most: int | None = None
    ) -> None:
        self._invocation = invocation
        # A document is an array of the lines of json.
        self._format = "json" if format == DOCUMENT else format
        self._opening = b"[" if format == DOCUMENT else b""
        self._closing = b"]\n" if format == DOCUMENT else b""
        self._counting = stat or summary
        self._stat, self._most = stat, most
        self._text = _make_text(invocation)
        self._done: list[tuple[str, DiffCounts]] = []
        self._pending: list[bytes] = []
        self._size = 0
        self._quiet = invocation.settings.quiet
        """Nothing is printed: the exit status shows whether there are differences."""
        if format == "text" and not self._quiet:
            invocation.start_paging()

    def print_comparison(self, comparison: Comparison) -> None:
        """Compare one topic and print the differences."""
        seen = 0
        for change in comparison.iterate_changes():
            seen += 1
            # If the user leaves the pager, differences were found.
            self._invocation.left = 1
            if self._quiet or self._counting or (self._most is not None and seen > self._most):
                continue
            if self._format == "envelopes":
                self._write_line(
                    encode_envelope(
                        comparison.topic,
                        comparison.message_type,
                        change,
                        user_keys=comparison.user_keys,
                        lifetimes=comparison.lifetimes,
                    )
                )
            elif self._format == "json":
                self._write_lines(
                    encode_change(comparison.topic, comparison.message_type, change, comparison.kind.view)
                )
            else:
                if seen == 1:
                    self._write_lines(*self._text.format_heading(comparison.before, comparison.after))
                self._write_lines(*self._text.format_change(change, comparison.kind.view))
        counts = comparison.counts
        self._done.append((comparison.topic, counts))
        if self._quiet:
            return
        if self._counting and self._format == "json":
            names = comparison.before, comparison.after
            self._write_lines(encode_counts(comparison.topic, comparison.message_type, *names, counts))
        elif not self._counting:
            self._flush()
            self._invocation.note(f"{escape_line(comparison.topic)}: {format_counts(counts)}")

    def finish(self) -> int:
        """Print the end of the output; returns the exit status."""
        if self._quiet:
            return 1 if any(counts.different for _, counts in self._done) else 0
        if self._counting and self._format != "json":
            longest = max((counts.different for _, counts in self._done), default=0)
            wide = max((len(escape_line(name)) for name, _ in self._done), default=0)
            for name, counts in self._done:
                if not self._stat:
                    self._write_lines(f"{escape_line(name):{wide}}  {format_counts(counts)}")
                elif counts.different:
                    self._write_lines(*self._text.format_statistic(name, counts, longest))
        if self._closing:
            self._pending.append((b"" if self._opening == b",\n" else self._opening) + self._closing)
        self._flush()
        different = sum(1 for _, counts in self._done if counts.different)
        if self._counting and len(self._done) > 1:
            verb = "differs" if different == 1 else "differ"
            self._invocation.note(f"{different:,} of {len(self._done):,} topics {verb}")
        return 1 if different else 0

    def _write_lines(self, *lines: str) -> None:
        for line in lines:
            self._write_line(line.encode("utf-8", "backslashreplace"))

    def _write_line(self, line: bytes) -> None:
        if self._closing:
            self._pending.append(self._opening + line)
            self._opening = b",\n"
        else:
            self._pending.append(line + b"\n")
        self._size += len(line)
        if self._size >= FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        out = _choose_output(self._invocation, self._format)
        if self._pending:
            out.write(b"".join(self._pending))
            self._pending, self._size = [], 0
        out.flush()
