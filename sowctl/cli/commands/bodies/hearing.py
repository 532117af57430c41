"""Standard input of which a command hears while something else goes on, or line by line.

A consumer that answers each line before it reads the next one writes while the command writes. If the command read only
between two waits, both pipes would fill up, and each side would wait for the other for ever.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread

_PART = 1 << 18
"""Bytes that are read at once."""


def lines_by_pause(source: int, most: int) -> Iterator[list[bytes]]:
    """The lines that come from descriptor ``source``: what there is whenever nothing more has come yet, or ``most``.

    Who writes one line and waits for what it brings about does not wait for others to be written. While the caller is
    busy with some lines, more gather, so that many that come quickly are still taken together.
    """
    lines: list[bytes] = []
    rest = b""
    while True:
        if len(lines) >= most or (lines and not select.select([source], [], [], 0)[0]):
            yield lines[:most]
            del lines[:most]
            continue
        data = os.read(source, _PART)
        if not data:
            break
        *fresh, rest = (rest + data).split(b"\n")
        lines += fresh
    if rest:
        lines.append(rest)
    while lines:
        yield lines[:most]
        del lines[:most]


class Hearing:
    """What comes from descriptor ``source``. ``number``: a descriptor that can be read when there is something new."""

    def __init__(self, source: int) -> None:
        self.number, self._tell = os.pipe()
        # The bytes in the pipe say only that there is something: one that finds it full is not missed.
        os.set_blocking(self._tell, False)
        self._parts: SimpleQueue[bytes] = SimpleQueue()
        # Nothing ends a read of a terminal: the thread ends with the process.
        Thread(target=self._listen, args=(source,), name="hearing", daemon=True).start()

    def _listen(self, source: int) -> None:
        with suppress(OSError):
            while data := os.read(source, 1 << 16):
                self._parts.put(data)
                with suppress(BlockingIOError):
                    os.write(self._tell, b".")
        os.close(self._tell)

    def read(self) -> bytes | None:
        """Wait for something new, give it; empty where :meth:`news` took it. None at the end of the input."""
        signs = os.read(self.number, 1 << 16)
        return self.news() or (b"" if signs else None)

    def news(self) -> bytes:
        """What has come meanwhile, without waiting."""
        found = []
        with suppress(Empty):
            while True:
                found.append(self._parts.get_nowait())
        return b"".join(found)
