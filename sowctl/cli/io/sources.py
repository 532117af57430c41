"""Input given on the command line: files, and ``-`` for standard input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from sowctl.cli.context import Invocation
from sowctl.cli.streams import ClosedInput, is_terminal
from sowctl.errors import InputError, SowError
from sowctl.messages.framing.chunks import RETURNS_ALONE_CODE
from sowctl.messages.framing.frames import FrameReader
from sowctl.messages.framing.input_files import COMPRESSION_TOOLS, find_descriptor, open_file, open_input
from sowctl.messages.types import UNCONSTRUCTIBLE_TYPES, choose_framing

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.reports import Rejected
    from sowctl.messages.framing.envelope import EnvelopeFormat

STDIN_NAME = "(standard input)"


def open_inputs(invocation: Invocation, names: Sequence[str]) -> Iterator[tuple[str, BinaryIO]]:
    """Name and stream of each input in turn, one open at a time. Raises MissingError, and OSError as opening does."""
    for name in names:
        if name == "-":
            if is_terminal(invocation.streams.stdin):
                invocation.note("reading messages from the terminal; end with Ctrl-D")
            if isinstance(invocation.streams.stdin, ClosedInput):
                invocation.note("standard input is closed: no messages were read")
            yield STDIN_NAME, invocation.streams.stdin
        else:
            with open_input(name) as stream:
                yield name, stream


def open_frame_readers(
    invocation: Invocation, names: Sequence[str], framing: str, kind: str | None, form: EnvelopeFormat | None = None
) -> Iterator[tuple[str, FrameReader]]:
    """Name and reader of each input in turn. A real file is read by its descriptor, which can be waited for.

    ``kind`` is that of the messages' type, None if unknown; ``form`` that of envelopes.
    """
    for name, stream in open_inputs(invocation, names):
        yield name, FrameReader(find_descriptor(stream), framing, name=name, kind=kind, form=form)


def read_messages(invocation: Invocation, name: str, framing: str, kind: str | None) -> tuple[bytes, ...]:
    """All messages of one input. Raises InputError as the framing does, and for a frame that it rejects."""
    found: list[bytes] = []
    for _, reader in open_frame_readers(invocation, [name], framing, kind):
        for chunk in reader:
            for frame in chunk.refused:
                raise InputError(frame.code, frame.message, place=f"{name}:{frame.line}", byte=frame.offset)
            found += chunk.payloads
    return tuple(found)


def refuse_unreadable(names: Sequence[str]) -> None:
    """Open each input once: if there are several, a missing last one is found before the first ones are published.

    Raises as :func:`open_inputs`. A pipe is not opened, because its writer would see the close as the end.
    """
    for name in names:
        if name != "-" and not Path(name).is_fifo():
            with open_file(name):
                pass


def find_kind(instance: Instance, topic: str | None, message_type: str | None) -> str | None:
    """The kind of the message type of a topic for publishing; None if it is unknown yet."""
    from sowctl.engine.topics.targets import find_publish_topic

    if topic is None:
        return None
    try:
        return instance.find_message_type(find_publish_topic(instance, topic, message_type).message_type).kind
    except SowError:
        # Publishing reports errors about the topic, after those about the options.
        return None


def find_framing(instance: Instance, topic: str | None, message_type: str | None) -> str:
    """Return the default framing of a topic's messages: that of its type; lines if the topic is unknown yet."""
    kind = find_kind(instance, topic, message_type)
    return choose_framing(kind) if kind is not None else "lines"


def explain_refusal(
    error: SowError, rejected: Sequence[Rejected], kind: str | None, command: str, form: str | None = None
) -> None:
    """Add to ``error`` the line of the rejected message that it is about, the last of ``rejected``, and a hint if the
    input is not messages of ``kind``; ``command`` is the reading command, such as publish, and ``form`` that of the
    envelopes."""
    from sowctl.output.display import format_excerpt

    if not rejected or error.place != rejected[-1].place:
        return
    refused = rejected[-1]
    if refused.payload and b"\n" not in refused.payload:
        error.excerpt = error.excerpt or format_excerpt(refused.payload, refused.column)
    error.hint = suggest_conversion(refused, kind, command, form) or error.hint


# The first bytes of such files, their names, and the format that reads them.
_FILE_MAGICS = (
    (b"PAR1", "Parquet", "parquet"),
    (b"ARROW1", "Arrow", "arrow"),
    (b"SQLite format 3\0", "SQLite", "sqlite"),
    (b"ORC", "ORC", None),
)
_BOM_BYTES = 3
_LINE_FEED_TOOL = r"tr '\r' '\n'"
"""Converts carriage returns to line feeds."""


