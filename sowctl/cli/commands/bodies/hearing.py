"""Standard input of which a command hears while something else goes on, or line by line.

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

MOST = 16 << 20
"""Bytes that are read ahead. A consumer that answers every message of a delivery has far less to say."""
LINE = 1 << 20
"""Bytes of a line. The longest sensible one is a control line with a filter, or the bookmark of many publishers."""

_PART = 1 << 18
"""Bytes that are read at once."""


def lines_by_pause(source: int, most: int, longest: int) -> Iterator[list[bytes]]:
    """The lines that come from descriptor ``source``: what there is whenever nothing more has come yet, or ``most``.

    Who writes one line and waits for what it brings about does not wait for others to be written. While the caller is
    busy with some lines, more gather, so that many that come quickly are still taken together. Blank lines are left
    out. Raises ValueError for a line of more than ``longest`` bytes, behind the lines before it.
    """
    gathered = Lines(longest)
    lines: list[bytes] = []
    open_end = True
    while open_end:
        if len(lines) < most and not (lines and not select.select([source], [], [], 0)[0]):
            data = os.read(source, _PART)
            open_end = bool(data)
            lines += gathered.take(data or b"\n")
            if not gathered.cut and (open_end or not lines):
                continue
        while lines:
            yield lines[:most]
            del lines[:most]
        if gathered.cut:
            raise ValueError(f"a line of more than {longest:,} bytes")


class Hearing:
    """What comes from descriptor ``source``. ``number``: a descriptor that can be read when there is something new."""

    def __init__(self, source: int, most: int = MOST) -> None:
        self.number, self._tell = os.pipe()
        # The bytes in the pipe say only that there is something: one that finds it full is not missed.
        os.set_blocking(self._tell, False)
        self._most = most
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._room = Condition()
        # Nothing ends a read of a terminal: the thread ends with the process.
        Thread(target=self._listen, args=(source,), name="hearing", daemon=True).start()

    def _listen(self, source: int) -> None:
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
        """Wait for something new, give it; empty where :meth:`news` took it. None at the end of the input."""
        signs = os.read(self.number, 1 << 16)
        return self.news() or (b"" if signs else None)

    def news(self) -> bytes:
        """What has come meanwhile, without waiting."""
        with self._room:
            found = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
            self._room.notify()
        return found


class Lines:
    """Complete lines of what comes in parts, each at most ``longest`` bytes. ``cut``: longer ones, left out."""

    def __init__(self, longest: int = LINE) -> None:
        self.cut = 0
        self._longest = longest
        self._rest = bytearray()
        self._cutting = False

    def take(self, data: bytes) -> list[bytes]:
        """The lines that are complete with this, without their breaks; blank ones are left out."""
        first, *others = data.split(b"\n")
        self._rest += first
        found = []
        for part in others:
            # The break behind what has come so far.
            if self._within():
                found.append(bytes(self._rest))
            self._rest = bytearray(part)
            self._cutting = False
        self._within()
        return [line for line in found if line.strip()]

    def _within(self) -> bool:
        """Whether the line at hand is short enough so far; its bytes go where it is not."""
        if len(self._rest) > self._longest:
            self.cut += not self._cutting
            self._cutting = True
        if self._cutting:
            self._rest.clear()
        return not self._cutting
