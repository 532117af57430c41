"""Format ``msgpack``: a stream of MessagePack maps, one per record.

Without metadata the map holds the payload's members, integers of up to 64 bits as integers and other numbers as
doubles. With metadata it holds what an envelope holds, and ``data`` is the payload's bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, BinaryIO

from sowctl.output.formats import Rendered
from sowctl.output.members import members, plain
from sowctl.output.options import OutputOptions
from sowctl.output.records import Batch, metadata


class MsgpackRenderer:
    """See the module."""

    def __init__(self, options: OutputOptions) -> None:
        self.meta = options.meta

    def write(self, batches: Iterable[Batch], out: BinaryIO) -> Rendered:
        """Write one map per record."""
        from msgpack import Packer

        # Metadata may hold bytes that are not UTF-8 as surrogates; they leave as the bytes that they were.
        packer = Packer(unicode_errors="surrogateescape")
        count = 0
        for batch in batches:
            rows: list[dict[str, Any]] = [
                metadata(batch, record) | {"data": record.payload}
                if self.meta
                else plain(members(record.payload, batch.view))
                for record in batch.records
            ]
            out.write(b"".join(packer.pack(row) for row in rows))
            out.flush()
            count += len(rows)
        return Rendered(count)
