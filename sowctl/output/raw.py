"""Format ``raw``: only the payloads' bytes, each followed by a delimiter or preceded by its length.

On a terminal, and only there, control characters are shown as escapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import BinaryIO

from sowctl.output.display import escape_lines
from sowctl.output.formats import RenderResult
from sowctl.output.options import OutputOptions
from sowctl.output.records import Batch

_LENGTH_LAYOUT = Struct(">I")


class RawRenderer:
    """See the module. Lengths are 4 bytes, big-endian, as ``publish --framing length`` reads them."""

    def __init__(self, options: OutputOptions) -> None:
        self.delimiter = options.delimiter
        self.lengths = options.length_prefix
        self.terminal = options.terminal is not None

    def write(self, batches: Iterable[Batch], out: BinaryIO) -> RenderResult:
        """Write the bytes of every record; a note reports those that contain the delimiter."""
        count = torn = 0
        for batch in batches:
            payloads = batch.payloads
            if not payloads:
                continue
            count += len(payloads)
            written = self._encode_payloads(payloads)
            # With an empty delimiter the output is not meant to be split.
            if self.delimiter and not (self.terminal or self.lengths):
                torn += self._count_torn(payloads, written)
            out.write(written)
            out.flush()
        # The prompt of the shell starts on a new line.
        if self.terminal and count and not self.delimiter.endswith(b"\n"):
            out.write(b"\n")
        if torn:
            which = "1 message contains" if torn == 1 else f"{torn:,} messages contain"
            return RenderResult(count, (f"{which} the delimiter; use --length-prefix to separate them",))
        return RenderResult(count)

    def _count_torn(self, payloads: Sequence[bytes], written: bytes) -> int:
        """Count the payloads that a reader would split at the delimiter."""
        end = self.delimiter
        # One count over all payloads instead of a call per record; usually there is none.
        if len(end) == 1 and written.count(end) == len(payloads):
            return 0
        # The first bytes of a longer delimiter may also occur at the end of a payload.
        return sum(end in payload + end[:-1] for payload in payloads)

    def _encode_payloads(self, payloads: Sequence[bytes]) -> bytes:
        if self.terminal:
            # The delimiter is escaped as well: a zero byte would be as invisible as in a payload.
            end = escape_lines(self.delimiter)
            return "".join(escape_lines(payload) + end for payload in payloads).encode()
        if self.lengths:
            return b"".join(_LENGTH_LAYOUT.pack(len(payload)) + payload for payload in payloads)
        return self.delimiter.join(payloads) + self.delimiter
