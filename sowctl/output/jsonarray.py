"""Format ``json``: one array of the values that ``ndjson`` writes as lines, one element per line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

from sowctl.errors import SowError
from sowctl.output.display import escape_json
from sowctl.output.formats import RenderResult
from sowctl.output.ndjson import encode_values
from sowctl.output.options import OutputOptions
from sowctl.output.records import Batch


class JsonRenderer:
    """See the module."""

    def __init__(self, options: OutputOptions) -> None:
        self.meta = options.meta
        self.terminal = options.terminal is not None

    def write(self, batches: Iterable[Batch], out: BinaryIO) -> RenderResult:
        """Write the array; ``[]`` if there are no records."""
        count = 0
        try:
            for batch in batches:
                values = encode_values(batch, meta=self.meta)
                # A batch may be empty, and must not leave a trailing comma.
                if not values:
                    continue
                # The comma is written before an element, so that the next batch need not be known.
                text = (b",\n" if count else b"[\n") + b",\n".join(values)
                out.write(escape_json(text) if self.terminal else text)
                count += len(values)
        except SowError:
            # The output so far remains a valid document; the exit status shows that it is incomplete.
            if count:
                out.write(b"\n]\n")
                out.flush()
            raise
        out.write(b"\n]\n" if count else b"[]\n")
        out.flush()
        return RenderResult(count)
