"""Reports of commands: findings to standard output with their count, reports to standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from sowctl.cli.context import Invocation
from sowctl.cli.streams import is_terminal
from sowctl.declarations import DOCUMENT
from sowctl.errors import UsageError
from sowctl.findings import Finding, Level
from sowctl.values.jsonline import format_json_line

if TYPE_CHECKING:
    from sowctl.cli.io.output_sink import Sink
    from sowctl.engine.reports import Rejected
    from sowctl.output.linting.plain import FindingCounter

MAX_WARNINGS = 10
"""Maximum number of rejected messages of a run that are printed individually."""


def show_findings(
    invocation: Invocation,
    findings: Iterable[Finding],
    *,
    as_json: bool,
    status: int,
    clean: str,
    level: Level = Level.ERROR,
) -> int:
    """Write ``findings`` as they arrive, then their count; ``status`` if the level of one is ``level`` or higher, else
    0.

    ``clean`` is printed if there was no finding.
    """
    tally = write_findings(invocation, findings, "json" if as_json else "text")
    invocation.note(str(tally) if tally.counts else clean)
    return status if any(found >= level for found in tally.counts) else 0


class Examination(Protocol):
    """A check that runs while its findings are read; at the end, ``report`` and ``coverage`` describe what was read."""

    def __iter__(self) -> Iterator[Finding]: ...
    @property
    def report(self) -> Any: ...
    @property
    def coverage(self) -> str: ...


def show_examination(invocation: Invocation, examined: Examination, *, format: str, summary: str | None) -> int:
    """Write the findings of a check, and then its coverage; returns 5 if it found damage, else 0.

    With findings as JSON, each line of standard output is a finding, so the coverage follows as a line of JSON on
    standard error, unless ``summary`` requires text; one document has both.
    """

    from sowctl.output.linting.plain import FindingCounter
    from sowctl.output.reports import as_dict

    tally = FindingCounter()
    if format == DOCUMENT:
        tally = write_findings_document(invocation, examined, lambda _: as_dict(examined.report))
        return 5 if any(found >= Level.ERROR for found in tally.counts) else 0
    if format != "json":
        status = show_findings(
            invocation, tally.count_findings(examined), as_json=False, status=5, clean="no damage found"
        )
        show_words(invocation, examined.coverage, as_dict(examined.report) | tally.count_by_name(), summary)
        return status
    write_findings(invocation, tally.count_findings(examined), "json")
    row = as_dict(examined.report) | tally.count_by_name()
    show_words(invocation, examined.coverage if summary == "text" else format_json_line(row), row, summary)
    return 5 if any(found >= Level.ERROR for found in tally.counts) else 0


def write_findings(invocation: Invocation, findings: Iterable[Finding], format: str) -> FindingCounter:
    """Write ``findings`` to standard output in a format of ``output/linting/formats.py``; returns their count."""
    from sowctl.output.linting.formats import make_renderer
    from sowctl.output.linting.plain import FindingCounter

    streams = invocation.streams
    tally = FindingCounter()
    colored = streams.shows_color(streams.stdout)
    columns = streams.measure_columns() if is_terminal(streams.stdout) else None
    show = make_renderer(
        format, lambda kind, words: streams.paint_text(kind, words) if colored else words, columns, invocation.command
    )
    # Text has colours; the formats for programs have none, and are written to a terminal without control characters.
    out = streams.painted_stdout if format == "text" else streams.stdout
    for text in show(tally.count_findings(findings)):
        out.write(text.encode("utf-8", "backslashreplace") + b"\n")
    # Before the count on standard error, so that a terminal shows the two in order.
    out.flush()
    return tally


def write_findings_document(
    invocation: Invocation,
    findings: Iterable[Finding],
    build_facts: Callable[[FindingCounter], Mapping[str, object]] = lambda _: {},
) -> FindingCounter:
    """Write one JSON object: the findings, further facts, and the counts of findings by level; return the counts."""
    from sowctl.output.linting.plain import FindingCounter, as_json

    out = invocation.streams.stdout
    tally = FindingCounter()
    # Findings are written as they arrive: there may be more of them than fit into memory.
    opening = '{"findings":[\n'
    for finding in tally.count_findings(findings):
        out.write(f"{opening}{as_json(finding)}".encode())
        opening = ",\n"
    facts = format_json_line(dict(build_facts(tally)) | tally.count_by_name())
    front = '{"findings":[' if not tally.counts else ""
    out.write(f"{front}],{facts[1:]}\n".encode())
    out.flush()
    return tally


def write_rows_document(invocation: Invocation, rows: Sequence[Mapping[str, object]]) -> None:
    """Write one JSON array with an object per line."""
    write_lines_document(invocation, map(format_json_line, rows))


def write_lines_document(invocation: Invocation, lines: Iterable[str]) -> None:
    """Write one JSON array of elements that are lines of JSON."""
    text = ",\n".join(lines)
    invocation.streams.stdout.write(f"[{text}]\n".encode())
    invocation.streams.stdout.flush()


class RefusedWarnings:
    """Warnings about rejected messages: the first :data:`MAX_WARNINGS` of a run, and at the end the number of others;
    with --verbose all. A context manager. ``kept`` describes at the end how to get all of them."""

    def __init__(self, invocation: Invocation, kept: str = "--verbose prints all messages") -> None:
        self.count = 0
        self._invocation = invocation
        self._kept = kept

    def warn(self, refused: Rejected, hint: str | None = None) -> None:
        """Count a message, and print a warning if it is among the first."""
        self.count += 1
        # In an input of the wrong kind all messages are rejected, and the first ten are enough.
        if self.count <= MAX_WARNINGS or self._invocation.settings.verbose:
            place = {"file": refused.source, "line": refused.line, "column": refused.column, "byte": refused.offset}
            self._invocation.warn(refused.message, code=refused.code, place=refused.place, hint=hint, **place)

    def __enter__(self) -> RefusedWarnings:
        return self

    def __exit__(self, *_: object) -> None:
        more = self.count - MAX_WARNINGS
        if more > 0 and not self._invocation.settings.verbose:
            words = "one more message was" if more == 1 else f"{more:,} more messages were"
            self._invocation.warn(f"{words} rejected", hint=self._kept, refused=self.count)


def show_report(invocation: Invocation, report: object, summary: str | None) -> None:
    """Print a report: one line of JSON on standard output with ``--summary json``, else words on standard error."""
    from sowctl.output import reports

    if summary == "json":
        invocation.streams.stdout.write(reports.encode_report(report).encode() + b"\n")
    elif summary == "text":
        _write_requested(invocation, reports.format_report(report))
    else:
        invocation.note(*reports.format_report(report).split("\n"))


def show_words(invocation: Invocation, words: str, row: Mapping[str, object], summary: str | None) -> None:
    """As :func:`show_report`, for a report in the caller's ``words``; ``row`` is the same for programs."""

    if summary == "json":
        invocation.streams.stdout.write(format_json_line(row).encode() + b"\n")
    elif summary == "text":
        _write_requested(invocation, words)
    else:
        invocation.note(*words.split("\n"))


