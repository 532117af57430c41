"""Standard input of a command that writes at the same time, read by a thread of its own.

A consumer that answers each line before it reads the next one writes while the command writes. If the command read only
between two waits, both pipes would fill up, and each side would wait for the other for ever.
"""

from __future__ import annotations

import os
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread


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
