"""A fork of this process that does a part of its work, and the frames that it sends back.

The one home of ``os.fork``. What holds for every such process:

* A fork has no threads of the process that it is made of, and may find their locks held for ever: ask
  :func:`can_fork` first. It must not use a handle of LMDB that was opened before (LMDB forbids it); what reads a store
  opens it anew, or reads bytes that this process has mapped.
* Signals of the terminal reach both processes. The fork ignores them: this process says what becomes of the run, and
  ends the fork with it. A fork also ends by itself when this process is gone.
* Whatever goes wrong in its work is sent behind everything before it, and raised by :meth:`ForkedProcess.receive`. A
  fork that ended without a word is a :class:`ProcessLostError`.
* It ends without what Python does at the end: buffers and exit handlers are those of this process.

Knows nothing of the work. Called by ``eval``, by publishing, and by scans.
"""

from __future__ import annotations

import fcntl
import gc
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from struct import Struct
from typing import IO, NoReturn, Protocol

from sowctl.errors import SowError
from sowctl.interrupts import without_interrupts

PIPE_BYTES = 1 << 20
"""Bytes that the pipe from a fork holds, where the system allows that."""
MAX_WAIT_SECONDS = 0.5
"""Longest single wait for a frame in seconds; handlers of signals run between two of them."""
_FRAME_HEADER = Struct("<BQ")
"""The kind of a frame, and the bytes that follow."""
_DATA, _ERROR, _END = range(3)

_pipes: set[int] = set()
"""The reading ends of this process. A later fork closes them, or an earlier one would not see this process end."""


class SendFunction(Protocol):
    """Sends one frame: its parts, one behind the other."""

    def __call__(self, *parts: bytes) -> None: ...


Work = Callable[[SendFunction], None]
"""The work of a fork, which sends its results."""


class ProcessLostError(Exception):
    """A forked process has ended before its work was done, and without an error of its own."""


