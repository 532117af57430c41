"""Output of records by commands: check the options, then write every batch in its format to its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec.structs import replace

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import OutputChoice
from sowctl.cli.streams import is_terminal
from sowctl.errors import UsageError
from sowctl.output import formats
from sowctl.output.display import escape_surrogates
from sowctl.output.exports import (
    FileFormat,
    can_publish,
    find_file_format,
    holds_whole_messages,
    open_compressed,
    refuse_compressed,
    refuse_mixed_topics,
)
from sowctl.output.options import NO_FIT, OutputOptions, TableFit, Terminal, parse_columns, parse_delimiter
from sowctl.output.records import Batch, OutputBatch, OutputRecord, find_repeat
from sowctl.output.replaced_bytes import REPLACED_CODE, REPLACED_HINT, ReplacementWatch
from sowctl.output_file import open_whole_file, refuse_existing
from sowctl.values.paths import Path as FieldPath
from sowctl.values.paths import Step

if TYPE_CHECKING:
    from sowctl.engine.topics.targets import Target
    from sowctl.output.facts import Fact

TABLE_FORMATS = frozenset({"parquet", "arrow", "csv", "tsv", "sqlite"})
"""Formats of rows, in which only a column distinguishes topics."""


MAX_ROWS_TOGETHER = 1000
"""Number of rows in memory that are written at once: 500,000 rows of ``blame`` as csv took 25 s of CPU one by one."""


class Sink:
    """Output of the records of a command. Created before a store is opened, so that invalid options fail early.

    ``front`` names the columns of metadata, if not the usual ones; ``facts``: the rows are no records.

    Raises :class:`~sowctl.errors.UsageError` ``SOW-CLI-012`` for conflicting options and the errors of
    ``output.options`` and ``output.formats``; :class:`~sowctl.errors.RefusedError` ``SOW-CLI-011``.
    """

    def __init__(
        self,
        invocation: Invocation,
        choice: OutputChoice,
        front: tuple[str, ...] | None = None,
        *,
        facts: bool = False,
    ) -> None:
        self.invocation = invocation
        self.path = Path(choice.path) if choice.path not in (None, "-") else None
        self.force = choice.force
        if self.path is not None:
            # Checked now, and again when the file is renamed: a query may take long, and another program may create it
            # in the meantime.
            refuse_existing(self.path, force=choice.force)
        streams = invocation.streams
        shown = self.path is None and is_terminal(streams.stdout)
        delimiter = _choose_delimiter(choice)
        self._file = find_file_format(str(self.path)) if self.path is not None else FileFormat(None, None)
        named = self._file.ending.format if self._file.ending is not None else None
        self.format = formats.choose_format(
            choice.format, terminal=shown, given=_list_shaping_options(choice), ending=named
        )
        # Even with --format: the name of the file distinguishes an Arrow file from an Arrow stream.
        self._by_name = named is not None and named == self.format
        if self._file.packing is not None and self.format in formats.BINARY_FORMATS:
            refuse_compressed(str(self.path), self.format)
        if named is not None and named != self.format:
            if choice.format is None and named in formats.BINARY_FORMATS:
                _refuse_shaping(str(self.path), named, _list_shaping_options(choice))
            invocation.note(
                f"{escape_surrogates(str(self.path))} is written as {self.format}, which its name does not say"
            )
        # Only a terminal has widths and colours: output to a pipe never depends on them.
        terminal = (
            Terminal(streams.measure_columns(), streams.find_encoding(), streams.shows_color(streams.stdout))
            if shown
            else None
        )
        self.options = OutputOptions(
            meta=choice.meta,
            columns=parse_columns(choice.columns, facts=facts) if choice.columns is not None else (),
            delimiter=delimiter,
            length_prefix=choice.length_prefix,
            template=choice.template,
            headers=not choice.no_headers,
            terminal=terminal,
        )
        if front is not None:
            self.options = replace(self.options, front=front)
        self.renderer = self.make_renderer(self.options)
        self._shaped = choice.format is not None or bool(_list_shaping_options(choice))

    def choose_front(self, front: Sequence[str]) -> None:
        """Name the columns of metadata, if they are known only later."""
        self.options = replace(self.options, front=tuple(front))
        self.renderer = self.make_renderer(self.options)

    @property
    def is_arrow_file(self) -> bool:
        """True if the output is an Arrow file, not a stream."""
        ending = self._file.ending
        return self._by_name and ending is not None and ending.renderer == "FeatherRenderer"

    def make_renderer(self, options: OutputOptions, table: str = "records") -> formats.Renderer:
        """Create a renderer of the chosen format; ``table`` is the name of the table of a database."""
        return (
            self._file.make_renderer(options, table) if self._by_name else formats.make_renderer(self.format, options)
        )

    @contextmanager
    def open_file(self) -> Iterator[BinaryIO]:
        """A stream for the content of the file of ``--output``, compressed if its name says so."""
        assert self.path is not None
        with (
            open_whole_file(self.path, force=self.force, seam=self.invocation.seam) as stream,
            open_compressed(stream, self._file.packing) as inner,
        ):
            yield inner

    @property
    def writes_envelopes(self) -> bool:
        """True if the output can be published elsewhere."""
        return can_publish(self.format, meta=self.options.meta)

    @property
    def is_for_person(self) -> bool:
        """True if the output is a table on a terminal."""
        return self.options.terminal is not None and self.format == "table"

    def write_single_batch(self, batch: Batch) -> None:
        """Write a batch as :meth:`write` does; one record on a terminal, without a chosen format, line by line."""
        terminal = self.options.terminal
        if not self.is_for_person or terminal is None or self._shaped or len(batch.payloads) != 1:
            self.write([batch])
            return
        from sowctl.output.onerecord import write_record

        self.invocation.start_paging()
        write_record(batch, terminal, self.invocation.streams.stdout, meta=self.options.meta)

    def write(self, batches: Iterable[Batch], targets: Sequence[Target] = (), fit: TableFit = NO_FIT) -> int:
        """Write all batches; returns the number of records. ``targets`` are their topics. ``fit``: columns that a
        terminal may drop.

        Raises UsageError ``SOW-EXC-013`` for several topics in one table that has no column for the topic.
        """
        if len(targets) > 1 and self.format in TABLE_FORMATS and not self.options.meta and not self.options.columns:
            refuse_mixed_topics(targets)
        if fit is not NO_FIT:
            self.renderer = self.make_renderer(replace(self.options, fit=fit))
        if self.format == "sqlite" and len(targets) == 1 and targets[0].topic is not None:
            self.renderer = self.make_renderer(self.options, targets[0].topic.label)
        watch = None
        if self.format != "table" and not holds_whole_messages(self.format, meta=self.options.meta):
            watch = ReplacementWatch(batches, self.options)
            batches = watch if find_repeat(batches) is not None else iter(watch)
        if self.path is None:
            if self.options.terminal is not None:
                batches = self._end_progress(batches)
            if self.format == "table":
                self.invocation.start_paging()
            streams = self.invocation.streams
            # A table has colours and the terminal's encoding; each of its cells is escaped by itself.
            out = streams.painted_stdout if self.format == "table" else streams.stdout
            rendered = self.renderer.write(batches, out)
        else:
            with self.open_file() as stream:
                rendered = self.renderer.write(batches, stream)
        for note in rendered.notes:
            self.invocation.note(note)
        # A separate exit status would break scripts that only print such records; the output of export is for storage.
        for warning in () if watch is None else watch.format_warnings():
            self.invocation.warn(warning, code=REPLACED_CODE, hint=REPLACED_HINT)
        return rendered.records

    def note_file(self, count: int, noun: str = "record") -> None:
        """Print the number of records in the file of ``--output``; nothing if the output is no regular file."""
        if self.path is None or not self.path.is_file():
            return
        from sowctl.output.display import escape_line
        from sowctl.values.display import format_bytes, format_count

        size = format_bytes(self.path.stat().st_size)
        self.invocation.note(f"{escape_line(str(self.path))}: {format_count(count, noun)}, {size}")

    def _end_progress(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The batches, without a progress line on the terminal from the first one on."""
        for batch in batches:
            if self.invocation.meter is not None:
                self.invocation.meter.end()
            yield batch

    @property
    def named_format(self) -> str | None:
        """The format by the name of the file, if any."""
        return self._file.ending.format if self._file.ending is not None else None

    def write_text(self, text: str) -> None:
        """Write text that is no format of records."""
        with nullcontext(self.invocation.streams.stdout) if self.path is None else self.open_file() as stream:
            stream.write(text.encode())

    def write_rows(
        self, rows: Iterable[Mapping[str, Any] | bytes], fit: TableFit = NO_FIT, *, together: int = 1
    ) -> int:
        """Write facts about the instance - not records of it - in the same formats; returns their number.

        A row in bytes is a JSON object, such as one whose numbers have the digits of a message. A note is printed for
        columns that no row has: they would be empty, like fields without a value. ``fit``: columns that a terminal may
        drop. ``together``: number of rows to write at once, more than one if no reader waits for single rows.
        """
        # Facts are no records: members with names of metadata are ordinary members.
        columns = tuple(FieldPath((Step(one),)) if isinstance(one, str) else one for one in self.options.columns)
        self.renderer = self.make_renderer(replace(self.options, columns=columns, facts=True, fit=fit))
        members: dict[str, None] = {}
        written = self.write(_row_batches(_note_members(rows, members) if columns else rows, together))
        for column in columns if members else ():
            if column.names[0] not in members:
                self._note_unknown(column, list(members))
        return written

    def _note_unknown(self, column: FieldPath, members: list[str]) -> None:
        from difflib import get_close_matches

        near = get_close_matches(column.names[0], members, n=1)
        meant = f"did you mean /{near[0]}?" if near else "columns: " + ", ".join(f"/{name}" for name in members)
        self.invocation.note(f"no row has a column {column}; {meant}")


