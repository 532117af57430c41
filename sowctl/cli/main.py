"""The entry point of the program and its only error boundary: from argv to the exit status.

``run`` is the console script; ``main`` does the same for streams, environment, seam and clock of the caller. Imports
are minimal: ``--version`` and ``--help`` are answered from the table; a command's module is imported only when its name
is known; Typer only if the command line is not plain (``arguments.py``).
"""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from sowctl.cli.context import Invocation
from sowctl.cli.streams import ClosedInput, PagerLeft, Streams
from sowctl.errors import SowError, build_memory_error
from sowctl.seam import SEAM, Seam
from sowctl.values.times import Clock, system_clock

if TYPE_CHECKING:
    from sowctl.cli.configuration_cache import ConfigurationCache

GC_THRESHOLD_OBJECTS = 100_000
TIMED_OUT_STATUS, HUNG_UP_STATUS, INTERRUPTED_STATUS, BROKEN_PIPE_STATUS, TERMINATED_STATUS, BUG_STATUS = (
    124,
    129,
    130,
    141,
    143,
    70,
)


class EndedBySignal(KeyboardInterrupt):
    """A signal other than SIGINT that ends the run like an interrupt, with its own word and exit status."""

    word = ""
    status = INTERRUPTED_STATUS


class Terminated(EndedBySignal):
    """SIGTERM."""

    word, status = "terminated", TERMINATED_STATUS


class HungUp(EndedBySignal):
    """SIGHUP: the terminal was closed."""

    word, status = "hung up", HUNG_UP_STATUS


class TimedOut(EndedBySignal):
    """The time limit of --timeout was reached. The status is that of timeout(1)."""

    word, status = "timed out", TIMED_OUT_STATUS


class _ClosedOutput(io.RawIOBase):
    """Replaces a standard output that was closed before the start: data must not be lost silently."""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        raise OSError(errno.EBADF, "standard output is closed")

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "standard output is closed")


def run() -> None:
    """The console script: runs with the process's argv and streams; ends the process."""
    # Imports and batches create thousands of objects at a time and hardly any cycle: frequent collection is a waste.
    gc.set_threshold(GC_THRESHOLD_OBJECTS, 10, 10)
    # Raised as an exception, so that blocks are left in order: locks are released and temporary files removed.
    signal.signal(signal.SIGTERM, _terminate)
    # Under nohup the signal is ignored, which must not be changed.
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, _hang_up)
    try:
        status = main(
            sys.argv[1:],
            environ=os.environ,
            # Python has None for a stream whose descriptor was closed before the start.
            stdin=sys.stdin.buffer if sys.stdin else ClosedInput(),
            stdout=_open_stdout(),
            stderr=sys.stderr.buffer if sys.stderr else io.BytesIO(),
            own_process=True,
        )
        try:
            sys.stdout and sys.stdout.flush()
        except OSError:
            # Reported already; the interpreter would flush again at exit, print an error, and change the exit status.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _end_process(status)
    except KeyboardInterrupt as stop:
        # All work is finished and written: only the exit status shows the interrupt.
        os._exit(stop.status if isinstance(stop, EndedBySignal) else INTERRUPTED_STATUS)


def _open_stdout() -> BinaryIO:
    """Standard output, always buffered."""
    if not sys.stdout:
        return io.BufferedWriter(_ClosedOutput())
    if isinstance(sys.stdout.buffer, io.RawIOBase):
        # With PYTHONUNBUFFERED, a write to a pipe may be partial if its reader closes it or a signal arrives. A buffer
        # writes the rest, or raises.
        return open(sys.stdout.fileno(), "wb", closefd=False)
    return sys.stdout.buffer


def _end_process(status: int) -> NoReturn:
    """End the process without finalizing the interpreter, which takes as long as a small command.

    Exit handlers are run, and a process with threads waits for them as usual.
    """
    threads = sys.modules.get("threading")
    if threads is not None and threads.active_count() > 1:
        sys.exit(status)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream and stream.flush()
    os._exit(status)


def main(
    argv: Sequence[str],
    *,
    environ: Mapping[str, str],
    stdin: BinaryIO,
    stdout: BinaryIO,
    stderr: BinaryIO,
    seam: Seam = SEAM,
    clock: Clock = system_clock,
    own_process: bool = False,
    kept: ConfigurationCache | None = None,
) -> int:
    """Run one command line and return its exit status (``sowctl(1)``, EXIT STATUS); raises nothing.

    ``kept``: the configurations that this process has already read, if it runs several command lines.
    ``own_process``: the process runs no other program, so signal handlers may be set.
    """
    # The colour is determined before parsing, because errors about options use it, too.
    streams = Streams(stdin, stdout, stderr, environ, color=_find_early_option(argv, environ, "--color", "auto"))
    invocation = Invocation(streams, environ, seam, clock)
    invocation.own_process = own_process
    invocation.kept = kept
    invocation.limit = _start_timeout if own_process else None
    try:
        status = _dispatch(invocation, argv)
        if invocation.meter is not None:
            invocation.meter.end()
        streams.end_paging()
        # Inside the boundary: a failure of the last write is an ordinary error.
        stdout.flush()
        return status
    # Before OSError, its base class: a closed pipe, as by head(1), needs no message.
    except BrokenPipeError as gone:
        _end_paging(streams)
        return invocation.left if isinstance(gone, PagerLeft) else BROKEN_PIPE_STATUS
    except (SowError, OSError) as error:
        _end_paging(streams)
        return _report_refusal(error, invocation, argv)
    except UnicodeEncodeError as error:
        _end_paging(streams)
        # The command line has bytes that are not UTF-8 as surrogates; most uses support them, some do not.
        from sowctl.cli.boundary import find_encoding_error

        named = find_encoding_error(argv)
        return _report_bug(error, invocation, argv) if named is None else _report_refusal(named, invocation, argv)
    except KeyboardInterrupt as stop:
        # Ctrl-C and --timeout leave the pager open; any other end of this process ends it, too.
        _end_paging(streams, at_once=isinstance(stop, EndedBySignal) and not isinstance(stop, TimedOut))
        return _report_stop(invocation, stop)
    except MemoryError as error:
        _end_paging(streams)
        return _report_refusal(build_memory_error(error), invocation, argv)
    except Exception as error:  # the boundary: every other exception is a bug in sowctl
        _end_paging(streams)
        return _report_bug(error, invocation, argv)


