"""``sowctl shell``: several commands in one process."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.streams import is_terminal
from sowctl.declarations import declare_option
from sowctl.extras import build_missing_package_error

EXAMPLES = (
    "sowctl shell",
    "printf '%s\\n' 'info orders' 'check orders' | sowctl shell --stop-on-error",
    "cat checks.txt | sowctl shell --quiet",
)


class ShellArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl shell``."""

    stop_on_error: Annotated[
        bool, declare_option("--stop-on-error", help="In batch mode: stop after the first command that fails.")
    ] = False


def run(invocation: Invocation, arguments: ShellArguments) -> int:
    """Run commands interactively or from a pipe, without repeating the program name.

    All commands are available. They run in one process and share parsed configurations and open stores; changes to the
    files by others are detected. Global options of the shell are the defaults of every command.

    On a terminal, TAB completes commands, options, names, fields, values and keys; the arrow keys move through the
    history, which is stored in SOWCTL_HISTORY (default ~/.local/state/sowctl/history; not stored if the variable is
    empty), except for lines that begin with a space. Ctrl-C interrupts the running command or discards the line; exit
    or Ctrl-D leaves the shell. The interactive shell requires the extra tui.

    Input from a pipe or a file is a batch with one command per line; # starts a comment. Quotes and backslashes work as
    in a POSIX shell; variables, patterns and redirections are not supported. Commands in a batch cannot read standard
    input. A note names each line that failed, and the exit status is that of the first one.
    """
    if not is_terminal(invocation.streams.stdin):
        from sowctl.cli.shell.runner import run_batch

        return run_batch(invocation, stop_on_error=arguments.stop_on_error)
    try:
        from sowctl.cli.shell.prompt import run_prompt
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "prompt_toolkit":
            raise
        raise build_missing_package_error(
            "SOW-CLI-104",
            "the interactive shell requires the package prompt_toolkit, which is not installed",
            "tui",
            more="reading commands from a pipe does not require it: sowctl shell < FILE",
        ) from None
    return run_prompt(invocation)
