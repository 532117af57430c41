"""Tables that are longer than the terminal go through a pager, as git's output does.

The command is $SOWCTL_PAGER, else $PAGER, else less; an empty one, and ``cat``, mean none. less gets the options FRX
unless $LESS has others: it ends where all fits, shows colours, and leaves the text on the screen. It is started when
more lines were written than the terminal has; fewer are written as they are. Only a terminal is ever paged.
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
"""Bytes that are kept to be written without the pager, should that turn out to be broken."""
_DEFAULT_PAGER = "less"
_COLOR_PATTERN = re.compile(rb"\x1b\[[0-9;]*m")


class Pager(io.RawIOBase):
    """Stands in front of a terminal. What is written is held until it is longer than that; then ``command`` shows it.

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
        """True where something is on its way to the terminal, which other words would disturb or overtake."""
        return self._process is not None or (bool(self._held) and not self._direct)

    def isatty(self) -> bool:
        """True: what is written is for a person, with the colours and the width of the terminal."""
        return True

    def fileno(self) -> int:
        """The terminal's."""
        return self._terminal.fileno()

    def writable(self) -> bool:
        """True."""
        return True

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]  # all that is ever written here
        """Raises PagerLeft where nobody reads any more."""
        if self._direct:
            return self._terminal.write(data)
        if self._process is None:
            self._held += data
            # A line that is wider than the terminal takes several of its own; colours take no room.
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
        """Do nothing: what is held may still be shorter than the terminal, and what is not is with the pager
        already."""

    def _start_process(self) -> None:
        # By the shell, because the variable may have options, redirections and quotes, as for every other program.
        try:
            # Broken off in between, a process would be left that nobody knows.
            with without_interrupts():
                self._process = subprocess.Popen(
                    self._command, shell=True, stdin=subprocess.PIPE, env=self._environ, bufsize=0
                )
        except OSError:
            self._write_direct()
            return
        # _held is kept: if the pager turns out to be broken, it is written without it (_wait_for_process).
        self._pass_on(self._held)

    def _pass_on(self, data: bytes | bytearray | memoryview) -> None:
        assert self._process is not None and self._process.stdin is not None
        rest = memoryview(data)
        with _pause_timeout():
            try:
                # Without a buffer: after an interrupt nothing is left that closing would have to wait for.
                while rest:
                    rest = rest[self._process.stdin.write(rest) :]
            except BrokenPipeError:
                rest.release()
                if not self._wait_for_process():
                    raise PagerLeft from None

    def _wait_for_process(self) -> bool:
        """Wait for the pager; whether it was broken, and what it did not show was written without it."""
        assert self._process is not None and self._process.stdin is not None
        # Ctrl-C is the pager's own key from here on: it goes back to its prompt, and the terminal stays as it set it.
        with _without_interrupts():
            self._process.stdin.close()
            status = self._process.wait()
        self._process = None
        # Nobody leaves a pager with a status; one that could not be run, or did not know its options, ends with it.
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
        """Write what is held, or wait until the pager was left. ``at_once``: the process has to end, and so it goes."""
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
    """The pager in front of a stream; None where that is no terminal that can be paged, or none is wanted."""
    command = next((environ[name] for name in ("SOWCTL_PAGER", "PAGER") if name in environ), _DEFAULT_PAGER).strip()
    if command in ("", "cat") or environ.get("TERM", "dumb") == "dumb" or not is_terminal(terminal):
        return None
    if command == _DEFAULT_PAGER and shutil.which(command, path=environ.get("PATH")) is None:
        return None
    try:
        return Pager(terminal, command, environ)
    # A stream that only says that it is a terminal has no size, and nothing in front of which a pager could be.
    except (OSError, ValueError, AttributeError):
        return None


@contextmanager
def _pause_timeout() -> Iterator[None]:
    """Stop the clock of --timeout: a full pipe waits for who reads, and that time is not the command's."""
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
        # Only the main thread hears signals, so that another one is not disturbed by them.
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
