"""Standard input, read in a thread while a command does something else, or read line by line.

A consumer that answers each line before it reads the next one writes while the command writes. If the command read only
between two waits, both pipes would fill up, and each side would wait for the other forever.

The unprocessed input is limited: beyond the limit the other side waits, as it would without the thread. The length of a
line is limited, too: longer input without a line break is no control line and no bookmark, and is skipped up to the
next break.
"""

from __future__ import annotations

import os
import select
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from threading import Condition, Thread

MAX_READ_AHEAD_BYTES = 16 << 20
"""Maximum read-ahead in bytes. A consumer that acknowledges every message of a delivery writes far less."""
MAX_LINE_BYTES = 1 << 20
"""Maximum length of a line. The longest sensible line is a control line with a filter, or the bookmark of many
publishers."""

_READ_BYTES = 1 << 18
"""Bytes of one read."""


def read_lines_by_pause(source: int, most: int, longest: int) -> Iterator[list[bytes]]:
    """Batches of lines from descriptor ``source``: up to ``most`` lines, or fewer as soon as no more input is
    available.

    So a writer that waits for the effect of one line does not wait for others. While the caller processes a batch, more
    lines accumulate, so frequent lines are still batched. Blank lines are skipped. Raises ValueError for a line of more
    than ``longest`` bytes, after yielding the lines before it.
    """
    gathered = LineAssembler(longest)
    lines: list[bytes] = []
    open_end = True
    while open_end:
        if len(lines) < most and not (lines and not select.select([source], [], [], 0)[0]):
            data = os.read(source, _READ_BYTES)
            open_end = bool(data)
            lines += gathered.take_lines(data or b"\n")
            if not gathered.cut and (open_end or not lines):
                continue
        while lines:
            yield lines[:most]
            del lines[:most]
        if gathered.cut:
            raise ValueError(f"a line of more than {longest:,} bytes")


class InputReader:
    """Reads descriptor ``source`` in a thread. ``number`` is a descriptor that becomes readable when there is new
    input.
    """

    def __init__(self, source: int, most: int = MAX_READ_AHEAD_BYTES) -> None:
        self.number, self._tell = os.pipe()
        # A byte in the pipe only signals new input; if the pipe is full, a further one is not needed.
        os.set_blocking(self._tell, False)
        self._most = most
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._room = Condition()
        # A read from a terminal cannot be ended: the thread ends with the process.
        Thread(target=self._read_source, args=(source,), name="hearing", daemon=True).start()

    def _read_source(self, source: int) -> None:
        with suppress(OSError):
            while data := os.read(source, 1 << 16):
                with self._room:
                    self._room.wait_for(lambda: self._size < self._most)
                    self._parts.append(data)
                    self._size += len(data)
                with suppress(BlockingIOError):
                    os.write(self._tell, b".")
        os.close(self._tell)

    def read(self) -> bytes | None:
        """Wait for new input and return it; empty if :meth:`read_available` already returned it. None at end of
        input."""
        signs = os.read(self.number, 1 << 16)
        return self.read_available() or (b"" if signs else None)

    def read_available(self) -> bytes:
        """Return the input that has arrived so far, without waiting."""
        with self._room:
            found = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
            self._room.notify()
        return found


class LineAssembler:
    """Assembles lines of at most ``longest`` bytes from partial input. ``cut`` counts longer lines, which are
    skipped."""

    def __init__(self, longest: int = MAX_LINE_BYTES) -> None:
        self.cut = 0
        self._longest = longest
        self._rest = bytearray()
        self._cutting = False

    def take_lines(self, data: bytes) -> list[bytes]:
        """The lines that this input completes, without line breaks; blank lines are skipped."""
        first, *others = data.split(b"\n")
        self._rest += first
        found = []
        for part in others:
            # This break ends the line assembled so far.
            if self._fits_line():
                found.append(bytes(self._rest))
            self._rest = bytearray(part)
            self._cutting = False
        self._fits_line()
        return [line for line in found if line.strip()]

    def _fits_line(self) -> bool:
        """Return True if the current line is short enough so far; the bytes of a longer one are dropped."""
        if len(self._rest) > self._longest:
            self.cut += not self._cutting
            self._cutting = True
        if self._cutting:
            self._rest.clear()
        return not self._cutting
