"""Stretches: parts of journal files that separate processes read, and the plan that divides files into them.

A plan is computed from a list of :class:`Segment`, the facts in the headers of files, without reading any block.
Stretches are bounded by bytes; the process that reads a stretch finds its first block (``sow-journal(5)``, "Reading in
parts"). It also finds the first block of the next stretch: since the first stretch of a file begins with its first
block, or with a block whose offset the plan knows, all stretches together contain every block exactly once, or one of
them fails.

Called by :mod:`sowctl.journal.reader`; the plan also by callers that know the segments from another source.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from sowctl.errors import DamageError
from sowctl.journal.blockcodec import BLOCK_HEADER_SIZE, BlockHeader
from sowctl.journal.files import BlockRef, JournalFile, damaged_block_error
from sowctl.journal.limits import JOURNAL_LIMITS
from sowctl.journal.walk import Walker

SEARCH_CHUNK_BYTES = 64 << 10
"""Bytes read and searched at a time for the beginning of a block: about one block of a thousand entries."""


class Segment(Struct, frozen=True):
    """Facts about a journal file for a plan: from its header and the next one's, or from a manifest.

    ``size``: stored bytes; for the file that grows, up to the end of its last complete group; for a compressed file
    that can be read from any offset, the uncompressed size. ``last_txid``: the last one in the file. ``last_block``:
    offset and header CRC of its last block, zeros if unknown. ``is_packed``: compressed so that it must be read from
    its beginning. ``limit``: for the last file of the journal, the end of its last complete group. ``index``: txids and
    offsets of some blocks, ascending; the txid is the last one before the block. ``mark``: for a file at a URL, a text
    that distinguishes it from other files of its number.
    """

    number: int
    size: int
    first_txid: int
    last_txid: int
    last_block: tuple[int, int] = (0, 0)
    is_packed: bool = False
    limit: int | None = None
    index: tuple[tuple[int, int], ...] = ()
    mark: str = ""


class Stretch(Struct, frozen=True):
    """The blocks of file ``number`` that begin at or after ``offset`` and before ``end`` (None: up to the end of the
    file).

    Offset 0 means the first block. ``last_txid``, ``last_block``, ``limit`` and ``mark`` are those of the segment.
    ``exact``: a block begins exactly at ``offset``, and no previous stretch searches for that block.
    """

    number: int
    offset: int
    end: int | None
    last_txid: int
    last_block: tuple[int, int] = (0, 0)
    limit: int | None = None
    exact: bool = False
    mark: str = ""


TxidLocator = Callable[[Segment, int], tuple[int, int]]
"""Returns a range of offsets in a segment for a txid: no block that begins before the first offset has a txid above it,
and no block at or after the second offset has it or a lower one. The first offset is 0, or a block begins there."""


def locate_by_index(segment: Segment, txid: int) -> tuple[int, int]:
    """Look up a txid in the segment's own index; return the range of :data:`TxidLocator`."""
    # 1 << 63 is above every offset, so an index entry with exactly this txid is included.
    found = bisect_right(segment.index, (txid, 1 << 63))
    low = segment.index[found - 1][1] if found else 0
    later = (place for place in segment.index[max(found - 1, 0) :] if place[0] >= txid)
    return low, next(later, (0, segment.size))[1]


class Span(Struct, frozen=True):
    """The requested part of a file: the blocks that begin at or after ``low`` and before ``high``, in stored bytes."""

    segment: Segment
    low: int
    high: int

    @property
    def size(self) -> int:
        """Stored bytes."""
        return self.high - self.low


def find_spans(segments: Sequence[Segment], after: int, until: int, near: TxidLocator = locate_by_index) -> list[Span]:
    """Return the spans with all blocks that have a txid above ``after`` and up to ``until``, and few others.

    ``near`` is called only for the files that contain these bounds.
    """
    found = []
    for segment in segments:
        if segment.last_txid <= after or segment.first_txid > until:
            continue
        low, high = 0, segment.size
        # Each task that begins in a packed file decompresses it from its beginning, so one task reads the whole file.
        if not segment.is_packed and after >= segment.first_txid:
            low = near(segment, after)[0]
        if not segment.is_packed and until < segment.last_txid:
            high = near(segment, until)[1]
        found.append(Span(segment, low, max(low, high)))
    return found


