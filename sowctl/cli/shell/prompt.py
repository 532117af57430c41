"""The terminal of ``sowctl shell``: line editing, completion and history; the only importer of prompt_toolkit."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.output import ColorDepth

from sowctl.cli.completion.candidates import find_candidates
from sowctl.cli.main import INTERRUPTED_STATUS, EndedBySignal
from sowctl.cli.shell.command_lines import is_unfinished, quote_word, split_last_word
from sowctl.cli.shell.runner import ENDING_STATUSES, EXIT_COMMANDS, CommandRunner
from sowctl.errors import UsageError
from sowctl.output.display import escape_line

if TYPE_CHECKING:
    from sowctl.cli.completion.instance_values import InstanceValues
    from sowctl.cli.context import Invocation
    from sowctl.cli.settings import Settings

PROMPT_TEXT = "sowctl> "
HISTORY_VARIABLE = "SOWCTL_HISTORY"
_MAX_PATHS = 500


def run_prompt(invocation: Invocation, **terminal: Any) -> int:
    """Read and run commands until the end of the input or ``exit``; the status is that of the last command.

    ``terminal``: other ``input`` and ``output`` than the process's own, for prompt_toolkit.
    """
    colored = invocation.streams.shows_color(invocation.streams.stdout)
    history = _open_history(invocation)
    status = 0
    with CommandRunner(invocation, invocation.streams.stdin) as runner:
        completer = LineCompleter(invocation)
        session: PromptSession[str] = PromptSession(
            completer=completer,
            complete_while_typing=False,
            history=history,
            enable_history_search=True,
            multiline=Condition(lambda: is_unfinished(get_app().current_buffer.text)),
            prompt_continuation="......> ",
            color_depth=None if colored else ColorDepth.DEPTH_1_BIT,
            **terminal,
        )
        while not runner.left and status not in ENDING_STATUSES:
            try:
                text = session.prompt(PROMPT_TEXT)
            except EndedBySignal:
                raise
            except KeyboardInterrupt:
                # Ctrl-C at the prompt discards the line; signals that end the process were raised above.
                continue
            except EOFError:
                break
            status = runner.run(text)
            completer.forget()
    # An interrupt ends its command and not the shell, so a later end of the shell is no failure.
    return 0 if status == INTERRUPTED_STATUS else status


def find_history_path(environ: Mapping[str, str]) -> Path | None:
    """The file of the history: ``SOWCTL_HISTORY``, else in the XDG directory for state; None if the variable is
    empty."""
    named = environ.get(HISTORY_VARIABLE)
    if named is not None:
        return Path(named) if named else None
    state = environ.get("XDG_STATE_HOME") or os.path.join(environ.get("HOME") or str(Path.home()), ".local", "state")  # noqa: PTH118
    return Path(state) / "sowctl" / "history"


class _FilteredHistory(FileHistory):
    """A history that skips lines that begin with a blank."""

    def store_string(self, string: str) -> None:
        if not string[:1].isspace():
            super().store_string(string)


def _open_history(invocation: Invocation) -> History:
    path = find_history_path(invocation.environ)
    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Filters reveal data: only the user may read them.
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError as error:
        invocation.note(f"the command history is not saved: {escape_line(str(path))}: {error.strerror}")
        return InMemoryHistory()
    return _FilteredHistory(str(path))


class LineCompleter(Completer):
    """Completes as the completion scripts do; instance values are cached until :meth:`forget`."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._seen: dict[Settings, InstanceValues] = {}

    def forget(self) -> None:
        """Clear the cache after a command, which may have changed names, fields and values."""
        self._seen.clear()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield the completions of the word before the cursor."""
        text = document.text_before_cursor
        try:
            before, word = split_last_word(text)
        except UsageError:
            return
        before = before[1:] if before[:1] == ["sowctl"] else before
        found = find_candidates(self._invocation, before, word.text, self._seen)
        start = word.start - len(text)
        for one in found.words:
            shown = one.text[_find_shown_start(one.text, word.text) :]
            finished = not found.unfinished
            yield Completion(
                quote_word(one.text, word.open, finished=finished) + (" " if finished else ""),
                start,
                display=escape_line(shown),
                display_meta=escape_line(one.help),
            )
        if not before and "exit".startswith(word.text):
            yield from (Completion(leave, start, display_meta="leave the shell") for leave in EXIT_COMMANDS[:1])
        if found.paths:
            for path in _list_paths(found.paths, word.text.removeprefix(found.front)):
                written = quote_word(found.front + path, word.open, finished=not path.endswith("/"))
                yield Completion(written, start, display=escape_line(path))


def _find_shown_start(text: str, written: str) -> int:
    """Return where the shown part of a candidate begins: after the finished part of the word."""
    place = max((written.rfind(mark) for mark in " ,(="), default=-1) + 1
    return place if text[:place] == written[:place] else 0


def _list_paths(kind: str, written: str) -> Iterator[str]:
    """Files and directories that begin with the written text, directories with a trailing slash."""
    above, slash, begin = written.rpartition("/")
    try:
        with os.scandir(above + slash or ".") as entries:
            found = sorted(
                (entry.name, entry.is_dir())
                for entry in entries
                if entry.name.startswith(begin) and (begin or not entry.name.startswith("."))
            )
    except OSError:
        return
    for name, is_directory in found[:_MAX_PATHS]:
        if is_directory:
            yield f"{above}{slash}{name}/"
        elif kind == "file" or (kind == "store" and name.endswith(".sow")):
            yield f"{above}{slash}{name}"