def suggest_conversion(refused: Rejected, kind: str | None, command: str, form: str | None = None) -> str | None:
    """A hint if the first message of an input was rejected because the input is compressed, or is a file of another
    kind; None if it does not look so. ``kind`` is that of the message type, None for envelopes of ``form``."""
    data = refused.payload
    # Rows were read in their own format; and only the first message, possibly after a byte order mark, shows the kind
    # of the file.
    if not data or refused.offset > _BOM_BYTES or refused.code == "SOW-EXC-011":
        return None
    for magic, name, tool in COMPRESSION_TOOLS:
        if data.startswith(magic):
            return f"this looks like {name}: {_format_pipeline(refused, tool, command)}"
    for magic, name, chosen in _FILE_MAGICS:
        if data.startswith(magic):
            if chosen is None:
                return f"this looks like {name}; read it with sowctl pipeline load"
            return f"this looks like {name}: sowctl publish TOPIC --format {chosen}"
    if refused.code == RETURNS_ALONE_CODE or (kind in ("json", "xml", None) and b"\r" in data.strip()):
        return f"if lines end in carriage returns: {_format_pipeline(refused, _LINE_FEED_TOOL, command, '< ')}"
    text = data.lstrip()
    if kind not in ("json", None):
        if text[:1] not in (b"{", b"[") or kind in UNCONSTRUCTIBLE_TYPES:
            return None
        return f"this looks like JSON: sowctl publish TOPIC --format {'json' if text[:1] == b'[' else 'ndjson'}"
    import shlex

    if refused.code in _ENVELOPE_REFUSALS and is_change(text):
        return "these look like changes, as export --changes writes them; export the records, without --changes"
    if refused.code in _ENVELOPE_REFUSALS and (guess := guess_form(text)) not in (None, form):
        source = "" if refused.source == STDIN_NAME else f" < {shlex.quote(refused.source)}"
        return f"{_FORM_WORDS[guess]}: sowctl {command} {FORM_OPTIONS[guess]}{source}"
    if refused.code == "SOW-INP-011":
        return "--ignore-unknown-members ignores such members"
    if b"," in text and text[:1] not in b'{"':
        return "if this is CSV, sowctl publish --format csv converts each row to a message"
    return None


_ENVELOPE_REFUSALS = ("SOW-PUB-002", "SOW-PUB-003", "SOW-INP-011", "SOW-INP-014")
"""Codes of lines that may be envelopes of another form."""
_FORM_WORDS = {
    "sowctl": "these look like envelopes, as printed by --meta",
    "kafka": "these look like records of Kafka",
    "debezium": "these look like change events of Debezium",
}
FORM_OPTIONS = {"sowctl": "--framing envelope", "kafka": "--envelope kafka", "debezium": "--envelope debezium"}
"""The options that read envelopes of a form."""
_MAX_FIRST_LINE_BYTES = 1 << 20


def guess_file_form(name: str) -> str | None:
    """The form of the envelopes in a file of only envelopes, as lines or as the elements of an array; None for other
    files, and for standard input."""
    try:
        if name == "-" or not Path(name).is_file():
            return None
        with open_input(name) as stream:
            first = stream.readline(_MAX_FIRST_LINE_BYTES)
            if first.strip() == b"[":
                first = stream.readline(_MAX_FIRST_LINE_BYTES)
    except (OSError, SowError):
        return None
    return guess_form(first.strip().removeprefix(b"[").removesuffix(b"]").removesuffix(b","))


def is_change(text: bytes) -> bool:
    """Return whether a line is an envelope of a change feed."""
    from sowctl.messages.framing.foreign_envelope import has_change_type

    return has_change_type(text)


def guess_form(text: bytes) -> str | None:
    """The form of envelopes of a line, as far as its members show; None for other lines."""
    from sowctl.messages.framing.foreign_envelope import guess_envelope_form

    return guess_envelope_form(text)


def _format_pipeline(refused: Rejected, tool: str, command: str, operator: str = "") -> str:
    """A command line that pipes the input through a tool, whose file name follows ``operator``."""
    from shlex import quote

    if refused.source == STDIN_NAME:
        return f"... | {tool} | sowctl {command} ..."
    return f"{tool} {operator}{quote(refused.source)} | sowctl {command} ..."
