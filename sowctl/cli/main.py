"""The entry of the program and its one error boundary: argv in, exit status out.

``run`` is the console script; ``main`` does the same for streams, environment, seam and clock that the caller gives.
Order of thrift: ``--version`` and ``--help`` are answered from the table; a command's module is imported only when its
word was read; Typer only where the command line is not plain (``arguments.py``).
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
    """A signal other than SIGINT that ends the run like an interrupt, with a word and an exit status of its own."""

    word = ""
    status = INTERRUPTED_STATUS


class Terminated(EndedBySignal):
    """SIGTERM."""

    word, status = "terminated", TERMINATED_STATUS


class HungUp(EndedBySignal):
    """SIGHUP: the terminal has gone."""

    word, status = "hung up", HUNG_UP_STATUS


class TimedOut(EndedBySignal):
    """The time of --timeout is over. The status is that of timeout(1)."""

    word, status = "timed out", TIMED_OUT_STATUS


class _ClosedOutput(io.RawIOBase):
    """Stands for a standard output that was closed before the start: data must not vanish silently."""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        raise OSError(errno.EBADF, "standard output is closed")

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "standard output is closed")


def run() -> None:
    """The console script: the process's own argv and streams; ends the process."""
    # Imports and batches make thousands of objects at a time and hardly a cycle: looking for cycles so often is waste.
    gc.set_threshold(GC_THRESHOLD_OBJECTS, 10, 10)
    # Raised as an exception, so that blocks are left in order: locks are released and temporary files removed.
    signal.signal(signal.SIGTERM, _terminate)
    # Under nohup the signal is ignored, and has to stay so.
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
            # Reported already; the interpreter would flush once more at its end, complain, and end with another status.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _end_process(status)
    except KeyboardInterrupt as stop:
        # After all was done and written: nothing is left to be told but that it came.
        os._exit(stop.status if isinstance(stop, EndedBySignal) else INTERRUPTED_STATUS)


def _open_stdout() -> BinaryIO:
    """Standard output, always behind a buffer."""
    if not sys.stdout:
        return io.BufferedWriter(_ClosedOutput())
    if isinstance(sys.stdout.buffer, io.RawIOBase):
        # With PYTHONUNBUFFERED, writing to a pipe may take a part only, when its reader goes or a signal comes. A
        # buffer writes the rest, or raises.
        return open(sys.stdout.fileno(), "wb", closefd=False)
    return sys.stdout.buffer


def _end_process(status: int) -> NoReturn:
    """End the process without taking the interpreter apart, object by object: that takes as long as a small command.

    What was registered to be done at exit is done, and a process that has threads waits for them as it always would.
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

    ``kept``: the configurations that this process has read already, where it runs several command lines.
    ``own_process``: the process runs no program but this one, so that signal handlers may be set.
    """
    # The colour is looked up before anything is parsed, because what is wrong with the options is shown in it, too.
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
        # Within the boundary: what the last write could not put out is an error like any other.
        stdout.flush()
        return status
    # Before OSError, of which it is a kind: that the reader went away, as head(1) does, is not worth a word.
    except BrokenPipeError as gone:
        _end_paging(streams)
        return invocation.left if isinstance(gone, PagerLeft) else BROKEN_PIPE_STATUS
    except (SowError, OSError) as error:
        _end_paging(streams)
        return _report_refusal(error, invocation, argv)
    except UnicodeEncodeError as error:
        _end_paging(streams)
        # The command line passes bytes that are not UTF-8 on as surrogates; most places can do with those, some not.
        from sowctl.cli.boundary import find_encoding_error

        named = find_encoding_error(argv)
        return _report_bug(error, invocation, argv) if named is None else _report_refusal(named, invocation, argv)
    except KeyboardInterrupt as stop:
        # Ctrl-C and --timeout leave the pager to its reader; what else ends this process ends it, too.
        _end_paging(streams, at_once=isinstance(stop, EndedBySignal) and not isinstance(stop, TimedOut))
        return _report_stop(invocation, stop)
    except MemoryError as error:
        _end_paging(streams)
        return _report_refusal(build_memory_error(error), invocation, argv)
    except Exception as error:  # the boundary: everything else is a bug of ours
        _end_paging(streams)
        return _report_bug(error, invocation, argv)


def _end_paging(streams: Streams, *, at_once: bool = False) -> None:
    """Let the reader leave the pager before the words on why the run ended; a terminal that is gone adds nothing."""
    with suppress(OSError):
        streams.end_paging(at_once=at_once)


def _dispatch(invocation: Invocation, argv: Sequence[str]) -> int:
    if len(argv) == 1 and argv[0] in ("--version", "-V"):
        from sowctl.version import VERSION

        # Answered here, so that nothing else has to be imported for it.
        invocation.streams.stdout.write(f"sowctl {VERSION}\n".encode())
        return 0
    from sowctl.cli.parsing.dispatch import dispatch_command

    return dispatch_command(invocation, argv)


def _report_refusal(error: SowError | OSError, invocation: Invocation, argv: Sequence[str]) -> int:
    from sowctl.cli.boundary import add_hint, convert_oserror, report_error

    reported = convert_oserror(error) if isinstance(error, OSError) else add_hint(error, invocation.command)
    for name, words in (("durable", invocation.durable), ("resume", invocation.resume)):
        if words is not None:
            # What the error itself says of it is more exact.
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
        # A terminal has echoed ^C; the words belong into a line of their own.
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
    # Looked for in the words themselves: the error may have come before they were read.
    if "--debug" in argv or invocation.settings.debug:
        import traceback

        invocation.streams.write_stderr(*"".join(traceback.format_exception(error)).rstrip("\n").split("\n"))


def _find_early_option(argv: Sequence[str], environ: Mapping[str, str], name: str, default: str) -> str:
    """The value of a global option before anything was parsed: errors in parsing must be written as it says."""
    default = environ.get(f"SOWCTL_{name[2:].replace('-', '_').upper()}") or default
    for position, word in enumerate(argv):
        # Behind it everything is an operand, whatever it looks like.
        if word == "--":
            break
        if word == name and position + 1 < len(argv):
            return argv[position + 1]
        if word.startswith(name + "="):
            return word[len(name) + 1 :]
    return default


def _start_timeout(seconds: float) -> None:
    # A timer of the process and no thread: what the command waits for is interrupted, and no fork inherits it.
    signal.signal(signal.SIGALRM, _time_out)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _time_out(number: int, frame: object) -> None:
    raise TimedOut


def _terminate(number: int, frame: object) -> None:
    raise Terminated


def _hang_up(number: int, frame: object) -> None:
    raise HungUp
