"""Input named on the command line: files, and ``-`` for standard input."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from errno import EIO
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from sowctl.cli.context import Invocation
from sowctl.cli.streams import ClosedInput, is_terminal
from sowctl.errors import InputError, MissingError, SowError
from sowctl.messages.framing.chunks import RETURNS_ALONE_CODE
from sowctl.messages.framing.frames import FrameReader
from sowctl.messages.types import choose_framing

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.reports import Rejected

STDIN_NAME = "(standard input)"
_GZIP_MAGIC, _ZSTANDARD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_SKIPPABLE_MAGIC = b"\x50\x2a\x4d\x18"
"""How a frame of Zstandard begins that readers skip; the first byte goes up to 0x5f."""
_GZIP_WINDOW_BITS = 31
"""zlib's number for the largest window and the headers of gzip."""
_READ_BYTES = 16 << 10


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


def _open_file(name: str) -> BinaryIO:
    """A file that was named as an input. Raises MissingError ``SOW-CLI-062`` where there is none, else OSError."""
    try:
        return Path(name).open("rb")
    except FileNotFoundError:
        hint = "give the path of a file, or - for standard input"
        raise MissingError("SOW-CLI-062", "the file does not exist", place=name, hint=hint) from None


@contextmanager
def open_input(name: str) -> Iterator[BinaryIO]:
    """A file that was named as an input; what is packed with gzip or Zstandard is unpacked. Raises as opening does."""
    with closing(_open_file(name)) as stream:
        unpacked = None if Path(name).is_fifo() else open_decompressed(stream)
        yield stream if unpacked is None else unpacked


def is_compressed(name: str) -> bool:
    """True where :func:`open_input` decompresses a file."""
    try:
        with open_input(name) as stream:
            return isinstance(getattr(stream, "raw", None), DecompressedInput)
    except (OSError, SowError):
        return False


def open_decompressed(stream: BinaryIO) -> BinaryIO | None:
    """Return the decompressed content of a file; None for others, which are read from the beginning as before."""
    try:
        # Without moving: who reads the descriptor itself would go on from where this ends.
        begin = os.pread(stream.fileno(), 4, 0)
    except OSError:
        return None
    if begin.startswith(_GZIP_MAGIC):
        from isal import isal_zlib

        parts = _decompress_members(stream, "gzip", _GZIP_MAGIC, lambda: isal_zlib.decompressobj(_GZIP_WINDOW_BITS))
        damage: Any = isal_zlib.error
        failures: tuple[type[Exception], ...] = (OSError, damage)
    elif begin == _ZSTANDARD_MAGIC or (len(begin) == 4 and _is_skippable_frame("Zstandard", begin)):
        import zstandard

        parts = _decompress_members(
            stream, "Zstandard", _ZSTANDARD_MAGIC, lambda: zstandard.ZstdDecompressor().decompressobj()
        )
        failures = (OSError, zstandard.ZstdError)
    else:
        return None
    return cast("BinaryIO", BufferedReader(DecompressedInput(lambda _: next(parts, b""), failures), 1 << 20))


def _decompress_members(stream: BinaryIO, name: str, magic: bytes, make: Callable[[], Any]) -> Iterator[bytes]:
    """Yield the content of a file's members, each of which begins with ``magic``; zeros behind the last are padding.
    Raises OSError where the file ends within a member, and where other bytes stand behind one."""
    member: Any = None
    place = 0
    # So little at a time, because what comes out of it may be thousands of times as much.
    while data := stream.read(_READ_BYTES):
        place += len(data)
        while data:
            if member is None:
                # Enough to see what begins here; at the end of the file there may be less.
                while len(data) < len(_SKIPPABLE_MAGIC) and (more := stream.read(_READ_BYTES)):
                    place += len(more)
                    data += more
                if not (data.startswith(magic) or _is_skippable_frame(name, data)):
                    padding = data.strip(b"\0")
                    while not padding and (data := stream.read(_READ_BYTES)):
                        place += len(data)
                        padding = data.strip(b"\0")
                    if padding:
                        at = place - len(data.lstrip(b"\0"))
                        raise OSError(EIO, f"unexpected bytes at {at}, after the end of the {name} data")
                    return
                member = make()
            if part := member.decompress(data):
                yield part
            data = member.unused_data if member.eof else b""
            member = None if member.eof else member
    if member is not None:
        raise OSError(EIO, f"the {name} data are truncated")


