"""Format ``msgpack``: a stream of MessagePack maps, one per record.

Without metadata the map has the payload's members (sowctl-types(7)); that of a long record is written in parts. With
metadata it has the members of an envelope, and ``data`` is the payload's bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import BinaryIO

from sowctl.output.display import escape_surrogates
from sowctl.output.formats import RenderResult
from sowctl.output.members import convert_numbers, read_exact_members, read_members
from sowctl.output.options import OutputOptions
from sowctl.output.projection import build_projection
from sowctl.output.records import Batch, View, build_metadata, find_exact_view
from sowctl.values import rawmembers
from sowctl.values.jsontree import parse_member
from sowctl.values.rawmembers import LONG_OBJECT_LIMITS


class MsgpackRenderer:
    """See the module."""

    def __init__(self, options: OutputOptions) -> None:
        self.meta = options.meta
        self._projection = build_projection(options)

    def write(self, batches: Iterable[Batch], out: BinaryIO) -> RenderResult:
        """Write one map per record."""
        from msgpack import Packer

        # Metadata may have bytes that are not UTF-8 as surrogates; they are written as the original bytes.
        packer = Packer(unicode_errors="surrogateescape")
        count = 0
        for batch in batches:
            maps: list[bytes] = []
            exact = find_exact_view(batch)
            view, read = (batch.members_view, read_members) if exact is None else (exact, read_exact_members)
            for record in batch.records:
                if self._projection is not None:
                    values = map(convert_numbers, self._projection.read_values(batch, record))
                    maps.append(packer.pack(dict(zip(self._projection.headings, values, strict=True))))
                elif self.meta:
                    maps.append(packer.pack(build_metadata(batch, record) | {"data": record.payload}))
                elif (parts := _pack_long(view, record.payload)) is None:
                    maps.append(packer.pack(convert_numbers(read(record.payload, view))))
                else:
                    out.write(b"".join(maps))
                    maps = []
                    out.write(packer.pack_map_header(parts.count))
                    # Names and values in turn form the body of a map after its header.
                    for part in parts:
                        pairs = (
                            (escape_surrogates(name), convert_numbers(parse_member(raw))) for name, raw in part.items()
                        )
                        out.write(b"".join(map(packer.pack, chain.from_iterable(pairs))))
            out.write(b"".join(maps))
            out.flush()
            count += len(batch.records)
        return RenderResult(count)


def _pack_long(view: View, payload: bytes) -> rawmembers.LongObject | None:
    """The payload as an object whose members are written in parts."""
    if len(payload) < LONG_OBJECT_LIMITS.min_object_bytes:
        return None
    # A view with words for NaN and infinities cannot be read in parts.
    return rawmembers.open_long_object(view(payload))
