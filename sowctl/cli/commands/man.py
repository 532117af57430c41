"""``sowctl man``: the manual."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.streams import is_terminal
from sowctl.cli.words.declare import Argument

EXAMPLES = ("sowctl man", "sowctl man query", "sowctl man journal dump", "sowctl man sow-store")


def run(
    invocation: Invocation,
    page: Annotated[
        list[str] | None,
        Argument("PAGE", "a command, or a page such as sow-store; default sowctl itself", complete="page"),
    ] = None,
) -> int:
    """Show a manual page: with man(1) on a terminal, else as plain text."""
    from sowctl.cli.manual.viewer import find, formatted

    source = find(page or [])
    text = formatted(source, pager=is_terminal(invocation.streams.stdout), environ=invocation.environ)
    if text is not None:
        invocation.streams.stdout.write(text)
    return 0