def show_reports(invocation: Invocation, reports: Sequence[object], summary: str | None, format: str | None) -> None:
    """Print a report for each of several topics, and a total if there are more than one; a document has no total.

    With ``--format``: rows on standard output, the total in the last one, without a topic. Else as a single report.
    Raises UsageError ``SOW-CLI-012`` as :func:`check_report_options` does.
    """
    from sowctl.output import reports as rendering

    rows = _build_report_rows(reports)
    if format is not None:
        from sowctl.cli.io.output_sink import Sink
        from sowctl.cli.parsing.options import OutputChoice

        Sink(invocation, OutputChoice(format)).write_rows(rows)
    elif summary == DOCUMENT:
        write_rows_document(invocation, [rendering.as_dict(report) for report in reports])
    elif summary == "json":
        for row in rows:
            invocation.streams.stdout.write(format_json_line(row).encode() + b"\n")
    else:
        for text in rendering.format_reports(reports):
            if summary == "text":
                _write_requested(invocation, text)
            else:
                invocation.note(*text.split("\n"))


def check_report_options(summary: str | None, format: str | None) -> None:
    """Raises UsageError ``SOW-CLI-012`` for two forms of one report, before anything is done."""
    if summary is not None and format is not None:
        raise UsageError("SOW-CLI-012", "--summary and --format exclude each other", hint="give one of them")


def _build_report_rows(reports: Sequence[object]) -> list[dict[str, Any]]:
    from sowctl.output import reports as rendering

    total = rendering.sum_reports(reports)
    return [rendering.as_dict(report) for report in reports] + ([total] if total is not None else [])


def show_statistics(
    invocation: Invocation,
    statistics: Sequence[object],
    format: str | None = None,
    *,
    said: bool = True,
    sink: Sink | None = None,
) -> None:
    """Print for each topic how many records were examined, matched and returned; on request, so also with --quiet.

    With ``format`` as rows on standard output or to ``sink``, the total last; with ``said`` false only these.
    """
    from sowctl.output import reports

    if sink is not None and format is not None:
        sink.write_rows(_build_report_rows(statistics))
    elif format is not None:
        show_reports(invocation, statistics, None, format)
    if not said:
        return
    for line in statistics if isinstance(statistics, Iterable) else [statistics]:
        _write_requested(invocation, reports.format_report(line))


def _write_requested(invocation: Invocation, words: str) -> None:
    """Print requested output, which is therefore printed even with --quiet."""
    streams = invocation.streams
    streams.write_stderr(*streams.fold_lines(words.split("\n")))


def warn_incomplete(invocation: Invocation, topic: str) -> None:
    """Warn of a store that was rebuilt from journals whose beginning is missing."""
    invocation.warn(
        f"topic {topic!r}: the rebuilt store is incomplete",
        hint="restore the older journal files, or a backup, then rebuild again: sowctl replay --rebuild",
        topic=topic,
    )
