"""Keys of records given on the command line or in a file, and notes on keys without a record.

Separate from other inputs, which import more than a whole ``get`` of one key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.cli.context import Invocation

MAX_MISSING_NOTES = 10
"""Maximum number of missing keys that are printed individually."""


def read_keys(invocation: Invocation, keys: Sequence[str], name: str | None) -> Iterator[str]:
    """Yield the keys of the command line, then those of a file, one a line; empty lines are skipped.

    Raises UsageError ``SOW-CLI-003`` if neither is given, and the errors of opening the file, before the first key.
    """
    if not keys and name is None:
        from sowctl.cli.parsing.synonyms import MISSING_ADVICE

        advice = MISSING_ADVICE[invocation.command, "KEY"]
        raise UsageError("SOW-CLI-003", "no KEY is given", hint=f"{advice}; --keys-from FILE reads keys from a file")
    if name is None:
        return iter(keys)
    from sowctl.cli.io.sources import refuse_unreadable

    refuse_unreadable([name])
    return chain(keys, _iterate_file_keys(invocation, name))


def _iterate_file_keys(invocation: Invocation, name: str) -> Iterator[str]:
    from sowctl.cli.io.sources import open_inputs

    for _, stream in open_inputs(invocation, [name]):
        for line in stream:
            # As for texts of a command line: bytes that are not UTF-8 match no record, and are no error.
            if text := line.rstrip(b"\r\n").decode("utf-8", "surrogateescape"):
                yield text


class MissingKeyNotes:
    """Counts keys without a record, and prints the first ones; ``notice`` formats the note on a key."""

    def __init__(self, invocation: Invocation, notice: Callable[[str], str]) -> None:
        self._invocation = invocation
        self._notice = notice
        self.count = 0

    def note(self, key: str) -> None:
        """Count a key."""
        self.count += 1
        if self.count <= MAX_MISSING_NOTES or self._invocation.settings.verbose:
            self._invocation.note(self._notice(key))

    def finish(self) -> int:
        """Print the number of further ones; returns the exit status."""
        if self.count > MAX_MISSING_NOTES and not self._invocation.settings.verbose:
            self._invocation.note(f"{self.count - MAX_MISSING_NOTES:,} more keys are missing; --verbose prints them")
        return 1 if self.count else 0
