"""The rows that ``sowctl key`` prints, and what it says of messages without a key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sowctl.cli.context import Invocation
from sowctl.cli.sources import frames
from sowctl.output.display import display
from sowctl.output.reports import as_dict

if TYPE_CHECKING:
    from sowctl.engine.keying import KeyTeller


def key_rows(
    invocation: Invocation, teller: KeyTeller, names: Sequence[str], framing: str, refused: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """A row per message of the inputs; the code of each message that has none goes to ``refused``."""
    for name, reader in frames(invocation, names, framing):
        for chunk in reader:
            found = [(frame.line, frame.code, frame.message) for frame in chunk.refused]
            keys, refusals = teller.keys(chunk.payloads, chunk.envelopes)
            found += [(chunk.line(one.index), one.code, one.message) for one in refusals]
            for line, code, message in sorted(found):
                refused(code)
                invocation.warn(f"[{code}] {display(f'{name}:{line}')}: {display(message)}")
            yield from map(as_dict, keys)