def _is_skippable_frame(name: str, data: bytes) -> bool:
    """True where a frame of Zstandard begins here that holds nothing for readers."""
    return name == "Zstandard" and data[1:4] == _SKIPPABLE_MAGIC[1:] and data[0] & 0xF0 == _SKIPPABLE_MAGIC[0]


class DecompressedInput(RawIOBase):
    """The decompressed content of a file. It has no descriptor: nothing may be read beside it. Damage, which is one of
    the library's own ``failures``, is an OSError."""

    def __init__(self, read: Callable[[int], bytes], failures: tuple[type[Exception], ...]) -> None:
        self._next = read
        self._failures = failures
        self._rest = b""

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next bytes."""
        try:
            data = self._rest or self._next(len(buffer))
        except self._failures as problem:
            known = isinstance(problem, OSError) and problem.strerror
            raise OSError(EIO, known or f"the compressed data are damaged: {problem}") from None
        taken, self._rest = data[: len(buffer)], data[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)


def open_frame_readers(
    invocation: Invocation, names: Sequence[str], framing: str, kind: str | None
) -> Iterator[tuple[str, FrameReader]]:
    """Name and reader of each input in turn. A real file is read by its descriptor, which can be waited for.

    ``kind`` is that of the messages' type, None where it is not known.
    """
    for name, stream in open_inputs(invocation, names):
        yield name, FrameReader(_find_descriptor(stream), framing, name=name, kind=kind)


def read_messages(invocation: Invocation, name: str, framing: str, kind: str | None) -> tuple[bytes, ...]:
    """All messages of one input. Raises InputError as the framing does, and for a frame that it refuses."""
    found: list[bytes] = []
    for _, reader in open_frame_readers(invocation, [name], framing, kind):
        for chunk in reader:
            for frame in chunk.refused:
                raise InputError(frame.code, frame.message, place=f"{name}:{frame.line}", byte=frame.offset)
            found += chunk.payloads
    return tuple(found)


def refuse_unreadable(names: Sequence[str]) -> None:
    """Open each input once: of several, the last is not missed when the first are published already.

    Raises as :func:`open_inputs`. A pipe is not opened, for its writer would take our leaving for the end.
    """
    for name in names:
        if name != "-" and not Path(name).is_fifo():
            with _open_file(name):
                pass


def find_kind(instance: Instance, topic: str | None, message_type: str | None) -> str | None:
    """The kind of the message type of a topic that is published to; None where that cannot be told yet."""
    from sowctl.engine.topics.targets import find_publish_topic

    if topic is None:
        return None
    try:
        return instance.find_message_type(find_publish_topic(instance, topic, message_type).message_type).kind
    except SowError:
        # The publishing says what is wrong with the topic, after what is wrong with the options.
        return None


def find_framing(instance: Instance, topic: str | None, message_type: str | None) -> str:
    """Return the framing of a topic's messages without an option: its type's; lines where there is none yet."""
    kind = find_kind(instance, topic, message_type)
    return choose_framing(kind) if kind is not None else "lines"


def explain_refusal(error: SowError, rejected: Sequence[Rejected], kind: str | None, command: str) -> None:
    """Show in ``error`` the line of the refused message that it is about, the last of ``rejected``, and say what to do
    where the input is something else than messages of ``kind``; ``command`` is what reads them, such as publish."""
    from sowctl.output.display import format_excerpt

    if not rejected or error.place != rejected[-1].place:
        return
    refused = rejected[-1]
    if refused.payload and b"\n" not in refused.payload:
        error.excerpt = error.excerpt or format_excerpt(refused.payload, refused.column)
    error.hint = suggest_conversion(refused, kind, command) or error.hint


# The first bytes of such files, what they are called, and what unpacks them.
_COMPRESSION_TOOLS = (
    (_GZIP_MAGIC, "gzip", "zcat"),
    (_ZSTANDARD_MAGIC, "Zstandard", "zstdcat"),
    (b"BZh", "bzip2", "bzcat"),
    (b"\xfd7zXZ", "xz", "xzcat"),
)
_FILE_MAGICS = ((b"PAR1", "Parquet"), (b"ORC", "ORC"))
_BOM_BYTES = 3
_LINE_FEED_TOOL = r"tr '\r' '\n'"
"""What makes line feeds of carriage returns."""


def suggest_conversion(refused: Rejected, kind: str | None, command: str) -> str | None:
    """The next step where the first message of an input was refused because the input is packed, or is a file of
    another kind; None where it does not look so. ``kind`` is that of the message type, None for envelopes."""
    data = refused.payload
    # Rows were read as what they are; and only the first message shows what kind of file it is, behind a byte order
    # mark perhaps.
    if not data or refused.offset > _BOM_BYTES or refused.code == "SOW-EXC-011":
        return None
    for magic, name, tool in _COMPRESSION_TOOLS:
        if data.startswith(magic):
            return f"this looks like {name}: {_format_pipeline(refused, tool, command)}"
    for magic, name in _FILE_MAGICS:
        if data.startswith(magic):
            parquet = name == "Parquet" and refused.source != STDIN_NAME
            return f"this looks like {name}; read it with {('publish --from' if parquet else 'sowctl pipeline load')}"
    if refused.code == RETURNS_ALONE_CODE or (kind in ("json", "xml", None) and b"\r" in data.strip()):
        return f"if lines end in carriage returns: {_format_pipeline(refused, _LINE_FEED_TOOL, command, '< ')}"
    if kind not in ("json", None):
        return None
    text = data.lstrip()
    if text.startswith(b"["):
        array = _format_pipeline(refused, "jq -c '.[]'", command)
        return f"if this is a JSON array of messages: {array}"
    if text.startswith(b"{") and refused.column is not None and refused.column > len(data.decode(errors="replace")):
        return f"if a message spans several lines: {_format_pipeline(refused, 'jq -c .', command)}"
    import shlex

    if refused.code == "SOW-PUB-002" and is_envelope(text):
        source = "" if refused.source == STDIN_NAME else f" < {shlex.quote(refused.source)}"
        return f"these look like envelopes, as printed by --meta: sowctl {command} --framing envelope{source}"
    if b"," in text and text[:1] not in b'{"':
        if refused.source == STDIN_NAME:
            return "if this is CSV, write it to a file: publish --from FILE.csv makes a message of each row"
        return "if this is CSV, read it with sowctl publish --from, which converts each row to a message"
    return None


def is_envelope(text: bytes) -> bool:
    """True where a JSON object has the members of an envelope: topic, data, and another one of those in all of them."""
    import json

    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    members = found.keys() if isinstance(found, dict) else set()
    return {"topic", "data"} <= members and not members.isdisjoint({"sow_key", "command", "operation", "message_type"})


def _format_pipeline(refused: Rejected, tool: str, command: str, operator: str = "") -> str:
    """The input on its way through a tool, which takes the name of a file behind ``operator``."""
    from shlex import quote

    if refused.source == STDIN_NAME:
        return f"... | {tool} | sowctl {command} ..."
    return f"{tool} {operator}{quote(refused.source)} | sowctl {command} ..."


def _find_descriptor(stream: BinaryIO) -> int | BinaryIO:
    try:
        return stream.fileno()
    except OSError:
        return stream
