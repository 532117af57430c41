"""A terminal as a stream of bytes: everything written to it is escaped, so that data cannot control the terminal.

The one place through which commands write to a person's standard output. Text in colours is written past it
(:attr:`sowctl.cli.streams.Streams.painted_stdout`), by writers that pass each datum through
:mod:`sowctl.output.display`.
"""

from __future__ import annotations

import io
from codecs import getincrementaldecoder
from typing import BinaryIO

from sowctl.output.display import escape_line


class SafeTerminal(io.RawIOBase):
    """Passes UTF-8 on to ``stream``, a terminal; every character that is unsafe there but tab and line feed becomes
    visible text, as do bytes that are no UTF-8."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self._decoder = getincrementaldecoder("utf-8")("surrogateescape")

    def isatty(self) -> bool:
        """True."""
        return True

    def fileno(self) -> int:
        """The terminal's."""
        return self.stream.fileno()

    def writable(self) -> bool:
        """True."""
        return True

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]  # all that is ever written here
        """Raises what writing to the terminal raises."""
        # A character may be cut in two by the end of a block: its first bytes wait for the next one.
        self._pass_on(self._decoder.decode(data))
        return len(data)

    def flush(self) -> None:
        """Write what was waiting for the rest of a character, and flush the terminal."""
        self._pass_on(self._decoder.decode(b"", True))
        self.stream.flush()

    def _pass_on(self, text: str) -> None:
        if text:
            lines = ("\t".join(map(escape_line, line.split("\t"))) for line in text.split("\n"))
            self.stream.write("\n".join(lines).encode())