def show_facts(invocation: Invocation, facts: Sequence[Fact]) -> None:
    """Write facts to standard output, a terminal, in lines that fit it."""
    from sowctl.output.facts import format_facts

    streams = invocation.streams
    invocation.start_paging()
    paint = {"paint": streams.paint_text} if streams.shows_color(streams.stdout) else {}
    text = "\n".join(format_facts(facts, streams.measure_columns(), **paint)) + "\n"
    out = streams.painted_stdout
    out.write(text.encode(streams.find_encoding(), "backslashreplace"))
    out.flush()


def show_list(invocation: Invocation, lines: Iterable[str]) -> None:
    """Write the lines of a list to standard output; on a terminal through the pager, in lines that fit it."""
    streams = invocation.streams
    if is_terminal(streams.stdout):
        from sowctl.output.facts import wrap_list_line

        invocation.start_paging()
        columns = streams.measure_columns()
        lines = (part for line in lines for part in wrap_list_line(line, columns))
    streams.stdout.write("".join(line + "\n" for line in lines).encode())
    streams.stdout.flush()


def _note_members(
    rows: Iterable[Mapping[str, Any] | bytes], members: dict[str, None]
) -> Iterator[Mapping[str, Any] | bytes]:
    """The rows unchanged; the names of their members are added to ``members``."""
    from msgspec.json import decode

    for row in rows:
        members.update(dict.fromkeys(decode(row) if isinstance(row, bytes) else row))
        yield row


