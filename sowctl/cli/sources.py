"""Input named on the command line: files, and ``-`` for standard input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

from sowctl.cli.context import Invocation
from sowctl.cli.streams import is_terminal
from sowctl.messages.framing import FrameReader

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


def frames(invocation: Invocation, names: Sequence[str], framing: str) -> Iterator[tuple[str, FrameReader]]:
    """Name and reader of each input in turn. A real file is read by its descriptor, which can be waited for."""
    for name, stream in open_all(invocation, names):
        yield name, FrameReader(_descriptor(stream), framing)


def read_messages(invocation: Invocation, name: str) -> tuple[bytes, ...]:
    """All messages of one input, a line each. Raises InputError as the framing does."""
    return tuple(
        payload for _, reader in frames(invocation, [name], "lines") for chunk in reader for payload in chunk.payloads
    )


def _descriptor(stream: BinaryIO) -> int | BinaryIO:
    try:
        return stream.fileno()
    except OSError:
        return stream
