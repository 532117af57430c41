"""The cutters of :mod:`~sowctl.messages.framing.frames`, one per framing: from pieces of bytes to complete messages.

Every cutter keeps at most one incomplete message, as the pieces in which it arrived, so that a long message costs one
join and not one copy per piece.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from sowctl.errors import InputError, LimitError, SowError
from sowctl.messages.framing.chunks import (
    FRAME_TOO_LONG_CODE,
    RETURNS_ALONE_CODE,
    TOO_LONG_CODE,
    TRUNCATED_CODE,
    Chunk,
    Cutter,
    Places,
    RefusedFrame,
)
from sowctl.messages.framing.encodings import UTF8_BOM
from sowctl.values.display import format_count

if TYPE_CHECKING:
    from sowctl.messages.framing.envelope import Envelope, EnvelopeFormat

BYTE_ORDER_MARK = UTF8_BOM
RETURNS_WORDS = "the input has carriage returns but no line feed, so it would be one message"
_BLANK_PATTERN = re.compile(rb"[ \t]*+")
_XML_ENCODING = re.compile(rb"""<\?xml[^>]*?\bencoding\s*=\s*["']([^"']*)["']""")
_LENGTH_PREFIX_BYTES = 4
_LINE_SLACK_BYTES = len(BYTE_ORDER_MARK) + 1
"""Additional bytes of an incomplete piece beyond the longest message: a BOM before it and a CR after it."""


class SeparatedCutter:
    """Messages that end with one separating byte. Subclasses decide which pieces between separators are messages."""

    separator = b"\n"
    by_lines = False

    def __init__(self, max_message: int, start: int = 0, number: int = 1) -> None:
        """``start``: the offset in the input at which feeding begins; ``number``: that of the first message."""
        self.error: SowError | None = None
        self.max_message = max_message
        self._parts: list[bytes] = []
        self._held = 0
        self._start = start
        self._number = number
        self._skipping: RefusedFrame | None = None

    def feed(self, data: bytes) -> Chunk | None:
        """See :class:`~sowctl.messages.framing.chunks.Cutter`."""
        if self._skipping is not None:
            return self._skip_long_message(data)
        # Everything up to the last separator is complete; the rest waits for more data.
        cut = data.rfind(self.separator) + 1
        # End of input: the held bytes are the last message, which needs no separator.
        if not data:
            block = b"".join(self._parts)
            self._hold_incomplete(b"")
        elif not cut:
            self._parts.append(data)
            self._held += len(data)
            # A message that never ends must not exhaust the memory: it is refused now and skipped.
            if self._held > self.max_message + _LINE_SLACK_BYTES:
                self._refuse_long_message()
            return None
        else:
            block = b"".join((*self._parts, data[:cut]))
            self._hold_incomplete(data[cut:])
        return self._cut_chunk(block) if block else None

    def _hold_incomplete(self, rest: bytes) -> None:
        self._parts = [rest] if rest else []
        self._held = len(rest)

    def _refuse_long_message(self) -> None:
        words = f"the message has more than {self.max_message:,} bytes"
        if self.separator == b"\n" and b"\r" in self._parts[0]:
            words += "; its lines end in carriage returns, which do not separate messages"
        # The refusal is returned at the end of the message, because its chunk states where the message ends.
        self._skipping = RefusedFrame(self._number, self._start, TOO_LONG_CODE, words)
        self._start += self._held
        self._hold_incomplete(b"")

    def _skip_long_message(self, data: bytes) -> Chunk | None:
        """Drop ``data`` up to the end of a message that is too long, then continue normally."""
        cut = data.find(self.separator) + 1
        # Still inside the skipped message: none of it is kept.
        if data and not cut:
            self._start += len(data)
            return None
        # The separator, or the end of the input, ends the message.
        refused, self._skipping = self._skipping, None
        assert refused is not None
        self._start += cut
        self._number += 1
        chunk = Chunk([], lambda: ([], []), self._start, [refused])
        # The refusal is returned with the following chunk, before that chunk's own refusals.
        rest = self.feed(data[cut:]) if len(data) > cut else None
        if rest is None:
            return chunk
        rest.refused.insert(0, refused)
        return rest

    def _cut_chunk(self, block: bytes) -> Chunk:
        start, number = self._start, self._number
        ended = block.endswith(self.separator)
        self._start += len(block)
        pieces = self.split_pieces(block, start)
        # split() returns an empty piece after the last separator, which is no message.
        if ended:
            pieces.pop()
        # Blank lines count as lines: the numbers are those of an editor.
        self._number += len(pieces)
        payloads, places, blank = self.select_messages(block, pieces, start, number)
        refused: list[RefusedFrame] = []
        # A block not longer than the limit contains no longer message: most chunks need no check per message.
        if len(block) > self.max_message and payloads and max(map(len, payloads)) > self.max_message:
            payloads, places, refused = self._drop_long_messages(payloads, *places())
        return Chunk(payloads, places, self._start, refused, blank, begins=(number, start))

    def split_pieces(self, block: bytes, start: int) -> list[bytes]:
        """Split ``block`` at its separators."""
        return block.split(self.separator)

    def select_messages(
        self, block: bytes, pieces: list[bytes], start: int, number: int
    ) -> tuple[list[bytes], Callable[[], Places], int]:
        """The payloads, their places, and the number of blank pieces."""
        return pieces, lambda: number_places(number, compute_offsets(start, pieces)), 0

    def _drop_long_messages(
        self, payloads: list[bytes], lines: Sequence[int], starts: Sequence[int]
    ) -> tuple[list[bytes], Callable[[], Places], list[RefusedFrame]]:
        words = f"the message has more than {self.max_message:,} bytes"
        refused = []
        kept = []
        for index, payload in enumerate(payloads):
            if len(payload) > self.max_message:
                refused.append(RefusedFrame(lines[index], starts[index], TOO_LONG_CODE, words))
            else:
                kept.append(index)
        places = [lines[index] for index in kept], [starts[index] for index in kept]
        return [payloads[index] for index in kept], lambda: places, refused


class NulCutter(SeparatedCutter):
    """Messages that end with a zero byte, unchanged."""

    separator = b"\0"


class LineCutter(SeparatedCutter):
    """Lines: LF or CRLF, an optional BOM at the beginning, blank lines skipped.

    ``refuses_returns``: refuse an input of one line with carriage returns inside. Its message type would read them, and
    everything after the first, as a value.
    """

    by_lines = True

    def __init__(self, max_message: int, start: int = 0, number: int = 1, *, refuses_returns: bool = False) -> None:
        super().__init__(max_message, start, number)
        self._refuses_returns = refuses_returns

    def feed(self, data: bytes) -> Chunk | None:
        """See :class:`~sowctl.messages.framing.chunks.Cutter`."""
        chunk = super().feed(data)
        if data or chunk is None or not self._refuses_returns or chunk.begins != (1, 0):
            return chunk
        # The input has ended without a line feed.
        if not (chunk.payloads and b"\r" in chunk.payloads[0].strip(b" \t\r")):
            return chunk
        refused = RefusedFrame(1, chunk.find_offset(0), RETURNS_ALONE_CODE, RETURNS_WORDS, chunk.payloads[0])
        return Chunk([], lambda: ([], []), chunk.end, [refused])

    def split_pieces(self, block: bytes, start: int) -> list[bytes]:
        """The lines of ``block`` without their line breaks and without the BOM of the input."""
        # A BOM is only recognised at the start of the input; anywhere else these bytes are part of a message.
        if start == 0:
            block = block[measure_bom(block) :]
        pieces = block.split(b"\n")
        if b"\r" in block:
            # In a last line without LF, a CR is part of the message, because no line break has ended it.
            last = pieces.pop()
            pieces = [piece.removesuffix(b"\r") for piece in pieces]
            pieces.append(last)
        return pieces

    def select_messages(
        self, block: bytes, pieces: list[bytes], start: int, number: int
    ) -> tuple[list[bytes], Callable[[], Places], int]:
        """All lines, without blank ones."""
        # The smallest line begins with more than a space or a tab, so no line is blank. One comparison per line in C.
        if not pieces or min(pieces)[:1] > b" ":
            return pieces, lambda: number_places(number, compute_line_offsets(block, start, len(pieces))), 0
        # The smallest line may only begin like a blank one, so each is checked.
        kept = [index for index, piece in enumerate(pieces) if not _BLANK_PATTERN.fullmatch(piece)]
        count = len(pieces)

        def places() -> Places:
            starts = compute_line_offsets(block, start, count)
            return [number + index for index in kept], [starts[index] for index in kept]

        return [pieces[index] for index in kept], places, count - len(kept)


class LengthCutter:
    """Messages with a length prefix: 4 bytes, big-endian. ``converts_json``: publish can build such messages from
    JSON."""

    by_lines = False

    def __init__(self, max_message: int, *, converts_json: bool = False) -> None:
        self.error: SowError | None = None
        self.max_message = max_message
        self.converts_json = converts_json
        self._parts: list[bytes] = []
        self._held = 0
        self._wanted = _LENGTH_PREFIX_BYTES
        self._start = 0
        self._number = 1

    def feed(self, data: bytes) -> Chunk | None:
        """See :class:`~sowctl.messages.framing.chunks.Cutter`."""
        if not data:
            # Bytes of an unfinished frame remain, and there is no more input: it was truncated.
            if self._held:
                self.error = self._build_truncated_error()
            return None
        self._parts.append(data)
        self._held += len(data)
        # Parts are joined only when the next message is complete: a long one that arrives in small parts is copied
        # once.
        if self._held < self._wanted:
            return None
        buffer = b"".join(self._parts)
        payloads, used = self._cut_messages(buffer)
        start, number = self._start, self._number
        self._parts = [buffer[used:]] if used < len(buffer) else []
        self._held = len(buffer) - used
        self._start += used
        self._number += len(payloads)
        if not payloads:
            return None
        return Chunk(
            payloads, lambda: number_places(number, compute_offsets(start, payloads, _LENGTH_PREFIX_BYTES)), self._start
        )

    def _cut_messages(self, buffer: bytes) -> tuple[list[bytes], int]:
        payloads: list[bytes] = []
        position = 0
        while True:
            begin = position + _LENGTH_PREFIX_BYTES
            # The next length is not complete yet.
            if begin > len(buffer):
                self._wanted = _LENGTH_PREFIX_BYTES
                return payloads, position
            size = int.from_bytes(buffer[position:begin], "big")
            # After an implausible length the start of the next frame is unknown, so the input ends here.
            if size > self.max_message:
                self.error = self._build_length_error(size, self._start + position, buffer[position:begin])
                return payloads, position
            # The size of the next frame is known now, so nothing is joined before that much has arrived.
            if begin + size > len(buffer):
                self._wanted = _LENGTH_PREFIX_BYTES + size
                return payloads, position
            position = begin + size
            payloads.append(buffer[begin:position])

    def _build_truncated_error(self) -> InputError:
        have = b"".join(self._parts)
        if len(have) < _LENGTH_PREFIX_BYTES:
            words = f"the input ends after {len(have)} of the {_LENGTH_PREFIX_BYTES} bytes of a length"
        else:
            size = int.from_bytes(have[:_LENGTH_PREFIX_BYTES], "big")
            found = len(have) - _LENGTH_PREFIX_BYTES
            words = f"the input ends after {found:,} of the {format_count(size, 'byte')} of message {self._number:,}"
        return InputError(TRUNCATED_CODE, words, offset=self._start, number=self._number)

    def _build_length_error(self, size: int, offset: int, prefix: bytes) -> LimitError:
        hint = "the maximum size of a message is exceeded; if the input is framed differently, use --framing"
        # Four printable characters are a length of more than 500 MB, and nearly always text.
        if prefix.isascii() and prefix.decode().isprintable():
            hint = f"the input looks like text ({prefix.decode()!r}), not like lengths; try --framing lines"
            if self.converts_json and prefix[:1] in (b"{", b"["):
                form = "json" if prefix[:1] == b"[" else "ndjson"
                hint = f"the input looks like JSON ({prefix.decode()!r}): sowctl publish TOPIC --format {form}"
        words = f"a frame of {size:,} bytes, more than {self.max_message:,}"
        return LimitError(FRAME_TOO_LONG_CODE, words, hint=hint, offset=offset)


class EnvelopeCutter:
    """Opens envelopes, which are the messages of ``objects``."""

    def __init__(self, max_message: int, objects: Cutter, form: EnvelopeFormat | None = None) -> None:
        self.max_message = max_message
        self.form = form
        self._objects = objects

    @property
    def error(self) -> SowError | None:
        """The error that ends the input."""
        return self._objects.error

    @property
    def by_lines(self) -> bool:
        """True if each envelope is a line."""
        return self._objects.by_lines

    def feed(self, data: bytes) -> Chunk | None:
        """See :class:`~sowctl.messages.framing.chunks.Cutter`."""
        chunk = self._objects.feed(data)
        return None if chunk is None else _open_chunk(chunk, self.max_message, self.form)


def _choose_opener(form: EnvelopeFormat | None) -> Callable[[bytes], tuple[bytes, Envelope] | None]:
    """The function that opens lines of a form; by default of sowctl's own."""
    from sowctl.messages.framing.envelope import open_envelope  # msgspec loads for envelopes alone

    if form is None:
        return open_envelope
    if form.name == "sowctl":
        return lambda line: open_envelope(line, form)
    from sowctl.messages.framing.foreign_envelope import open_foreign_envelope

    return lambda line: open_foreign_envelope(line, form)


