"""The terminal of ``sowctl shell``: a line is edited, completed and remembered; the only importer of prompt_toolkit."""

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

from sowctl.cli.completion.offers import offers
from sowctl.cli.main import INTERRUPTED, EndedBySignal
from sowctl.cli.shell.lines import being_written, goes_on, quoted
from sowctl.cli.shell.running import ENDING, LEAVING, Runner
from sowctl.errors import UsageError
from sowctl.output.display import display

if TYPE_CHECKING:
    from sowctl.cli.completion.known import KnownInstance
    from sowctl.cli.context import Invocation, Settings

PROMPT = "sowctl> "
VARIABLE = "SOWCTL_HISTORY"
_MOST_PATHS = 500


def converse(invocation: Invocation, **terminal: Any) -> int:
    """Read and run commands until the end of the input or ``exit``; the status is that of the last command.

    ``terminal``: other ``input`` and ``output`` than the process's own, as prompt_toolkit has them.
    """
    colored = invocation.streams.colored(invocation.streams.stdout)
    history = _history(invocation)
    status = 0
    with Runner(invocation, invocation.streams.stdin) as runner:
        completer = LineCompleter(invocation)
        session: PromptSession[str] = PromptSession(
            completer=completer,
            complete_while_typing=False,
            history=history,
            enable_history_search=True,
            multiline=Condition(lambda: goes_on(get_app().current_buffer.text)),
            prompt_continuation="......> ",
            color_depth=None if colored else ColorDepth.DEPTH_1_BIT,
            **terminal,
        )
        while not runner.left and status not in ENDING:
            try:
                text = session.prompt(PROMPT)
            except EndedBySignal:
                raise
            except KeyboardInterrupt:
                # Ctrl-C at the prompt drops the line; the signals that end the process were raised above.
                continue
            except EOFError:
                break
            status = runner.run(text)
            completer.forget()
    # An interrupt ends its command and not the shell, whose end is no failure then.
    return 0 if status == INTERRUPTED else status


def history_path(environ: Mapping[str, str]) -> Path | None:
    """The file of the history: ``SOWCTL_HISTORY``, else in the XDG directory for state; None where that is empty."""
    named = environ.get(VARIABLE)
    if named is not None:
        return Path(named) if named else None
    state = environ.get("XDG_STATE_HOME") or os.path.join(environ.get("HOME") or str(Path.home()), ".local", "state")  # noqa: PTH118
    return Path(state) / "sowctl" / "history"


class _Remembered(FileHistory):
    """A history that leaves out lines that begin with a blank."""

    def store_string(self, string: str) -> None:
        if not string[:1].isspace():
            super().store_string(string)


def _history(invocation: Invocation) -> History:
    path = history_path(invocation.environ)
    if path is None:
        return InMemoryHistory()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Filters tell of data: nobody else reads them.
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError as error:
        invocation.note(f"the command history is not saved: {display(str(path))}: {error.strerror}")
        return InMemoryHistory()
    return _Remembered(str(path))


class LineCompleter(Completer):
    """Asks what the completion scripts ask; what it found out of an instance serves until :meth:`forget`."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._seen: dict[Settings, KnownInstance] = {}

    def forget(self) -> None:
        """A command was run: names, fields and values may be other ones."""
        self._seen.clear()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """What completes the word before the cursor."""
        text = document.text_before_cursor
        try:
            before, word = being_written(text)
        except UsageError:
            return
        before = before[1:] if before[:1] == ["sowctl"] else before
        found = offers(self._invocation, before, word.text, self._seen)
        start = word.start - len(text)
        for one in found.words:
            shown = one.text[_common(one.text, word.text) :]
            finished = not found.unfinished
            yield Completion(
                quoted(one.text, word.open, finished=finished) + (" " if finished else ""),
                start,
                display=display(shown),
                display_meta=display(one.help),
            )
        if not before and "exit".startswith(word.text):
            yield from (Completion(leave, start, display_meta="leave the shell") for leave in LEAVING[:1])
        if found.paths:
            for path in _paths(found.paths, word.text.removeprefix(found.front)):
                written = quoted(found.front + path, word.open, finished=not path.endswith("/"))
                yield Completion(written, start, display=display(path))


def _common(text: str, written: str) -> int:
    """Where the part of an offer begins that is to be shown: behind what is finished of the word."""
    place = max((written.rfind(mark) for mark in " ,(="), default=-1) + 1
    return place if text[:place] == written[:place] else 0


def _paths(kind: str, written: str) -> Iterator[str]:
    """Files and directories that begin with what is written, directories with a slash behind them."""
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
    for name, is_directory in found[:_MOST_PATHS]:
        if is_directory:
            yield f"{above}{slash}{name}/"
        elif kind == "file" or (kind == "store" and name.endswith(".sow")):
            yield f"{above}{slash}{name}"
