"""``sowctl shell``: many commands in one process."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.streams import is_terminal
from sowctl.cli.words.declare import option
from sowctl.extras import missing_package

EXAMPLES = (
    "sowctl shell",
    "printf '%s\\n' 'info orders' 'check orders' | sowctl shell --stop-on-error",
    "cat checks.txt | sowctl shell --quiet",
)


def run(
    invocation: Invocation,
    stop_on_error: Annotated[
        bool, option("--stop-on-error", help="from a pipe or file: end behind the first command that fails")
    ] = False,
) -> int:
    """Run commands one after the other, without the name of the program, at a terminal or from a pipe.

    All commands are there. They run in one process and share what they have read of configurations, and stores stay
    open from one to the next; files that others change meanwhile are noticed. Global options given here are the
    defaults of every command.

    At a terminal, TAB completes commands, options, names, fields, values and keys; the arrow keys go through the
    history, which is kept in SOWCTL_HISTORY (default ~/.local/state/sowctl/history; nothing where it is empty), except
    for lines that begin with a blank. Ctrl-C ends the command that runs, or drops the line; exit or Ctrl-D leaves. The
    terminal needs the extra tui.

    From a pipe or a file it is a batch: a command a line, # begins a comment, quotation marks and backslashes are those
    of a POSIX shell, and nothing else is: no variables, no patterns, no redirections. Commands of a batch cannot read
    standard input. A note says which line failed, and the status at the end is that of the first one.
    """
    if not is_terminal(invocation.streams.stdin):
        from sowctl.cli.shell.running import batch

        return batch(invocation, stop_on_error=stop_on_error)
    try:
        from sowctl.cli.shell.prompt import converse
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "prompt_toolkit":
            raise
        raise missing_package(
            "SOW-CLI-104",
            "the shell at a terminal needs the package prompt_toolkit, which is not installed",
            "tui",
            more="commands from a pipe need no package: sowctl shell < FILE",
        ) from None
    return converse(invocation)
