"""Run commands one after the other in this process, each inside the error boundary, as in a process of its own.

They share parsed configurations, and stores, which stay open between commands. Both detect changes of the files by
others. No command can end the shell.
"""

from __future__ import annotations

import codecs
import re
import signal
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

from sowctl.cli.configuration_cache import ConfigurationCache
from sowctl.cli.io.sources import STDIN_NAME
from sowctl.cli.main import BROKEN_PIPE_STATUS, HUNG_UP_STATUS, INTERRUPTED_STATUS, TERMINATED_STATUS, main
from sowctl.cli.parsing.global_options import GLOBAL_PARAMETERS, GLOBAL_VARIABLES
from sowctl.cli.shell.command_lines import Unfinished, build_unfinished_error, iterate_commands, split_words
from sowctl.cli.streams import ClosedInput
from sowctl.engine.instance import Instance
from sowctl.errors import SowError, UsageError
from sowctl.messages.framing.encodings import HEAD_BYTES, refuse_encoding

if TYPE_CHECKING:
    from sowctl.cli.context import Invocation

ENDING_STATUSES = frozenset({HUNG_UP_STATUS, BROKEN_PIPE_STATUS, TERMINATED_STATUS})
"""Statuses of commands after which no user is left, so the shell ends."""
EXIT_COMMANDS = ("exit", "quit")


class CommandRunner:
    """Runs commands with the streams of an invocation; its global options are the defaults of all of them."""

    def __init__(self, invocation: Invocation, stdin: BinaryIO) -> None:
        self.invocation = invocation
        self.left = False
        self._stdin = stdin
        self._kept = ConfigurationCache()
        invocation.kept = self._kept
        self._environ = dict(invocation.environ) | _build_variables(invocation)

    def __enter__(self) -> CommandRunner:
        from sowctl.store.opening.shared_environments import keep_open

        keep_open()
        return self

    def __exit__(self, *_: object) -> None:
        from sowctl.store.opening.shared_environments import end_keep_open

        end_keep_open()
        Instance().close()

    def run(self, text: str) -> int:
        """Run one command and return its status; 0 for an empty line. ``exit`` and ``quit`` set ``left``."""
        try:
            words = _drop_program_name(split_words(text))
            if words[:1] == ["shell"]:
                raise UsageError("SOW-CLI-103", "the shell is already running", hint="to leave it, use 'exit'")
        except Unfinished:
            return self._report_error(build_unfinished_error(text))
        except SowError as error:
            return self._report_error(error)
        if not words:
            return 0
        if words[0] in EXIT_COMMANDS and len(words) == 1:
            self.left = True
            return 0
        return self._call_command(words)

    def _call_command(self, words: Sequence[str]) -> int:
        outer = self.invocation
        streams = outer.streams
        try:
            return main(
                words,
                environ=self._environ,
                stdin=self._stdin,
                stdout=streams.stdout,
                stderr=streams.stderr,
                seam=outer.seam,
                clock=outer.clock,
                own_process=outer.own_process,
                kept=self._kept,
            )
        finally:
            if outer.own_process and outer.settings.timeout is None:
                # The timer of a command's --timeout ends with the command.
                signal.setitimer(signal.ITIMER_REAL, 0)

    def _report_error(self, error: SowError) -> int:
        from sowctl.cli.boundary import report_error

        report_error(error, self.invocation.streams, self.invocation.settings.error_format)
        return error.exit_status


_LINE_PATTERN = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def run_batch(invocation: Invocation, *, stop_on_error: bool) -> int:
    """Run the commands of standard input, one per line, to its end; the status is that of the first that failed.

    The commands have no input of their own: the following input is commands.
    """
    first = 0
    with CommandRunner(invocation, ClosedInput()) as runner:
        for number, text in iterate_commands(_read_lines(invocation.streams.stdin)):
            status = runner.run(text)
            if status:
                first = first or status
                invocation.note(f"line {number} ended with status {status}")
            if runner.left or status in ENDING_STATUSES or status == INTERRUPTED_STATUS or (status and stop_on_error):
                break
    return first


def _read_lines(stream: BinaryIO) -> Iterator[str]:
    """The lines of a script with their ends: a line feed, a carriage return, or both.

    Without its byte order mark. Raises InputError ``SOW-INP-006`` for UTF-16.
    """
    first = True
    for data in stream:
        line = data
        if first:
            refuse_encoding(line[:HEAD_BYTES], STDIN_NAME)
            line, first = line.removeprefix(codecs.BOM_UTF8), False
        for part in _LINE_PATTERN.findall(line):
            yield part.decode("utf-8", "surrogateescape")


def _drop_program_name(words: list[str]) -> list[str]:
    """Drop the name of the program, with which lines of documentation begin."""
    return words[1:] if words[:1] == ["sowctl"] else words


def _build_variables(invocation: Invocation) -> dict[str, str]:
    """The global options of the shell, as the variables that set them for its commands."""
    found = {}
    for parameter in GLOBAL_PARAMETERS:
        value = getattr(invocation.settings, parameter.name)
        # --timeout limits the whole shell, whose timer is already running.
        if value == parameter.default or parameter.name == "timeout":
            continue
        found[GLOBAL_VARIABLES[parameter.name]] = value if isinstance(value, str) else str(min(int(value), 3))
    return found