def cut_stretches(wanted: Sequence[Span], size: int) -> list[tuple[Stretch, ...]]:
    """Return parts of about ``size`` bytes each, in order; each part has stretches of one or more files."""
    total = sum(span.size for span in wanted)
    count = -(-total // max(size, JOURNAL_LIMITS.min_stretch_bytes))
    parts: list[tuple[Stretch, ...]] = []
    part: list[Stretch] = []
    passed = begun = 0
    for span in wanted:
        packed = span.segment.is_packed
        # A file that is not cut begins its own part if it would make the current part more than half as large again.
        if packed and part and (passed + span.size - begun) * count > total * 3 // 2:
            parts.append(tuple(part))
            part, begun = [], passed
        at = span.low
        for place in () if packed else _find_cuts(passed, passed + span.size, total, count):
            if place > passed:
                part.append(_build_stretch(span, at, span.low + place - passed))
                at = span.low + place - passed
            if part:
                parts.append(tuple(part))
            part, begun = [], place
        part.append(_build_stretch(span, at, span.high))
        passed += span.size
        if (passed - begun) * count >= total:
            parts.append(tuple(part))
            part, begun = [], passed
    return [*parts, tuple(part)] if part else parts


def _find_cuts(start: int, stop: int, total: int, count: int) -> list[int]:
    """Return the ends of ``count`` equal parts of ``total`` that are at or after ``start`` and before ``stop``.

    An end just after the beginning of the file, or just before its end, moves there.
    """
    near = min(total // count // 8, (stop - start) // 2)
    found = [total * number // count for number in range(start * count // total, stop * count // total + 1)]
    places = (start if cut - start <= near else cut for cut in found if start <= cut < stop - near)
    return list(dict.fromkeys(place for place in places if place))


def _build_stretch(span: Span, low: int, high: int) -> Stretch:
    segment = span.segment
    return Stretch(
        segment.number,
        low,
        None if high == segment.size else high,
        segment.last_txid,
        segment.last_block,
        segment.limit,
        # A span starts at a block that the locator found. Cuts within it are arbitrary offsets, and the previous
        # stretch searches for the same block (_require_cut).
        exact=low == span.low > 0,
        mark=segment.mark,
    )


def locate_by_search(file: JournalFile, segment: Segment, txid: int) -> tuple[int, int]:
    """A :data:`TxidLocator` that reads a few blocks of the file."""
    low, high = locate_by_index(segment, txid)
    while high - low > JOURNAL_LIMITS.offset_precision_bytes:
        middle = (low + high) // 2
        found = file.find_next_block(middle, SEARCH_CHUNK_BYTES)
        # Invariant: the block at `low` begins with the txid or before; no block from `high` on holds it.
        if found is None or found.offset >= high or found.header.first_txid > txid:
            high = middle
        else:
            low = found.offset
    return low, high


def find_group_before(file: JournalFile, segment: Segment, txid: int) -> tuple[int, int] | None:
    """Return the offset of a group at or before ``txid``, and the last txid before the group. None if none is found:
    then a reader begins at the start of the file."""
    wanted = txid
    # All blocks near the txid may belong to one group. Their headers name the first txid of the group, and the second
    # round searches near that.
    for _ in range(2):
        low, high = locate_by_search(file, segment, wanted)
        ref = file.find_block_at(low) if low else None
        begin = wanted
        while ref is not None and ref.offset < high and ref.header.first_txid <= wanted:
            header = ref.header
            if not header.is_abort and (header.is_gap or header.group == header.first_txid):
                return ref.offset, header.first_txid - 1
            begin = min(begin, header.group)
            ref = file.find_block_at(ref.end_offset)
        wanted = begin
    return None


def sample_header(file: JournalFile, segment: Segment) -> BlockHeader | None:
    """Return the header of a block near the middle of the file (of a compressed file, the first), or None: it gives the
    ratio between the size of entries and the stored size."""
    begin = file.header.blocks_offset
    if segment.is_packed:
        ref = file.find_block_at(begin)
    else:
        ref = file.find_next_block(max(begin, segment.size // 2), SEARCH_CHUNK_BYTES) or file.find_block_at(begin)
    return None if ref is None else ref.header


def iter_stretch_blocks(file: JournalFile, stretch: Stretch) -> Iterator[BlockRef]:
    """Yield the blocks of a stretch of ``file`` whose groups are complete, and gaps; bodies are read on demand.

    Raises DamageError as a reader of the whole journal, and if the next stretch would not begin where this one ends.
    """
    if stretch.limit is not None:
        # Bytes that a writer has added since belong to no stretch.
        file.size = min(file.size, stretch.limit)
    walker = _open_stretch_walker(file, stretch)
    if walker is None:
        return
    for group in walker.iter_groups():
        assert isinstance(group, list)  # without resync, damage raises
        happened = not group[-1].header.is_abort
        for ref in group:
            if stretch.end is not None and ref.offset >= stretch.end:
                _require_cut(file, stretch.end, ref.offset, ref.header.first_txid)
                return
            header = ref.header
            # In an aborted group, only a gap that also contains lost entries of earlier groups.
            if happened or (header.is_gap and header.first_txid < header.group):
                yield ref
    if stretch.end is not None:
        _require_cut(file, stretch.end, None, walker.last_txid + 1)
    _judge_end(file, stretch, walker)


def _open_stretch_walker(file: JournalFile, stretch: Stretch) -> Walker | None:
    """Return a walker at the first block of the stretch; None if it has no block."""
    if not stretch.offset:
        begin, last_txid, chain, group = file.header.blocks_offset, file.header.first_txid - 1, file.header.chain, 0
    else:
        ref = file.find_next_block(stretch.offset, SEARCH_CHUNK_BYTES)
        if stretch.exact and (ref is None or ref.offset != stretch.offset):
            # Whatever block is found after it, the entries of the block at this offset are missing.
            lost = stretch.last_txid if ref is None else ref.header.first_txid - 1
            raise damaged_block_error(file.path, stretch.offset, lost, lost)
        # A large block, or no block, spans the whole stretch: the previous stretch has found the same.
        if ref is None or (stretch.end is not None and ref.offset >= stretch.end):
            return None
        header = ref.header
        # Chain 0 means unknown: the previous block is in another stretch.
        begin, chain = ref.offset, 0
        last_txid = header.last_txid if header.is_abort and not header.is_gap else header.first_txid - 1
        within = not header.is_gap and (header.is_abort or header.group != header.first_txid)
        group = header.group if within else 0
    settled = _find_settled_group(file, stretch)
    # is_last=False: all groups up to `limit` were complete when the plan was made, so there is no torn tail.
    return Walker(file, begin, last_txid, is_last=False, chain=chain, open_group=group, settled=settled)


def _find_settled_group(file: JournalFile, stretch: Stretch) -> int:
    """Return the last group of the file, if it is complete; 0 if unknown.

    This group may have any size, because a new file begins only before a group and never within one; all other groups
    are smaller than the intended size of a file.
    """
    offset, crc = stretch.last_block
    if not offset or offset + BLOCK_HEADER_SIZE > file.size:
        return 0
    last = file.find_block_at(offset)
    if last is None or last.header.crc != crc or not last.header.is_last or last.header.is_abort:
        return 0
    return last.header.group


def _require_cut(file: JournalFile, cut: int, offset: int | None, txid: int) -> None:
    """Require that the stretch from ``cut`` on begins with the block at ``offset`` (None: no block).

    Fails only if bytes look like a block at exactly this offset, header CRC included. Raises DamageError
    ``SOW-JRN-010``.
    """
    found = file.find_next_block(cut, SEARCH_CHUNK_BYTES)
    if (None if found is None else found.offset) != offset:
        raise damaged_block_error(file.path, cut if found is None else found.offset, txid, None)


def _judge_end(file: JournalFile, stretch: Stretch, walker: Walker) -> None:
    """Require that a file ends as the next one records. Raises DamageError ``SOW-JRN-011`` and ``SOW-JRN-054``."""
    if walker.last_txid != stretch.last_txid:
        raise DamageError(
            "SOW-JRN-011",
            f"the file should end at txid {stretch.last_txid}, but ends at {walker.last_txid}",
            place=str(file.path),
            hint="the end of the file is missing: restore it from a copy",
            offset=walker.offset,
            first_txid=walker.last_txid + 1,
            last_txid=stretch.last_txid,
        )
    expected, found = stretch.last_block[1], walker.chain
    if expected and found and expected != found:
        raise DamageError(
            "SOW-JRN-054",
            "two histories in one journal: the next file follows a block with checksum "
            f"{expected:08x}, but the last block of this file has {found:08x}",
            place=str(file.path),
            hint="copies of this journal were continued separately, and the directory has files of "
            "both: restore the files of one of them",
            offset=walker.offset,
            first_txid=walker.last_txid + 1,
            last_txid=None,
            written_behind=f"{expected:08x}",
            stands_behind=f"{found:08x}",
        )
