"""``sowctl completion``: scripts for shells."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import Argument

EXAMPLES = (
    "sowctl completion bash > ~/.local/share/bash-completion/completions/sowctl",
    "sowctl completion zsh > ~/.zfunc/_sowctl",
    "sowctl completion fish > ~/.config/fish/completions/sowctl.fish",
)


def run(
    invocation: Invocation,
    shell: Annotated[str, Argument("SHELL", "bash, zsh or fish", choices=("bash", "zsh", "fish"))],
) -> int:
    """Print a completion script.

    It is complete in itself: completing a word starts no program.
    """
    from sowctl.cli.words.completion import script

    invocation.streams.stdout.write(script(shell).encode())
    return 0