def _open_chunk(chunk: Chunk, max_message: int, form: EnvelopeFormat | None) -> Chunk:
    from sowctl.messages.framing.envelope import EnvelopeRefused

    open_line = _choose_opener(form)
    payloads: list[bytes] = []
    envelopes: list[Envelope] = []
    kept: list[int] = []
    refused = chunk.refused
    blank = chunk.blank
    for index, line in enumerate(chunk.payloads):
        try:
            # The limit of a line allows for Base64; the message inside has the real limit.
            found = open_line(line)
            if found is None:
                blank += 1
                continue
            payload, envelope = found
            if len(payload) > max_message:
                raise EnvelopeRefused(TOO_LONG_CODE, f"the message has more than {max_message:,} bytes")
        except EnvelopeRefused as problem:
            place = chunk.find_line(index), chunk.find_offset(index)
            refused.append(RefusedFrame(*place, problem.code, problem.message, line, problem.offset))
        else:
            payloads.append(payload)
            envelopes.append(envelope)
            kept.append(index)

    def places() -> tuple[list[int], list[int]]:
        return [chunk.find_line(index) for index in kept], [chunk.find_offset(index) for index in kept]

    # Lines that were too long and refused envelopes, in the order of the input.
    refused.sort(key=lambda frame: frame.offset)
    return Chunk(payloads, places, chunk.end, refused, blank, envelopes)


