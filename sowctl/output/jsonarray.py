"""Format ``json``: one array with what ``ndjson`` would write in lines, one element a line."""

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
        """Write the array; ``[]`` where there is no record."""
        count = 0
        try:
            for batch in batches:
                values = encode_values(batch, meta=self.meta)
                # A batch may be empty, and must not leave a comma behind.
                if not values:
                    continue
                # The comma stands in front of what follows, so that nothing has to be known of a next batch.
                text = (b",\n" if count else b"[\n") + b",\n".join(values)
                out.write(escape_json(text) if self.terminal else text)
                count += len(values)
        except SowError:
            # What was printed so far stays one document; the exit status tells that it is not all.
            if count:
                out.write(b"\n]\n")
                out.flush()
            raise
        out.write(b"\n]\n" if count else b"[]\n")
        out.flush()
        return RenderResult(count)
