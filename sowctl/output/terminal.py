"""A terminal as a stream of bytes: everything written to it is escaped, so that data cannot control the terminal.

All standard output of commands to a terminal goes through this stream. Coloured text bypasses it
(:attr:`sowctl.cli.streams.Streams.painted_stdout`): its writers escape each value by
:mod:`sowctl.output.display`.
"""

from __future__ import annotations

import io
from codecs import getincrementaldecoder
from typing import BinaryIO

from sowctl.output.display import escape_line


class SafeTerminal(io.RawIOBase):
    """Passes UTF-8 on to ``stream``, a terminal; every unsafe character except tab and line feed becomes visible text,
    as do bytes that are not UTF-8."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self._decoder = getincrementaldecoder("utf-8")("surrogateescape")

    def isatty(self) -> bool:
        """True."""
        return True

    def fileno(self) -> int:
        """The descriptor of the terminal."""
        return self.stream.fileno()

    def writable(self) -> bool:
        """True."""
        return True

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]  # all that is ever written here
        """Raises the errors of writing to the terminal."""
        # A block may end within a character: its first bytes are kept for the next one.
        self._pass_on(self._decoder.decode(data))
        return len(data)

    def flush(self) -> None:
        """Write the incomplete character, if any, and flush the terminal."""
        self._pass_on(self._decoder.decode(b"", True))
        self.stream.flush()

    def _pass_on(self, text: str) -> None:
        if text:
            lines = ("\t".join(map(escape_line, line.split("\t"))) for line in text.split("\n"))
            self.stream.write("\n".join(lines).encode())
