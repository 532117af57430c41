"""``sowctl completion``: completion scripts for shells, and the completions that they request."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.declarations import COMPLETED_KINDS, Argument, declare_option
from sowctl.errors import UsageError

EXAMPLES = (
    "sowctl completion bash > ~/.local/share/bash-completion/completions/sowctl",
    "sowctl completion zsh > ~/.zfunc/_sowctl",
    "sowctl completion fish > ~/.config/fish/completions/sowctl.fish",
    "sowctl completion --names view",
    "sowctl completion zsh -- query orders '/sy'",
)


class CompletionArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl completion``."""

    shell: Annotated[str | None, Argument("SHELL", "Shell: bash, zsh or fish.", choices=("bash", "zsh", "fish"))] = None
    words: Annotated[list[str] | None, Argument("WORD", "After --: a command line, up to the word to complete.")] = None
    names: Annotated[
        str | None,
        declare_option("--names", help="Print the configured names of this kind.", choices=tuple(COMPLETED_KINDS)),
    ] = None


def run(invocation: Invocation, arguments: CompletionArguments) -> int:
    """Print a completion script, or the completions of a command line.

    The script asks sowctl for completions: commands, options and their values, names of topics, views and queues, and,
    in filters and field lists, the paths, values and keys of the first 200 records. File and directory arguments are
    completed as usual.

    With WORDs, the completions of the last WORD are printed; an empty WORD starts a new word. The first line has the
    kind of paths to complete (file, directory, store, or -), whether more follows a word (unfinished, or -) and the
    prefix of a path; every other line is a word, a tab and its description. With --names, the configured names are
    printed, one per line; without a configuration there are none.
    """
    if (arguments.shell is None) == (arguments.names is None):
        raise UsageError("SOW-CLI-098", "give a shell or --names", hint="sowctl completion bash")
    out = invocation.streams.stdout
    if arguments.names is not None:
        from sowctl.cli.completion.instance_values import InstanceValues

        invocation.find_config_path()  # raises without a configuration: a person may have run the command
        out.write("".join(f"{name}\n" for name, _ in InstanceValues(invocation).list_names(arguments.names)).encode())
        return 0
    from sowctl.cli.completion.scripts import build_script, encode_answer, unquote_words

    assert arguments.shell is not None
    if not arguments.words:
        out.write(build_script(arguments.shell).encode())
        return 0
    from sowctl.cli.completion.candidates import find_candidates

    *before, current = unquote_words(arguments.words, arguments.shell)
    out.write(encode_answer(find_candidates(invocation, before, current)))
    return 0