def _end_paging(streams: Streams, *, at_once: bool = False) -> None:
    """Let the user leave the pager before the message about the end of the run; errors of a closed terminal are
    ignored."""
    with suppress(OSError):
        streams.end_paging(at_once=at_once)


def _dispatch(invocation: Invocation, argv: Sequence[str]) -> int:
    if len(argv) == 1 and argv[0] in ("--version", "-V"):
        from sowctl.version import VERSION

        # Answered here, so that nothing else is imported.
        invocation.streams.stdout.write(f"sowctl {VERSION}\n".encode())
        return 0
    from sowctl.cli.parsing.dispatch import dispatch_command

    return dispatch_command(invocation, argv)


def _report_refusal(error: SowError | OSError, invocation: Invocation, argv: Sequence[str]) -> int:
    from sowctl.cli.boundary import add_hint, convert_oserror, report_error

    reported = convert_oserror(error) if isinstance(error, OSError) else add_hint(error, invocation.command)
    for name, words in (("durable", invocation.durable), ("resume", invocation.resume)):
        if words is not None:
            # The error's own facts are more precise.
            reported.facts.setdefault(name, words)
    report_error(reported, invocation.streams, _find_early_option(argv, invocation.environ, "--error-format", "text"))
    _write_traceback(error, invocation, argv)
    return reported.exit_status


def _report_stop(invocation: Invocation, stop: KeyboardInterrupt) -> int:
    word, status = (stop.word, stop.status) if isinstance(stop, EndedBySignal) else ("interrupted", INTERRUPTED_STATUS)
    if invocation.settings.error_format == "json":
        row = {"level": "error", "code": f"SOW-CLI-{status}", "exit": status, "message": word}
        row |= {"durable": invocation.durable} | ({"resume": invocation.resume} if invocation.resume else {})
        invocation.streams.write_stderr_json(row)
    else:
        # The terminal has echoed ^C; the message starts on a new line.
        front = () if isinstance(stop, EndedBySignal) else ("",)
        words = word + (f"; {invocation.durable}" if invocation.durable else "")
        resume = () if invocation.resume is None else (f"  {invocation.resume}",)
        invocation.streams.write_stderr(*front, words, *resume)
    return status


def _report_bug(error: Exception, invocation: Invocation, argv: Sequence[str]) -> int:
    from sowctl.cli.boundary import report_error

    words = SowError(
        "SOW-CLI-070",
        f"this is a bug in sowctl: {type(error).__name__}: {str(error)[:200]}",
        hint="please report it with the command line and the output of the same command with --debug",
        durable=invocation.durable,
    )
    report_error(words, invocation.streams, _find_early_option(argv, invocation.environ, "--error-format", "text"))
    _write_traceback(error, invocation, argv)
    return BUG_STATUS


def _write_traceback(error: BaseException, invocation: Invocation, argv: Sequence[str]) -> None:
    # Searched in argv: the error may have occurred before it was parsed.
    if "--debug" in argv or invocation.settings.debug:
        import traceback

        invocation.streams.write_stderr(*"".join(traceback.format_exception(error)).rstrip("\n").split("\n"))


def _find_early_option(argv: Sequence[str], environ: Mapping[str, str], name: str, default: str) -> str:
    """The value of a global option before parsing, for the format of parsing errors."""
    default = environ.get(f"SOWCTL_{name[2:].replace('-', '_').upper()}") or default
    for position, word in enumerate(argv):
        # All words after it are operands.
        if word == "--":
            break
        if word == name and position + 1 < len(argv):
            return argv[position + 1]
        if word.startswith(name + "="):
            return word[len(name) + 1 :]
    return default


def _start_timeout(seconds: float) -> None:
    # A process timer instead of a thread: it interrupts waits, and no fork inherits it.
    signal.signal(signal.SIGALRM, _time_out)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _time_out(number: int, frame: object) -> None:
    raise TimedOut


def _terminate(number: int, frame: object) -> None:
    raise Terminated


def _hang_up(number: int, frame: object) -> None:
    raise HungUp