def count_processors() -> int:
    """Return the number of processors that forks of this process may use; 0 where the system has no forks for it."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0


def can_fork() -> bool:
    """Return whether this process has no other threads."""
    # A process that has never loaded threading has none; a query of few records does not load it for this question.
    threads = sys.modules.get("threading")
    return threads is None or threads.active_count() == 1


class ForkedProcess:
    """A fork that does ``work``. :meth:`receive` its frames, and :meth:`terminate` it in any case.

    ``spooled``: frames wait in a temporary file until the work is done, so that neither process waits for the other
    before its own part is done; else in a pipe, in whose bounded room the fork waits. ``kept_files``: the fork closes
    all other inherited files: locks, and pipes whose readers wait for the end. Raises OSError where the system gives no
    further process.
    """

    def __init__(self, work: Work, *, spooled: bool = False, kept_files: Sequence[int] | None = None) -> None:
        self._child = 0
        self._spool: IO[bytes] | None = None
        self._is_spool_whole = False
        self._reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            with suppress(OSError, AttributeError):
                fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            if spooled:
                import tempfile

                self._spool = tempfile.TemporaryFile()  # noqa: SIM115 - closed by terminate()
            # A signal that comes between the fork and the note of its number would leave a process that nobody ends.
            with without_interrupts():
                self._child = os.fork()
                if not self._child:
                    _run_fork(work, self._reading, writing, self._spool, kept_files)
        except BaseException:
            self.terminate()
            raise
        finally:
            os.close(writing)
        _pipes.add(self._reading)
        self._poll = select.poll()
        self._poll.register(self._reading, select.POLLIN)

    @property
    def pid(self) -> int:
        """The number of the process; 0 once it was waited for."""
        return self._child

    def has_data(self) -> bool:
        """Return whether :meth:`receive` would find something at once, the end included."""
        return bool(self._poll.poll(0))

    def receive(self) -> bytes | None:
        """Receive the next frame; None behind the last one.

        Raises what the work raised, behind everything before it: SowError and OSError as they were, any other error as
        RuntimeError; ProcessLostError where the process has ended before its work was done.
        """
        if self._spool is None:
            return self._receive_frame(self._read_pipe)
        self._wait_for_spool()
        return self._receive_frame(self._read_spool)

    def wait_for_success(self) -> bool:
        """Wait for the end of the work of a ``spooled`` process: False where it was not done, for whatever reason."""
        try:
            self._wait_for_spool()
        except (SowError, OSError, RuntimeError, ProcessLostError):
            return False
        return True

    def terminate(self) -> None:
        """End the process, should it still run, and forget what it sent."""
        child, self._child = self._child, 0
        if self._reading >= 0:
            _pipes.discard(self._reading)
            os.close(self._reading)
            self._reading = -1
        if self._spool is not None:
            self._spool.close()
        if child:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def _wait_for_spool(self) -> None:
        """Wait for the end of a spooled process, which is all that comes through its pipe."""
        if self._is_spool_whole:
            return
        assert self._spool is not None
        self._receive_frame(self._read_pipe)
        self._is_spool_whole = True
        self._spool.seek(0)

    def _receive_frame(self, read: Callable[[int], bytes]) -> bytes | None:
        kind, size = _FRAME_HEADER.unpack(read(_FRAME_HEADER.size))
        data = read(size)
        if kind == _ERROR:
            import pickle

            # The bytes come from a fork of this very process.
            raise pickle.loads(data)
        return None if kind == _END else data

    def _read_spool(self, size: int) -> bytes:
        assert self._spool is not None
        return self._spool.read(size)

    def _read_pipe(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            # A signal that comes just before a wait does not end it: its handler runs between two waits.
            while not self._poll.poll(MAX_WAIT_SECONDS * 1000):
                pass
            part = os.read(self._reading, min(size, PIPE_BYTES))
            if not part:
                raise ProcessLostError
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def start_process(
    work: Work, *, spooled: bool = False, kept_files: Sequence[int] | None = None
) -> ForkedProcess | None:
    """Start a :class:`ForkedProcess`; None where the system gives no further process: this one does that work, too."""
    try:
        return ForkedProcess(work, spooled=spooled, kept_files=kept_files)
    except OSError:
        return None


def _run_fork(
    work: Work, reading: int, writing: int, spool: IO[bytes] | None, kept_files: Sequence[int] | None
) -> NoReturn:
    """Do the work of the fork; never returns into the code of its caller."""
    status = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.close(reading)
        for other in _pipes:
            os.close(other)
        if kept_files is not None:
            _close_inherited_files({writing, *kept_files, *(() if spool is None else (spool.fileno(),))})
        # It inherits much that is no garbage: looking through that would copy it.
        gc.disable()
        _watch_parent(writing)
        try:
            if spool is None:
                work(lambda *parts: _send_frame(writing, _DATA, *parts))
            else:
                work(lambda *parts: _spool_frame(spool, _DATA, *parts))
                _spool_frame(spool, _END)
                spool.flush()
        except Exception as error:
            import pickle

            # What is no error of the input, is a bug there.
            told = error if isinstance(error, SowError | OSError) else RuntimeError(f"{type(error).__name__}: {error}")
            _send_frame(writing, _ERROR, pickle.dumps(told))
        _send_frame(writing, _END)
        status = 0
    finally:
        os._exit(status)


def _spool_frame(spool: IO[bytes], kind: int, *parts: bytes) -> None:
    spool.write(_FRAME_HEADER.pack(kind, sum(map(len, parts))))
    for part in parts:
        spool.write(part)


def _send_frame(writing: int, kind: int, *parts: bytes) -> None:
    head = _FRAME_HEADER.pack(kind, sum(map(len, parts)))
    rest = memoryview(b"".join((head, *parts)))
    while rest:
        rest = rest[os.write(writing, rest) :]


def _close_inherited_files(kept: set[int]) -> None:
    low = 0
    for descriptor in sorted(kept):
        # An end of 0 is none to the system call: it would close everything.
        if low < descriptor:
            os.closerange(low, descriptor)
        low = descriptor + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))


def _watch_parent(writing: int) -> None:
    """End this process as soon as the other one is gone, also while it waits for input that may never come."""
    from threading import Thread

    def wait() -> None:
        poll = select.poll()
        poll.register(writing, 0)  # no more than that the reading end is closed
        poll.poll()
        os._exit(1)

    Thread(target=wait, daemon=True).start()
