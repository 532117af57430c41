"""Messages of JSON: lines, elements of arrays, or objects over several lines, as the input begins.

The rule (``sowctl(1)``, INPUT) decides by the beginning of the input, so that a stream is never read as a whole:

* ``[`` before an object or ``]``: each element is a message; also before another ``[`` if messages are arrays;
* an object whose first line is unfinished, if the second line is not a whole object: objects over several lines;
* anything else: one message per line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain

import msgspec
from msgspec import Raw

from sowctl.errors import InputError, LimitError, SowError
from sowctl.messages.framing.chunks import (
    FRAME_TOO_LONG_CODE,
    INVALID_JSON_CODE,
    TOO_LONG_CODE,
    TRUNCATED_CODE,
    Chunk,
    Cutter,
    Places,
    RefusedFrame,
)
from sowctl.messages.framing.cutters import LineCutter
from sowctl.messages.framing.encodings import UTF8_BOM

_BLANKS = b" \t\r\n"
_STRING_PATTERN = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_DECODE_ERROR_PATTERN = re.compile(r"(.*) \(byte ([0-9]+)\)", re.DOTALL)
_TRAILING_WORDS = "trailing characters"
MAX_GUESSES = 4
"""Number of object ends, counted from the end of the available data, to try as the end of an element."""
WAITING_BYTES = 1 << 20
"""An unfinished value of more bytes is parsed again after another quarter of them, not with every piece."""

_decode_value = msgspec.json.Decoder(Raw).decode
_decode_values = msgspec.json.Decoder(list[Raw]).decode


class JsonCutter:
    """A :class:`~sowctl.messages.framing.chunks.Cutter` that decides by the first bytes how messages are separated.

    ``arrays``: the messages are arrays."""

    def __init__(self, max_message: int, *, arrays: bool = False) -> None:
        self.max_message = max_message
        self._openers = (b"{", b"[") if arrays else (b"{",)
        self._head = b""
        self._cutter: Cutter | None = None

    @property
    def error(self) -> SowError | None:
        """The error that ends the input."""
        return None if self._cutter is None else self._cutter.error

    @property
    def by_lines(self) -> bool:
        """True if each message is a line."""
        return self._cutter is None or self._cutter.by_lines

    def feed(self, data: bytes) -> Chunk | None:
        """See :class:`~sowctl.messages.framing.chunks.Cutter`."""
        if self._cutter is not None:
            return self._cutter.feed(data)
        self._head += data
        by_lines = is_line_framed(self._head, self._openers, ended=not data)
        if by_lines is None and len(self._head) <= self.max_message:
            return None
        chosen: Cutter = ValueCutter(self.max_message) if by_lines is False else LineCutter(self.max_message)
        self._cutter = chosen
        head, self._head = self._head, b""
        found = chosen.feed(head) if head else None
        if data or chosen.error is not None:
            return found
        last = chosen.feed(b"")
        return last if found is None else found if last is None else _join_chunks(found, last)


def is_line_framed(head: bytes, openers: tuple[bytes, ...] = (b"{",), *, ended: bool) -> bool | None:
    """Return whether an input that begins with ``head`` has one message per line; None if more input is needed.

    ``openers``: the first bytes of the elements of an array of messages.
    """
    text = head.removeprefix(UTF8_BOM).lstrip(_BLANKS)
    if not text or UTF8_BOM.startswith(text):
        return True if ended else None
    if text.startswith(b"["):
        inner = text[1:].lstrip(_BLANKS)
        if inner.startswith(b"]"):
            # An array without elements, unless more follows: then it is a line that is no message.
            return True if inner[1:].strip(_BLANKS) else False if ended else None
        return not inner.startswith(openers) if inner or ended else None
    if not text.startswith(b"{"):
        return True
    line, feed, rest = text.partition(b"\n")
    if not feed and not ended:
        return None
    if not _is_unfinished(line):
        return True
    second, feed, _ = rest.lstrip(_BLANKS).partition(b"\n")
    if not feed and not ended:
        return None
    # A truncated object is more likely than another object's second line that is an object by itself.
    return not second or _is_object(second)


def _is_unfinished(line: bytes) -> bool:
    """True for a line that the next one can continue: an object that is not closed, outside of any text."""
    try:
        _decode_value(line)
    except msgspec.DecodeError as problem:
        return "truncated" in str(problem) and b'"' not in _STRING_PATTERN.sub(b"", line)
    except RecursionError:
        pass
    return False


def _is_object(line: bytes) -> bool:
    try:
        _decode_value(line)
    except (msgspec.DecodeError, RecursionError):
        return False
    return line.startswith(b"{")


def _join_chunks(first: Chunk, second: Chunk) -> Chunk:
    def places() -> Places:
        pairs = zip(first.places, second.places, strict=True)
        lines, offsets = (list(chain(*pair)) for pair in pairs)
        return lines, offsets

    return Chunk(
        first.payloads + second.payloads,
        places,
        second.end,
        first.refused + second.refused,
        first.blank + second.blank,
    )


class ValueCutter:
    """Elements of arrays, and consecutive values, whatever line breaks are between or within them.

    An element on one line keeps its bytes; one over several lines is published without spaces between its tokens.
    Invalid JSON ends the input, because the start of the next element is unknown.
    """

    by_lines = False

    def __init__(self, max_message: int) -> None:
        self.error: SowError | None = None
        self.max_message = max_message
        self._rest = b""
        self._wanted = 0
        self._start = 0
        self._line = 1
        self._in_array = False
        self._after_value = False

    def feed(self, data: bytes) -> Chunk | None:
        """See :class:`~sowctl.messages.framing.chunks.Cutter`."""
        self._rest += data
        if data and len(self._rest) < self._wanted:
            return None
        block, start, line = self._rest, self._start, self._line
        found, used = self._cut_values(block, ended=not data)
        self._rest = block[used:]
        self._start += used
        self._line += block.count(b"\n", 0, used)
        self._wanted = len(self._rest) * 5 // 4 if len(self._rest) > WAITING_BYTES else 0
        if self.error is None and len(self._rest) > self.max_message + WAITING_BYTES:
            words = f"a value has more than {self.max_message:,} bytes"
            self.error = LimitError(FRAME_TOO_LONG_CODE, words, offset=self._start, line=self._line)
        if not found:
            return None
        return self._build_chunk(block, found, start, line)

    def _build_chunk(self, block: bytes, found: list[bytes], start: int, line: int) -> Chunk:
        payloads = [compact_value(one) if b"\n" in one else one for one in found]
        places = _find_places(block, found, start, line)
        refused = []
        if max(map(len, payloads)) > self.max_message:
            lines, offsets = places()
            words = f"the message has more than {self.max_message:,} bytes"
            kept = [index for index, payload in enumerate(payloads) if len(payload) <= self.max_message]
            refused = [
                RefusedFrame(lines[index], offsets[index], TOO_LONG_CODE, words)
                for index in range(len(payloads))
                if len(payloads[index]) > self.max_message
            ]
            left = [lines[index] for index in kept], [offsets[index] for index in kept]
            return Chunk([payloads[index] for index in kept], lambda: left, self._start, refused)
        return Chunk(payloads, places, self._start, refused)

    def _cut_values(self, block: bytes, *, ended: bool) -> tuple[list[bytes], int]:
        """The complete values, and the number of bytes of them and their separators."""
        found: list[bytes] = []
        at = 0
        if self._start == 0 and block.startswith(UTF8_BOM):
            at = len(UTF8_BOM)
        view = memoryview(block)
        while True:
            at = _skip_blanks(block, at)
            if at == len(block):
                if ended and self._in_array:
                    self._fail(block, at, "the input ends within an array", TRUNCATED_CODE)
                return found, at
            mark = block[at]
            if self._in_array and mark == 0x5D and (self._after_value or self._is_empty):
                self._in_array, at = False, at + 1
            elif self._in_array and self._after_value:
                if mark != 0x2C:
                    self._fail(block, at, "a comma or ] is expected after an element of the array")
                    return found, at
                self._after_value, at = False, at + 1
            elif not self._in_array and mark == 0x5B:
                self._in_array, self._is_empty, self._after_value, at = True, True, False, at + 1
            else:
                if self._in_array and (elements := _cut_elements(view, at)) is not None:
                    values, end = elements
                    found += values
                else:
                    cut = self._cut_value(block, view, at, ended=ended)
                    if cut is None:
                        return found, at
                    end = cut
                    found.append(block[at:end])
                at = end
                self._after_value, self._is_empty = True, False

    _is_empty = False
    """The bracket of the array was read, and nothing after it yet."""

    def _cut_value(self, block: bytes, view: memoryview, at: int, *, ended: bool) -> int | None:
        """The end of the value that begins at ``at``; None if it is incomplete or invalid."""
        try:
            _decode_value(view[at:])
        except msgspec.DecodeError as problem:
            match = _DECODE_ERROR_PATTERN.fullmatch(str(problem))
            if match is None:
                if ended:
                    self._fail(block, at, "the input ends within a value", TRUNCATED_CODE)
                return None
            place = at + int(match[2])
            if _TRAILING_WORDS not in match[1] and not ended and place >= len(block) - 1:
                # The beginning of a number, such as -, is malformed for msgspec, not truncated.
                return None
            if _TRAILING_WORDS not in match[1]:
                self._fail(block, place, match[1].removeprefix("JSON is malformed: "))
                return None
            # Only in this error, msgspec counts the byte that it names.
            return at + len(block[at : place - 1].rstrip(_BLANKS))
        except RecursionError:
            self._fail(block, at, "a value is nested too deeply")
            return None
        # A number may continue in the following input.
        if not ended and block[at] not in b'{["':
            return None
        return len(block.rstrip(_BLANKS))

    def _fail(self, block: bytes, at: int, words: str, code: str = INVALID_JSON_CODE) -> None:
        line = self._line + block.count(b"\n", 0, at)
        self.error = InputError(code, words, offset=self._start + at, line=line)


def _skip_blanks(block: bytes, at: int) -> int:
    while at < len(block) and block[at] in _BLANKS:
        at += 1
    return at


def _cut_elements(view: memoryview, at: int) -> tuple[list[bytes], int] | None:
    """The elements of an array from ``at`` on, ending with an object, and their end; None if a few guesses of that end
    fail.

    JSON is unambiguous: if the text before a place is a list of values, then the array has these elements.
    """
    block = view.obj
    assert isinstance(block, bytes)
    end = len(block)
    for _ in range(MAX_GUESSES):
        end = block.rfind(b"}", at, end)
        if end < 0:
            return None
        try:
            values = _decode_values(b"".join((b"[", view[at : end + 1], b"]")))
        except (msgspec.DecodeError, RecursionError):
            continue
        return list(map(bytes, values)), end + 1
    return None


def compact_value(value: bytes) -> bytes:
    """A value without blanks between its tokens."""
    return bytes(msgspec.json.format(value, indent=-1))


def _find_places(block: bytes, found: Sequence[bytes], start: int, line: int) -> Callable[[], Places]:
    def places() -> Places:
        lines: list[int] = []
        offsets: list[int] = []
        number, at = line, 0
        for value in found:
            # Only blanks, commas and brackets are between two values, so none is found too early.
            begin = block.index(value, at)
            number += block.count(b"\n", at, begin)
            lines.append(number)
            offsets.append(start + begin)
            at = begin + len(value)
            number += value.count(b"\n")
        return lines, offsets

    return places
