"""Show output that is longer than the terminal in a pager, as git does.

The command is $SOWCTL_PAGER, else $PAGER, else less; an empty one, and ``cat``, mean none. less gets the options FRX
unless $LESS is set: it exits if all fits, shows colours, and leaves the text on the screen. The pager is started when
more lines were written than the terminal has; shorter output is written directly. Only output to a terminal is paged.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import BinaryIO

from sowctl.cli.streams import PagerLeft, is_terminal
from sowctl.interrupts import without_interrupts

MAX_HELD_BYTES = 1 << 20
"""Bytes to retain, so that they can be written without the pager if that fails."""
_DEFAULT_PAGER = "less"
_COLOR_PATTERN = re.compile(rb"\x1b\[[0-9;]*m")


class Pager(io.RawIOBase):
    """Buffers output to a terminal until it is longer than the screen; then ``command`` shows it.

    The program must call :meth:`end` at its end.
    """

    def __init__(self, terminal: BinaryIO, command: str, environ: Mapping[str, str]) -> None:
        self._terminal = terminal
        self._command = command
        self._environ = {"LESS": "FRX", "LV": "-c"} | dict(environ)
        self._size = os.get_terminal_size(terminal.fileno())
        self._held = bytearray()
        self._lines = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._direct = False

    @property
    def is_busy(self) -> bool:
        """True if output is on its way to the terminal, which other messages would disturb or overtake."""
        return self._process is not None or (bool(self._held) and not self._direct)

    def isatty(self) -> bool:
        """True: the output is for people, with the colours and the width of the terminal."""
        return True

    def fileno(self) -> int:
        """The descriptor of the terminal."""
        return self._terminal.fileno()

    def writable(self) -> bool:
        """True."""
        return True

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]  # all that is ever written here
        """Write or buffer data. Raises PagerLeft if the user has left the pager."""
        if self._direct:
            return self._terminal.write(data)
        if self._process is None:
            self._held += data
            # A line that is wider than the terminal occupies several rows; colours occupy none.
            lines = _COLOR_PATTERN.sub(b"", bytes(data)).decode("utf-8", "replace").split("\n")
            self._lines += len(lines) - 1 + sum((len(line) - 1) // max(self._size.columns, 1) for line in lines if line)
            if self._lines < self._size.lines:
                return len(data)
            self._start_process()
            return len(data)
        if len(self._held) <= MAX_HELD_BYTES:
            self._held += data
        self._pass_on(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: buffered output may still be shorter than the terminal, and any other was passed to the pager."""

    def _start_process(self) -> None:
        # Through the shell, because the variable may contain options, redirections and quotes, as in other programs.
        try:
            # An interrupt in between would leave an unknown process.
            with without_interrupts():
                self._process = subprocess.Popen(
                    self._command, shell=True, stdin=subprocess.PIPE, env=self._environ, bufsize=0
                )
        except OSError:
            self._write_direct()
            return
        # _held is kept: if the pager fails, it is written without it (_wait_for_process).
        self._pass_on(self._held)

    def _pass_on(self, data: bytes | bytearray | memoryview) -> None:
        assert self._process is not None and self._process.stdin is not None
        rest = memoryview(data)
        with _pause_timeout():
            try:
                # Unbuffered: after an interrupt, closing need not wait for remaining data.
                while rest:
                    rest = rest[self._process.stdin.write(rest) :]
            except BrokenPipeError:
                rest.release()
                if not self._wait_for_process():
                    raise PagerLeft from None

    def _wait_for_process(self) -> bool:
        """Wait for the pager; return True if it failed and its output was written without it."""
        assert self._process is not None and self._process.stdin is not None
        # From here on, Ctrl-C is for the pager: it returns to its prompt, and the terminal keeps its settings.
        with _without_interrupts():
            self._process.stdin.close()
            status = self._process.wait()
        self._process = None
        # Leaving a pager gives status 0; a pager that could not be run, or did not know its options, has another one.
        if status <= 0 or len(self._held) > MAX_HELD_BYTES:
            self._held.clear()
            return False
        self._write_direct()
        return True

    def _write_direct(self) -> None:
        self._direct = True
        self._terminal.write(bytes(self._held))
        self._held.clear()

    def end(self, *, at_once: bool = False) -> None:
        """Write the buffer, or wait until the user leaves the pager. ``at_once``: end it, because the process must
        end."""
        if self._process is not None:
            if at_once:
                self._process.terminate()
            with _pause_timeout():
                self._wait_for_process()
        elif self._held:
            self._write_direct()
        self._direct = True
        self._terminal.flush()


def open_pager(terminal: BinaryIO, environ: Mapping[str, str]) -> Pager | None:
    """The pager for a stream; None if that is no suitable terminal, or no pager is wanted."""
    command = next((environ[name] for name in ("SOWCTL_PAGER", "PAGER") if name in environ), _DEFAULT_PAGER).strip()
    if command in ("", "cat") or environ.get("TERM", "dumb") == "dumb" or not is_terminal(terminal):
        return None
    if command == _DEFAULT_PAGER and shutil.which(command, path=environ.get("PATH")) is None:
        return None
    try:
        return Pager(terminal, command, environ)
    # A stream that only claims to be a terminal has no size and cannot be paged.
    except (OSError, ValueError, AttributeError):
        return None


@contextmanager
def _pause_timeout() -> Iterator[None]:
    """Stop the clock of --timeout: time spent waiting for the user does not count."""
    left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        if left:
            signal.setitimer(signal.ITIMER_REAL, left)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:
        # Only the main thread receives signals, so another one needs no protection.
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
