"""The configuration that a command means: its file, values of its variables, the document, the functions it adds.

``-`` is the configuration on standard input. Its includes and relative paths count from the working directory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import Argument, option
from sowctl.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from sowctl.config.document import Document
    from sowctl.expressions.functions.signature import Function
    from sowctl.expressions.functions.table import FunctionEntry

ConfigFile: TypeAlias = Annotated[
    str | None,
    Argument("CONFIG", "the configuration file, - for standard input; default as for --config", complete="file"),
]
Define: TypeAlias = Annotated[
    list[str] | None, option("--define", "-D", help="the value of ${NAME}; may be repeated", metavar="NAME=VALUE")
]
Fragment: TypeAlias = Annotated[bool, option("--fragment", help="the file is a part that another one includes")]


def defines(texts: Sequence[str] | None) -> dict[str, str]:
    """The values of ``--define``. Raises :class:`~sowctl.errors.UsageError` ``SOW-CLI-010``."""
    pairs = [text.partition("=") for text in texts or ()]
    for name, equals, _ in pairs:
        if not (name and equals):
            raise UsageError(
                "SOW-CLI-010", f"--define {name!r} is not NAME=VALUE", hint="write it like --define PORT=9000"
            )
    return {name: value for name, _, value in pairs}


def main_file(invocation: Invocation, file: str | None) -> tuple[Path, bytes | None]:
    """The path of an operand, or of the usual configuration; for ``-`` a name and what standard input holds."""
    if file != "-":
        return Path(file) if file is not None else invocation.config_path(), None
    from sowctl.cli.io.sources import STDIN
    from sowctl.config.parse import MAX_FILE

    # One byte more than a configuration may have, as from a file: the loader then says that it is too large.
    return Path(STDIN), invocation.streams.stdin.read(MAX_FILE + 1)


def load_document(
    invocation: Invocation, file: str | None, define: Sequence[str] | None, *, fragment: bool = False
) -> Document:
    """The configuration of an operand, or the usual one. Raises what :func:`sowctl.config.load.load` raises."""
    from sowctl.config.load import load

    path, given = main_file(invocation, file)
    root = Path(invocation.settings.root) if invocation.settings.root is not None else None
    return load(
        path, environment=invocation.environ, defines=defines(define), fragment=fragment, root=root, given=given
    )


class NamedFunctions(Mapping[str, "Function"]):
    """The functions by upper-case name; none without --config and SOWCTL_CONFIG.

    The configuration is read when a name is first looked up: expressions of built-in functions do without it. Raises
    what opening it raises, and ConfigError for a function that cannot be used.
    """

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._read: Mapping[str, Function] | None = None

    def __getitem__(self, name: str) -> Function:
        return self._functions()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions())

    def __len__(self) -> int:
        return len(self._functions())

    def _functions(self) -> Mapping[str, Function]:
        if self._read is None:
            # Without a configuration there are none, which is remembered as well.
            self._read = {}
            if is_named(self._invocation):
                from sowctl.engine.extensions.functions import functions_of

                with self._invocation.open_instance() as instance:
                    self._read = functions_of(instance)
        return self._read


def is_named(invocation: Invocation) -> bool:
    """Whether --config or SOWCTL_CONFIG names a configuration."""
    return bool(invocation.settings.config or invocation.environ.get("SOWCTL_CONFIG"))


def added_functions(invocation: Invocation) -> list[FunctionEntry]:
    """The entries; none without --config and SOWCTL_CONFIG. A function that cannot be used is said and left out."""
    if not is_named(invocation):
        return []
    from sowctl.engine.extensions.functions import functions_of
    from sowctl.expressions.functions.table import entries_of

    found = []
    with invocation.open_instance() as instance:
        functions = functions_of(instance)
        for name in functions:
            try:
                found += entries_of([functions[name]])
            except ConfigError as error:
                invocation.warn(error.message, code=error.code)
    return found
