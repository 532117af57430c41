"""Format ``raw``: the payloads' bytes and nothing else, each followed by a delimiter or behind its length.

On a terminal, and only there, control characters are shown as escapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import BinaryIO

from sowctl.output.display import display_lines
from sowctl.output.formats import Rendered
from sowctl.output.options import OutputOptions
from sowctl.output.records import Batch

_LENGTH = Struct(">I")


class RawRenderer:
    """See the module. Lengths are 4 bytes, big-endian, as ``publish --framing length`` reads them."""

    def __init__(self, options: OutputOptions) -> None:
        self.delimiter = options.delimiter
        self.lengths = options.length_prefix
        self.terminal = options.terminal is not None

    def write(self, batches: Iterable[Batch], out: BinaryIO) -> Rendered:
        """Write the bytes of every record."""
        count = 0
        for batch in batches:
            payloads = batch.payloads
            if not payloads:
                continue
            count += len(payloads)
            out.write(self._bytes(payloads))
            out.flush()
        # The prompt of the shell belongs into a line of its own.
        if self.terminal and count and not self.delimiter.endswith(b"\n"):
            out.write(b"\n")
        return Rendered(count)

    def _bytes(self, payloads: Sequence[bytes]) -> bytes:
        if self.terminal:
            # The delimiter is shown as well: a zero byte would be as invisible as in a payload.
            end = display_lines(self.delimiter)
            return "".join(display_lines(payload) + end for payload in payloads).encode()
        if self.lengths:
            return b"".join(_LENGTH.pack(len(payload)) + payload for payload in payloads)
        return self.delimiter.join(payloads) + self.delimiter