def _row_batches(rows: Iterable[Mapping[str, Any] | bytes], together: int) -> Iterator[Batch]:
    waiting = iter(rows)
    while some := [OutputRecord(_row_payload(row)) for row in islice(waiting, together)]:
        yield OutputBatch("", "json", lambda payload: payload, some)


def _row_payload(row: Mapping[str, Any] | bytes) -> bytes:
    if isinstance(row, bytes):
        return row
    import json

    return escape_surrogates(json.dumps(dict(row), ensure_ascii=False, default=str, separators=(",", ":"))).encode()


def _list_shaping_options(choice: OutputChoice) -> list[str]:
    """The given options that only some formats support."""
    options = (
        ("--delimiter", choice.delimiter is not None),
        ("--null", choice.null),
        ("--length-prefix", choice.length_prefix),
        ("--template", choice.template is not None),
        ("--columns", choice.columns is not None),
        ("--no-headers", choice.no_headers),
    )
    return [name for name, given in options if given]


def _refuse_shaping(name: str, format: str, given: Sequence[str]) -> None:
    """Reject options that the format of a binary file does not support. Raises UsageError ``SOW-OUT-012``."""
    foreign = next(option for option in given if option not in formats.options_by_format()[format])
    hint = "leave it out, or give the file another ending"
    if foreign == "--no-headers":
        hint = "leave it out, or give the file a name that ends in .csv"
    raise UsageError("SOW-OUT-012", f"{foreign} cannot be used with format {format}", place=name, hint=hint)


def _choose_delimiter(choice: OutputChoice) -> bytes:
    """Return the bytes that end a record. Raises UsageError ``SOW-CLI-012`` if they are given twice."""
    chosen = [name for name in _list_shaping_options(choice) if name in ("--delimiter", "--null", "--length-prefix")]
    if len(chosen) > 1:
        raise UsageError("SOW-CLI-012", f"{' and '.join(chosen)} exclude each other", hint="give one of them")
    if choice.null:
        return b"\0"
    return parse_delimiter(choice.delimiter) if choice.delimiter is not None else b"\n"
