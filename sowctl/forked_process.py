"""A fork of this process that does a part of its work, and the frames that it sends back.

The only user of ``os.fork``. All such processes have these properties:

* A fork has no threads of its parent, and may find their locks held forever: check :func:`can_fork` first. It must not
  use a handle of LMDB that was opened before (LMDB forbids it); to read a store, it opens the store again, or reads
  bytes that this process has mapped.
* Signals of the terminal reach both processes. The fork ignores them: this process decides how the run ends, and ends
  the fork with it. A fork also ends by itself when this process has ended.
* An error in its work is sent after all previous results, and raised by :meth:`ForkedProcess.receive`. A fork that
  ended without sending an error is a :class:`ProcessLostError`.
* It ends without Python's finalization: buffers and exit handlers belong to this process.

Independent of the work. Called by ``eval``, by publishing, and by scans.
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
"""Capacity of the pipe from a fork in bytes, if the system allows it."""
MAX_WAIT_SECONDS = 0.5
"""Maximum duration of a single wait for a frame in seconds; signal handlers run between two of them."""
_FRAME_HEADER = Struct("<BQ")
"""The kind of a frame, and the number of bytes that follow."""
_DATA, _ERROR, _END = range(3)

_pipes: set[int] = set()
"""The reading ends of this process. A later fork closes them; otherwise an earlier one would not notice the end of this
process."""


class SendFunction(Protocol):
    """Sends one frame, given as consecutive parts."""

    def __call__(self, *parts: bytes) -> None: ...


Work = Callable[[SendFunction], None]
"""The work of a fork, which sends its results."""


class ProcessLostError(Exception):
    """A forked process ended before its work was finished, and without an error of its own."""


def count_processors() -> int:
    """Return the number of processors that forks of this process may use; 0 if the system cannot fork for this."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0


def can_fork() -> bool:
    """Return whether this process has no other threads."""
    # A process that has never imported threading has no threads; a query of few records does not import it for this.
    threads = sys.modules.get("threading")
    return threads is None or threads.active_count() == 1


class ForkedProcess:
    """A fork that does ``work``. :meth:`receive` its frames, and always :meth:`terminate` it.

    ``spooled``: frames are kept in a temporary file until the work is finished, so that neither process waits for the
    other before its own part is finished; otherwise in a pipe, and the fork waits when it is full. ``kept_files``: the
    fork closes all other inherited files: locks, and pipes whose readers wait for the end. Raises OSError if the system
    cannot create another process.
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
            # A signal between the fork and the assignment of its pid would leave a process that is never ended.
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
        """The process id; 0 after it was waited for."""
        return self._child

    def has_data(self) -> bool:
        """Return whether :meth:`receive` would return at once, even if at the end."""
        return bool(self._poll.poll(0))

    def receive(self) -> bytes | None:
        """Receive the next frame; None after the last one.

        Raises the error of the work after all previous frames: SowError and OSError unchanged, any other error as
        RuntimeError; ProcessLostError if the process ended before its work was finished.
        """
        if self._spool is None:
            return self._receive_frame(self._read_pipe)
        self._wait_for_spool()
        return self._receive_frame(self._read_spool)

    def wait_for_success(self) -> bool:
        """Wait for the end of the work of a ``spooled`` process; return False if it was not finished, for any
        reason."""
        try:
            self._wait_for_spool()
        except (SowError, OSError, RuntimeError, ProcessLostError):
            return False
        return True

    def terminate(self) -> None:
        """End the process if it is still running, and discard its frames."""
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
        """Wait for the end frame of a spooled process, the only one in its pipe."""
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
            # A signal just before a wait does not end it: its handler runs between two waits.
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
    """Start a :class:`ForkedProcess`; None if the system cannot create another process: the caller does the work
    then."""
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
        # It inherits many live objects: scanning them would copy their pages.
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

            # Any other error is a bug.
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
        # An upper end of 0 is no limit for the system call: it would close everything.
        if low < descriptor:
            os.closerange(low, descriptor)
        low = descriptor + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))


def _watch_parent(writing: int) -> None:
    """End this process as soon as its parent has ended, even while it waits for input that may never arrive."""
    from threading import Thread

    def wait() -> None:
        poll = select.poll()
        poll.register(writing, 0)  # reports only that the reading end is closed
        poll.poll()
        os._exit(1)

    Thread(target=wait, daemon=True).start()
