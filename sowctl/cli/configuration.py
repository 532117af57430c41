"""The configuration of a command: its file, values of its variables, the document, and the functions that it adds.

``-`` is the configuration on standard input. Its includes and relative paths are relative to the working directory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from sowctl.cli.context import Invocation
from sowctl.declarations import Argument, declare_option
from sowctl.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from sowctl.config.document import Document
    from sowctl.expressions.functions.signature import Function
    from sowctl.expressions.functions.table import FunctionEntry

ConfigFile: TypeAlias = Annotated[
    str | None,
    Argument("CONFIG", "Configuration file, or - for standard input. Default: as for --config.", complete="file"),
]
Define: TypeAlias = Annotated[
    list[str] | None,
    declare_option("--define", "-D", help="Value of the variable ${NAME}. May be repeated.", metavar="NAME=VALUE"),
]
Fragment: TypeAlias = Annotated[
    bool, declare_option("--fragment", help="The file is a fragment that another file includes.")
]


def parse_defines(texts: Sequence[str] | None) -> dict[str, str]:
    """The values of ``--define``. Raises :class:`~sowctl.errors.UsageError` ``SOW-CLI-010``."""
    pairs = [text.partition("=") for text in texts or ()]
    for name, equals, _ in pairs:
        if not (name and equals):
            raise UsageError(
                "SOW-CLI-010", f"--define {name!r} is not NAME=VALUE", hint="write it like --define PORT=9000"
            )
    return {name: value for name, _, value in pairs}


def find_main_file(invocation: Invocation, file: str | None) -> tuple[Path, bytes | None]:
    """The path of an operand, or of the default configuration; for ``-`` a name and the content of standard input."""
    if file != "-":
        return invocation.find_config_path(file), None
    from sowctl.cli.io.sources import STDIN_NAME
    from sowctl.config.parse import MAX_FILE_BYTES

    # One byte more than the maximum, as from a file: the loader then reports that it is too large.
    return Path(STDIN_NAME), invocation.streams.stdin.read(MAX_FILE_BYTES + 1)


def load_document(
    invocation: Invocation, file: str | None, define: Sequence[str] | None, *, fragment: bool = False
) -> Document:
    """The configuration of an operand, or the default one. Raises as :func:`sowctl.config.load.read_document`."""
    from sowctl.config.load import read_document

    path, given = find_main_file(invocation, file)
    root = Path(invocation.settings.root) if invocation.settings.root is not None else None
    return read_document(
        path, environment=invocation.environ, defines=parse_defines(define), fragment=fragment, root=root, given=given
    )


class NamedFunctions(Mapping[str, "Function"]):
    """The functions by upper-case name; none without --config and SOWCTL_CONFIG.

    The configuration is read when a name is first looked up: expressions with only built-in functions do not need it.
    Raises the errors of opening it, and ConfigError for an unusable function.
    """

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._read: Mapping[str, Function] | None = None

    def __getitem__(self, name: str) -> Function:
        return self._load_functions()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._load_functions())

    def __len__(self) -> int:
        return len(self._load_functions())

    def _load_functions(self) -> Mapping[str, Function]:
        if self._read is None:
            # Without a configuration there are none, which is cached, too.
            self._read = {}
            if has_named_config(self._invocation):
                from sowctl.engine.extensions.functions import load_functions

                with self._invocation.open_instance() as instance:
                    self._read = load_functions(instance)
        return self._read


def has_named_config(invocation: Invocation) -> bool:
    """True if --config or SOWCTL_CONFIG names a configuration."""
    return bool(invocation.settings.config or invocation.environ.get("SOWCTL_CONFIG"))


def list_added_functions(invocation: Invocation) -> list[FunctionEntry]:
    """The entries; none without --config and SOWCTL_CONFIG. An unusable function is reported and skipped."""
    if not has_named_config(invocation):
        return []
    from sowctl.engine.extensions.functions import load_functions
    from sowctl.expressions.functions.table import build_entries

    found = []
    with invocation.open_instance() as instance:
        functions = load_functions(instance)
        for name in functions:
            try:
                found += build_entries([functions[name]])
            except ConfigError as error:
                invocation.warn(error.message, code=error.code)
    return found
