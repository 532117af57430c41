"""Output of ``sowctl publish`` while it runs: progress, rejects, acknowledged messages, and the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO

from msgspec.structs import replace

from sowctl.arrow.inputs.input_formats import PARTITIONED_FORMATS, choose_format
from sowctl.cli.context import Invocation
from sowctl.cli.io.report_output import RefusedWarnings, show_report
from sowctl.cli.io.sources import (
    FORM_OPTIONS,
    STDIN_NAME,
    explain_refusal,
    find_framing,
    find_kind,
    guess_file_form,
    open_frame_readers,
    open_inputs,
    refuse_unreadable,
    suggest_conversion,
)
from sowctl.cli.progress import ProgressMeter
from sowctl.engine.reports import InputRest
from sowctl.engine.writing.rejects import format_reject_line
from sowctl.errors import MissingError, SowError, UsageError
from sowctl.messages.framing.frames import FrameReader, frame_messages
from sowctl.messages.framing.input_files import is_compressed, open_input
from sowctl.output.display import escape_line
from sowctl.values.display import format_count, format_duration, format_rate

if TYPE_CHECKING:
    from sowctl.arrow.inputs.input_formats import InputFacts, InputOptions
    from sowctl.arrow.inputs.partitions import PartitionValues
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import PublishOptions
    from sowctl.engine.reports import PublishReport, Rejected
    from sowctl.engine.writing.batches import MessageSource
    from sowctl.engine.writing.commit import AcknowledgedBatch
    from sowctl.messages.base import MessageType
    from sowctl.messages.framing.envelope import EnvelopeFormat

_MAX_NAMES = 10
"""Maximum number of files to name as the rest of an input; a directory may have thousands."""
_DRAW_INTERVAL_SECONDS = 0.2
"""Seconds between two updates of the progress line."""


def choose_envelope_format(
    form: str | None, framing: str | None, *, ignores_unknown: bool, time_unit: str | None, client: str | None
) -> EnvelopeFormat | None:
    """The format of the envelopes to read; None if messages have no envelopes.

    Raises UsageError ``SOW-CLI-012`` for a format with another framing, ``SOW-INP-017`` for options without envelopes.
    """
    name = form or ("sowctl" if framing == "envelope" else None)
    if form is not None and framing not in (None, "envelope"):
        raise UsageError("SOW-CLI-012", "--envelope and another framing exclude each other", hint="omit --framing")
    if name is None:
        if ignores_unknown or time_unit is not None:
            told = "--ignore-unknown-members" if ignores_unknown else "--timestamp-unit"
            raise UsageError("SOW-INP-017", f"{told} requires envelopes", hint="add --framing envelope")
        return None
    if name != "sowctl" and time_unit is not None:
        raise UsageError("SOW-INP-017", f"--timestamp-unit has no effect on {name} envelopes", hint="omit it")
    from sowctl.messages.framing.envelope import EnvelopeFormat

    return EnvelopeFormat(
        name,  # type: ignore[arg-type]  # one of the choices
        ignores_unknown,
        time_unit or "ms",
        client if name != "sowctl" else None,
    )


def split_operands(
    instance: Instance, topic: str | None, message_type: str | None, files: list[str]
) -> tuple[str | None, list[str]]:
    """Topic and files if messages have envelopes, which name their topics: a first operand that is a file or standard
    input, and not a topic, is the first of the files."""
    from sowctl.engine.topics.targets import find_publish_topic

    if topic is None or not (topic == "-" or Path(topic).exists()):
        return topic, files
    try:
        find_publish_topic(instance, topic, message_type)
    except SowError:
        return None, [topic, *files]
    return topic, files


def expand_directories(
    names: Sequence[str], *, framed: bool, notify: Callable[[str], None]
) -> tuple[list[str], list[str]]:
    """The inputs, with directories replaced by their files, and the directories; ``notify`` receives remarks.

    Raises MissingError ``SOW-CLI-062`` for a directory without files, OSError for an unreadable one, and, unless the
    content is known (``framed``), UsageError ``SOW-EXC-002`` for a file whose name does not show its format.
    """
    roots = [name for name in names if name != "-" and Path(name).is_dir()]
    if not roots:
        return list(names), []
    from sowctl.arrow.inputs.partitions import list_directory_files

    found: list[str] = []
    for name in names:
        files = list_directory_files(name, notify) if name in roots else [name]
        if not files:
            hint = "files whose names begin with . or _ are not read"
            raise MissingError("SOW-CLI-062", "the directory has no files", place=name, hint=hint)
        if name in roots and not framed:
            for file in files:
                choose_format(file)
        found += files
    return found, roots


def read_input_partitions(
    names: Sequence[str], directories: Sequence[str], options: InputOptions
) -> tuple[dict[str, PartitionValues], InputOptions]:
    """The partition columns in the paths of the inputs that have any; and the options without the types of these."""
    from sowctl.arrow.inputs.partitions import list_partition_names, read_partitions

    files = [name for name in names if name != "-"]
    types = options.delimited.types
    rows = read_partitions(
        files, directories, is_text=lambda name: options.delimited.all_text or types.get(name) == "text"
    )
    columns = list_partition_names(rows)
    rest = {name: kind for name, kind in types.items() if not (name in columns and kind == "text")}
    options = replace(options, delimited=replace(options.delimited, types=rest))
    return {name: row for name, row in zip(files, rows, strict=True) if row}, options


def find_row_names(names: Sequence[str], format: str | None, kind: str | None, framing: str | None) -> frozenset[str]:
    """The inputs with rows: those whose names show it; all if a ``format`` is given; none with a framing, or if
    messages of ``kind`` cannot be constructed from columns."""
    from sowctl.arrow.inputs.input_formats import find_format
    from sowctl.messages.types import UNCONSTRUCTIBLE_TYPES

    if format is not None:
        return frozenset(names)
    if framing is not None or kind in UNCONSTRUCTIBLE_TYPES:
        return frozenset()
    return frozenset(name for name in names if find_format(name) not in (None, "json", "ndjson"))


def _share_types(names: Sequence[str], options: InputOptions) -> InputOptions:
    """The options of several inputs, with types for columns that some inputs lack.

    Raises UsageError ``SOW-EXC-010`` for a type of a column that no input has, unless one is a pipe, whose columns are
    unknown before it is read, and the errors of reading a header.
    """
    from sowctl.arrow.inputs.delimited_source import read_columns, refuse_unknown_types

    fields: dict[str, None] = {}
    for name in names:
        chosen = choose_format(name, options.format)
        if chosen is None or not Path(name).is_file():
            break
        with open_input(name) as stream:
            fields |= dict.fromkeys(read_columns(name, chosen, stream, options.delimited))
    else:
        refuse_unknown_types(format_count(len(names), "file"), list(fields), options.delimited)
    return replace(options, delimited=replace(options.delimited, shares_types=True))


def build_envelope_hint(name: str) -> str | None:
    """The command that publishes the envelopes of a file; None if it has none."""
    from shlex import quote

    form = guess_file_form(name)
    return None if form is None else f"the file has envelopes: sowctl publish {FORM_OPTIONS[form]} {quote(name)}"


def _build_file_hint(name: str) -> str:
    """The command that publishes a file whose name was given instead of a topic."""
    from shlex import quote

    hint = build_envelope_hint(name)
    if hint is not None:
        return hint
    if name.endswith(".zip"):
        return f"unpack the file: unzip -p {quote(name)} | sowctl publish TOPIC"
    return f"the topic comes before the file: sowctl publish TOPIC {quote(name)}"


class PublishRun:
    """Output of one run; a context manager, because the rejects file must be closed and the progress line ended.

    ``framing`` and ``kind``, that of the messages' type, are None until :meth:`prepare` is called before the inputs are
    read.
    """

    def __init__(
        self,
        invocation: Invocation,
        framing: str | None,
        rejects: str | None,
        options: PublishOptions,
        *,
        tee: bool,
        form: EnvelopeFormat | None = None,
    ) -> None:
        self.invocation = invocation
        self._form = form
        self._form_name = None if form is None else form.name
        self.framing = framing
        self.kind: str | None = None
        self.tee = tee
        self.published = 0
        self._options = options
        self._names: Sequence[str] = ()
        self._row_names: frozenset[str] = frozenset()
        self._partitions: Mapping[str, PartitionValues] = {}
        self.inputs: list[InputFacts] = []
        """How the opened inputs with rows were read."""
        self._reader: FrameReader | None = None
        """The reader of the current input, unless it has rows."""
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
        self._erase_progress()
        self._warnings.__exit__()
        if self._file is not None:
            self._file.close()
        if isinstance(error, SowError):
            self._explain_error(error)

    def prepare(self, instance: Instance, topic: str | None, message_type: str | None) -> None:
        """Determine, before reading, the framing, unless one is given, and the kind of the message type."""
        self.framing = self.framing or find_framing(instance, topic, message_type)
        self.kind = find_kind(instance, topic, message_type) if self.framing != "envelope" else None

    def open_sources(
        self,
        instance: Instance,
        topic: str | None,
        message_type: str | None,
        names: Sequence[str],
        options: InputOptions,
        row_names: frozenset[str],
        partitions: Mapping[str, PartitionValues],
    ) -> Iterator[tuple[str, MessageSource]]:
        """The inputs, opened in turn; ``row_names`` are those with rows, ``partitions`` the columns of their paths.

        Raises UsageError and OSError immediately for unreadable inputs.
        """
        for name in row_names:
            # If there are several, the last one is checked before the first ones are published.
            choose_format(name, options.format)
        refuse_unreadable(names)
        if options.delimited.types and len(row_names) > 1:
            options = _share_types([name for name in names if name in row_names], options)
        self._names, self._row_names, self._partitions = names, row_names, partitions
        # Offsets in a compressed file are those of its content, whose size is unknown; for rows they are row numbers.
        if len(names) == 1 and not row_names and Path(names[0]).is_file() and not is_compressed(names[0]):
            self._size = Path(names[0]).stat().st_size
        return self._iterate_sources(instance, topic, message_type, options)

    def _iterate_sources(
        self, instance: Instance, topic: str | None, message_type: str | None, options: InputOptions
    ) -> Iterator[tuple[str, MessageSource]]:
        for name in self._names:
            if name in self._row_names:
                assert topic is not None
                self._reader = None
                yield from self._open_rows(instance, topic, message_type, name, options)
            else:
                if partitions := self._partitions.get(name):
                    self._note_partitions(partitions, self.framing or "lines")
                for label, reader in open_frame_readers(
                    self.invocation, [name], self.framing or "lines", self.kind, self._form
                ):
                    self._reader = reader
                    yield label, reader

    def _open_rows(
        self, instance: Instance, topic: str, message_type: str | None, name: str, options: InputOptions
    ) -> Iterator[tuple[str, MessageSource]]:
        from sowctl.arrow.inputs.row_inputs import open_row_input
        from sowctl.engine.writing.row_target import build_row_target

        target = build_row_target(instance, topic, message_type)
        label, stream = next(open_inputs(self.invocation, ["-"])) if name == "-" else (name, None)
        partitions = self._partitions.get(name)
        with open_row_input(name, target, options, stream=stream, label=label, partitions=partitions) as found:
            if partitions and found.facts.format not in PARTITIONED_FORMATS:
                self._note_partitions(partitions, found.facts.format)
            self.inputs.append(found.facts)
            if isinstance(found.source, FrameReader):
                self._reader = found.source
            yield found.name, found.source

    def _note_partitions(self, partitions: PartitionValues, format: str) -> None:
        """Note that messages of a format do not get the columns of their directories."""
        words = f"partition columns are not added to {format} messages: {', '.join(partitions)}"
        self.invocation.note_once(words)

    def _counts_rows(self, name: str) -> bool:
        """True if the positions in an input are numbers of rows or lines, without offsets."""
        return any(one.name == name and one.format not in ("json", "ndjson") for one in self.inputs)

    def watch_instance(self, instance: Instance) -> Instance:
        """The instance of a dry run or a replacement, which acknowledge nothing while they read: it reports the
        progress of reading."""
        mode, shown = self.invocation.settings.progress, self.invocation.shows_progress()
        if not (self._options.dry_run or self._options.replace_all) or not (shown or mode == "json"):
            return instance
        self.invocation.meter = meter = ProgressMeter(self.invocation.streams, "publish", mode, shown=shown)

        def tell(what: str, done: int, total: int) -> None:
            # For rows the position is the number of the next row.
            if what == "bytes":
                meter.show_progress("rows" if self._row_names else "bytes", done, 0 if self._row_names else self._size)
            else:
                meter.show_progress(what, done, total)

        return replace(instance, watch=tell)

    def build_load(
        self, topic: str, sources: Iterable[tuple[str, MessageSource]], message_type: str | None
    ) -> Callable[[Instance, PublishOptions], PublishReport]:
        """Build the function that publishes the inputs when the replacement calls it, and reports the progress of
        reading."""
        from sowctl.engine.verbs.publish import publish_messages

        def load(instance: Instance, options: PublishOptions) -> PublishReport:
            return publish_messages(
                instance,
                topic,
                sources,
                options,
                message_type=message_type,
                on_acknowledged=lambda batch: instance.watch("bytes", batch.end_offset, 0),
                on_reject=self.note_rejected,
            )

        return load

    def note_acknowledged(self, batch: AcknowledgedBatch) -> None:
        """Count a durable batch; with --tee write its messages."""
        self.published += len(batch.payloads)
        words = "message is" if self.published == 1 else "messages are"
        promise = "durable" if batch.durable else "published, not saved anywhere"
        self.invocation.durable = f"{self.published:,} {words} {promise}, up to txid {batch.last_txid}"
        if self.tee:
            # An envelope may be a deletion, whose entry has no message.
            told = batch.payloads if self.framing != "envelope" else [one for one in batch.payloads if one]
            self.invocation.streams.stdout.write(frame_messages(told, self.framing or "lines"))
            self.invocation.streams.stdout.flush()
        if self.invocation.settings.progress == "json":
            row = {"published": self.published, "last_txid": batch.last_txid, "offset": batch.end_offset}
            self.invocation.streams.write_stderr_json(row)
        elif self.invocation.shows_progress():
            self._draw_progress(batch.end_offset)

    def note_replaced(self, report: PublishReport) -> None:
        """Note that all changes of a replacement are durable, for the report of a run that ends early."""
        self.published = report.published
        verb = "is" if self.published == 1 else "are"
        words = f"{format_count(self.published, 'change')} {verb} durable, up to txid {report.last_txid}"
        self.invocation.durable = words
        self.invocation.resume = "the complete input was published"

    def note_rejected(self, refused: Rejected) -> None:
        """Count a rejected message; write it to the rejects file, else print a warning."""
        self.rejects += 1
        self._last = refused
        if self._file is not None:
            # A row of a table has only a line number.
            self._file.write(format_reject_line(refused, offset=not self._counts_rows(refused.source)))
            # Flushed one by one, so that the file is complete wherever the run ends.
            self._file.flush()
        elif self._options.on_error == "skip":
            hint = suggest_conversion(refused, self.kind, self.invocation.command, self._form_name)
            self._warnings.warn(refused, hint)

    def warn_replaced(self, kinds: Iterable[MessageType]) -> None:
        """Warn about types that cannot be merged, so that their deltas replaced records."""
        for name in sorted(kind.name for kind in kinds if not kind.mergeable):
            self.invocation.warn(f"{name} messages cannot be merged: each delta replaced its record")

    def warn_exceptions(self) -> None:
        """Warn about columns in which some cells are text although another type was detected."""
        for facts in self.inputs:
            for column in facts.columns:
                if column.exceptions:
                    cells = format_count(column.exceptions, "value")
                    self.invocation.warn(
                        f"{facts.name}: column {column.name} was detected as {column.type} from the beginning of the "
                        f"input; {cells} of another type, the first in line {column.first_exception}, became text; "
                        f"--type {column.name}=text makes all of them text"
                    )

    def print_report(self, report: PublishReport, summary: str | None) -> None:
        """Print the report; for a dry run that would replace all records, after the first changes."""
        if summary != "json" and report.first_changes:
            marks = {"inserted": "+", "updated": "~", "deleted": "-"}
            more = report.published - len(report.first_changes)
            lines = [f"{marks[one.change]} {escape_line(one.key)}" for one in report.first_changes]
            self.invocation.note(*lines, *([f"  {more:,} more"] if more else []))
        show_report(self.invocation, report, summary)

    def note_resume(self, rest: InputRest) -> None:
        """Set the words about how to resume, unless everything must be repeated.

        The rest begins with a message that was not published. Unread files follow it: the rest reaches them through a
        pipe instead of its file.
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
        later = ", then " + " ".join(names[1 : _MAX_NAMES + 1]) if names[1:] else ""
        if len(names) > _MAX_NAMES + 1:
            later += f" and {len(names) - _MAX_NAMES - 1:,} more files"
        facts = next((one for one in self.inputs if one.name in (names[0], self._names[rest.input])), None)
        if facts is not None and rest.offset:
            what = "line" if facts.format in ("csv", "tsv", "json", "ndjson") else "row"
            words = f"the rest begins at {what} {rest.line} of {names[0]}{later}"
        elif not rest.offset:
            words = f"the rest begins with {names[0]}{later}"
        else:
            by_lines = self._reader is not None and self._reader.by_lines
            is_array = self.framing in ("json", "envelope") and not by_lines
            words = f"the rest begins at {f'line {rest.line}' if by_lines else f'byte {rest.offset}'}"
            # The rest of an array is not an array.
            if (
                is_array
                or names[0] == STDIN_NAME
                or not Path(self._names[rest.input]).is_file()
                or is_compressed(names[0])
            ):
                # tail(1) cannot read input from a pipe again, or compressed input
                words += f" of {names[0]}{later}"
            else:
                # tail(1) counts lines and bytes from 1.
                tail = f"tail -n +{rest.line}" if by_lines else f"tail -c +{rest.offset + 1}"
                words += f": {tail} {'-- ' if names[0].startswith('-') else ''}{names[0]}{later}"
        if self._options.sequence is not None:
            words += f"; with --sequence {self._options.sequence + rest.messages}"
        self.invocation.resume = words

    def _is_end(self, rest: InputRest) -> bool:
        """True if a position is the end of its file."""
        path = Path(self._names[rest.input])
        return (
            not self._row_names
            and path.is_file()
            and not is_compressed(str(path))
            and rest.offset >= path.stat().st_size
        )

    def _explain_error(self, error: SowError) -> None:
        """Add the published part to an error, and the line that it is about."""
        error.facts.pop("report", None)
        error.facts.setdefault("published", self.published)
        if self._last is not None:
            explain_refusal(error, [self._last], self.kind, self.invocation.command, self._form_name)
        name = error.facts.get("topic")
        if error.code == "SOW-ENG-012" and isinstance(name, str) and Path(name).exists():
            error.hint = _build_file_hint(name)

    def _draw_progress(self, place: int) -> None:
        now = time.monotonic()
        if now - self._drawn < _DRAW_INTERVAL_SECONDS:
            return
        self._drawn, self._line = now, True
        # Warnings and the plans of --verbose replace the line; they are not appended to it.
        self.invocation.streams.under = self._erase_progress
        rate = self.published / (now - self._started)
        # A growing file may be longer by now.
        known = 0 < place <= self._size
        left = format_duration((now - self._started) * (self._size - place) / place, whole=True) if known else ""
        rest = f", {100 * place // self._size} % of the file, {left} left" if known else ""
        self.invocation.streams.draw_line(f"{self.published:,} published, {format_rate(rate)}{rest} ")

    def _erase_progress(self) -> None:
        """Erase the line before other output; it may be drawn again."""
        if self._line:
            self._line = False
            self.invocation.streams.draw_line("")