def number_places(first: int, starts: Sequence[int]) -> Places:
    """Places of messages numbered consecutively from ``first``."""
    return range(first, first + len(starts)), starts


def compute_offsets(start: int, payloads: Sequence[bytes], extra: int = 1) -> list[int]:
    """Compute the start offsets of frames with ``extra`` bytes besides their payload."""
    return list(accumulate((len(payload) + extra for payload in payloads[:-1]), initial=start)) if payloads else []


def compute_line_offsets(block: bytes, start: int, count: int) -> list[int]:
    """Compute the input offsets of the first ``count`` lines of ``block``, after a BOM if it has one."""
    # Split again: the payloads have lost their CRs, and with them their true lengths.
    starts = compute_offsets(start, block.split(b"\n")[:count])
    if start == 0 and starts:
        starts[0] = measure_bom(block)
    return starts


def measure_bom(block: bytes) -> int:
    """Return the size of the byte order mark to drop from the input's first ``block``, 0 for none.

    Before an XML declaration of another encoding it is kept: mark and declaration contradict each other, which only the
    reader of the message can report, and without the mark it would trust the declaration.
    """
    if not block.startswith(BYTE_ORDER_MARK):
        return 0
    declared = _XML_ENCODING.match(block, len(BYTE_ORDER_MARK))
    return len(BYTE_ORDER_MARK) if declared is None or declared[1].lower() in (b"utf-8", b"utf8") else 0
