"""Standard input watched while a command does something else, or read line by line.

A consumer that answers each line before it reads the next one writes while the command writes. If the command read only
between two waits, both pipes would fill up, and each side would wait for the other for ever.

What was read and not taken is bounded: beyond that the other side waits, as it would without the thread. And so is a
line: what comes without a line break is no control line and no bookmark, and is left out up to the next break.
"""

from __future__ import annotations

import os
import select
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from threading import Condition, Thread

MAX_READ_AHEAD_BYTES = 16 << 20
"""Bytes that are read ahead. A consumer that answers every message of a delivery has far less to say."""
MAX_LINE_BYTES = 1 << 20
"""Bytes of a line. The longest sensible one is a control line with a filter, or the bookmark of many publishers."""

_READ_BYTES = 1 << 18
"""Bytes that are read at once."""


def read_lines_by_pause(source: int, most: int, longest: int) -> Iterator[list[bytes]]:
    """The lines that come from descriptor ``source``: what there is whenever nothing more has come yet, or ``most``.

    Who writes one line and waits for what it brings about does not wait for others to be written. While the caller is
    busy with some lines, more gather, so that many that come quickly are still taken together. Blank lines are left
    out. Raises ValueError for a line of more than ``longest`` bytes, behind the lines before it.
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
    """Reader of descriptor ``source`` in a thread. ``number``: a descriptor that can be read when there is something
    new.
    """

    def __init__(self, source: int, most: int = MAX_READ_AHEAD_BYTES) -> None:
        self.number, self._tell = os.pipe()
        # The bytes in the pipe say only that there is something: one that finds it full is not missed.
        os.set_blocking(self._tell, False)
        self._most = most
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._room = Condition()
        # Nothing ends a read of a terminal: the thread ends with the process.
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
        """Wait for something new, give it; empty where :meth:`read_available` took it. None at the end of the input."""
        signs = os.read(self.number, 1 << 16)
        return self.read_available() or (b"" if signs else None)

    def read_available(self) -> bytes:
        """Return the bytes that have come meanwhile, without waiting."""
        with self._room:
            found = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
            self._room.notify()
        return found


class LineAssembler:
    """Complete lines of what comes in parts, each at most ``longest`` bytes. ``cut``: longer ones, left out."""

    def __init__(self, longest: int = MAX_LINE_BYTES) -> None:
        self.cut = 0
        self._longest = longest
        self._rest = bytearray()
        self._cutting = False

    def take_lines(self, data: bytes) -> list[bytes]:
        """The lines that are complete with this, without their breaks; blank ones are left out."""
        first, *others = data.split(b"\n")
        self._rest += first
        found = []
        for part in others:
            # The break behind what has come so far.
            if self._fits_line():
                found.append(bytes(self._rest))
            self._rest = bytearray(part)
            self._cutting = False
        self._fits_line()
        return [line for line in found if line.strip()]

    def _fits_line(self) -> bool:
        """True where the line at hand is short enough so far; the bytes of a longer one are dropped."""
        if len(self._rest) > self._longest:
            self.cut += not self._cutting
            self._cutting = True
        if self._cutting:
            self._rest.clear()
        return not self._cutting
