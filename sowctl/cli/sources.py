"""Input named on the command line: files, and ``-`` for standard input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from sowctl.cli.context import Invocation
from sowctl.cli.streams import is_terminal
from sowctl.errors import SowError
from sowctl.messages.framing import FrameReader, default_framing

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance

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


def read_messages(invocation: Invocation, name: str, framing: str) -> tuple[bytes, ...]:
    """All messages of one input. Raises InputError as the framing does."""
    return tuple(
        payload for _, reader in frames(invocation, [name], framing) for chunk in reader for payload in chunk.payloads
    )


def framing_of(instance: Instance, topic: str | None, message_type: str | None) -> str:
    """How messages for a topic are told apart where nobody says: as its type has it; lines where there is none yet."""
    from sowctl.engine.targets import find_publishable

    if topic is None:
        return "lines"
    try:
        return default_framing(instance.type_of(find_publishable(instance, topic, message_type).message_type).kind)
    except SowError:
        # Whoever publishes says what is wrong with the topic, after what is wrong with the options.
        return "lines"


def _descriptor(stream: BinaryIO) -> int | BinaryIO:
    try:
        return stream.fileno()
    except OSError:
        return stream
