"""Input named on the command line: files, and ``-`` for standard input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

from sowctl.cli.context import Invocation
from sowctl.cli.streams import is_terminal

STDIN = "(standard input)"


def open_all(invocation: Invocation, names: Sequence[str]) -> Iterator[tuple[str, BinaryIO]]:
    """Name and stream of each input in turn, one open at a time. Raises OSError for what cannot be opened."""
    for name in names:
        if name == "-":
            if is_terminal(invocation.streams.stdin):
                invocation.note("reading messages from the terminal; end with Ctrl-D")
            yield STDIN, invocation.streams.stdin
        else:
            with closing(Path(name).open("rb")) as stream:
                yield name, stream


def read_all(invocation: Invocation, name: str) -> bytes:
    """The whole of one input."""
    return b"".join(stream.read() for _, stream in open_all(invocation, [name]))
