"""What the commands about a configuration share: which file, values of its variables, and the loaded document."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from sowctl.cli.context import Invocation
from sowctl.cli.declare import Argument, option
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.config.document import Document

ConfigFile: TypeAlias = Annotated[
    str | None, Argument("CONFIG", "the configuration file; default as for --config", complete="file")
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
            raise UsageError("SOW-CLI-010", f"--define {name!r} is not NAME=VALUE", hint="such as --define PORT=9000")
    return {name: value for name, _, value in pairs}


def load_document(
    invocation: Invocation, file: str | None, define: Sequence[str] | None, *, fragment: bool = False
) -> Document:
    """The configuration of an operand, or the usual one. Raises what :func:`sowctl.config.load.load` raises."""
    from sowctl.config.load import load

    path = Path(file) if file is not None else invocation.config_path()
    root = Path(invocation.settings.root) if invocation.settings.root is not None else None
    return load(path, environment=invocation.environ, defines=defines(define), fragment=fragment, root=root)
