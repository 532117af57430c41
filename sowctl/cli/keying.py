"""The rows that ``sowctl key`` prints, and what it says of messages without a key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sowctl.cli.context import Invocation
from sowctl.cli.io.reporting import RefusedWarnings
from sowctl.cli.io.sources import frames
from sowctl.engine.writing.rejects import placed_in
from sowctl.output.reports import as_dict

if TYPE_CHECKING:
    from sowctl.engine.verbs.key import KeyTeller


def key_rows(
    invocation: Invocation, teller: KeyTeller, names: Sequence[str], framing: str, refused: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """A row per message of the inputs; the code of each message that has none goes to ``refused``."""
    with RefusedWarnings(invocation) as warnings:
        for name, reader in frames(invocation, names, framing):
            for chunk in reader:
                keys, refusals = teller.keys(chunk.payloads, chunk.envelopes)
                for one in placed_in(name, chunk, refusals):
                    refused(one.code)
                    warnings.tell(one)
                yield from map(as_dict, keys)
