"""Stretches: pieces of a journal that may be read apart, by other processes (``sow-journal(5)``, "Reading").

A stretch is a row of blocks of complete groups in one file. Planning walks the headers once and so has judged the end
of the journal; reading a stretch needs neither what stands before it nor another judgement. Used by the jobs of the
pipeline, which read the stretches of a journal side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sowctl.journal.files import BlockRef, JournalFile, damaged_block
from sowctl.seam import SEAM, Seam

if TYPE_CHECKING:
    from sowctl.journal.block import Block


class Stretch(Struct, frozen=True):
    """Blocks from ``offset`` to ``end`` of file ``number``; ``entries`` and ``payload_bytes`` (unpacked) in all."""

    path: Path
    number: int
    offset: int
    end: int
    first_txid: int
    last_txid: int
    entries: int
    payload_bytes: int

    def blocks(self, seam: Seam = SEAM) -> Iterator[Block]:
        """The blocks, verified. Raises DamageError ``SOW-JRN-010``, also where the file is not what it was."""
        with closing(JournalFile(self.path, self.number, seam)) as file:
            at, txid = self.offset, self.first_txid
            while at < self.end:
                ref = file.block_at(at)
                # Between planning and reading the file may have been cut or replaced: each block must continue the
                # txids of the plan.
                if ref is None or ref.header.first_txid != txid:
                    raise damaged_block(self.path, at, txid, self.last_txid)
                yield ref.load()
                at, txid = ref.end, ref.header.last_txid + 1


def planned(refs: Iterator[object], after: int, until: int | None, size: int) -> Iterator[Stretch]:
    """Stretches of about ``size`` stored bytes over blocks that hold a txid above ``after`` and not above ``until``."""
    open_one: Stretch | None = None
    for ref in refs:
        assert isinstance(ref, BlockRef)  # without resync, damage raises
        header = ref.header
        if until is not None and header.first_txid > until:
            break
        if header.last_txid <= after:
            continue
        grown = _grown(open_one, ref) if open_one is not None else None
        if grown is None:
            if open_one is not None:
                yield open_one
            txids = header.first_txid, header.last_txid
            sizes = header.count, header.payloads_raw
            open_one = Stretch(ref.file.path, ref.file.number, ref.offset, ref.end, *txids, *sizes)
        else:
            open_one = grown
        # Each reader of a part of a compressed file unpacks it from its beginning, so such a file is one stretch.
        if open_one.end - open_one.offset >= size and not ref.file.is_packed:
            yield open_one
            open_one = None
    if open_one is not None:
        yield open_one


def _grown(stretch: Stretch, ref: BlockRef) -> Stretch | None:
    """The stretch with a block more; None where the block does not follow it."""
    header = ref.header
    if (ref.file.number, ref.offset, header.first_txid) != (stretch.number, stretch.end, stretch.last_txid + 1):
        return None
    return replace(
        stretch,
        end=ref.end,
        last_txid=header.last_txid,
        entries=stretch.entries + header.count,
        payload_bytes=stretch.payload_bytes + header.payloads_raw,
    )
