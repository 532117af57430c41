"""``sowctl completion``: scripts for shells, and the names of a configuration that they ask for."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import NAMED, Argument, option
from sowctl.errors import UsageError

EXAMPLES = (
    "sowctl completion bash > ~/.local/share/bash-completion/completions/sowctl",
    "sowctl completion zsh > ~/.zfunc/_sowctl",
    "sowctl completion fish > ~/.config/fish/completions/sowctl.fish",
    "sowctl completion --names view",
)


def run(
    invocation: Invocation,
    shell: Annotated[str | None, Argument("SHELL", "bash, zsh or fish", choices=("bash", "zsh", "fish"))] = None,
    names: Annotated[
        str | None, option("--names", help="print the names that stand for such a value", choices=tuple(NAMED))
    ] = None,
) -> int:
    """Print a completion script.

    It knows commands, options and words. Where the name of a topic, view, conflated topic or queue belongs, it starts
    sowctl with --names, which prints the names of the configuration, one a line; without a configuration there are
    none.
    """
    if (shell is None) == (names is None):
        raise UsageError("SOW-CLI-098", "give a shell or --names", hint="sowctl completion bash")
    if shell is not None:
        from sowctl.cli.words.completion import script

        invocation.streams.stdout.write(script(shell).encode())
        return 0
    assert names is not None
    with invocation.open_instance() as instance:
        wanted = NAMED[names]
        found = dict.fromkeys(
            entry.name
            for entry in (instance.config.sow if instance.config is not None else ())
            # LocalQueue and GroupLocalQueue are queues, too.
            if any(kind in entry.kind.lower() for kind in wanted if kind != "topic")
            or ("topic" in wanted and entry.kind == "Topic")
        )
    for name in found:
        # A line is a name: one that would be two lines is none that a shell could offer.
        if name.isprintable():
            invocation.streams.stdout.write(name.encode() + b"\n")
    return 0
