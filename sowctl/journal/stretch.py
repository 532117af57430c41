"""Stretches: parts of journal files that are read apart, by other processes, and the plan that cuts them.

A plan is made of a list of :class:`Segment`, what the headers of the files say: no block is looked at for it. Stretches
are cut by bytes, and where the first block of one begins is found by the process that reads it (``sow-journal(5)``,
"Reading in parts"). Each of them also looks where the next one will begin: since the first stretch of a file begins
with its first block, or with one whose place the plan knows, all of them together hold every block once, or one of them
fails.

Called by :mod:`sowctl.journal.reader`; the plan also by who knows the segments from elsewhere.
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
"""Bytes that are read and searched at a time for the beginning of a block: about one block of a thousand entries."""


class Segment(Struct, frozen=True):
    """A journal file, as a plan knows it: from its header and the next one's, or from a manifest.

    ``size`` bytes: as stored; of the file that grows, up to the end of its last complete group. ``last_txid`` is the
    one that it ends with. ``last_block``: offset and header CRC of its last block, zeros where that is not known.
    ``is_packed``: compressed so that it is read from its beginning; of one that can be read from anywhere ``size`` is
    what it unpacks to. ``limit``: of the journal's last file, where the last complete group ends. ``index``: txids and
    offsets of some blocks, ascending; the txid is the last one before the block. ``mark``: of a file at a URL, what
    tells it from any other of its number.
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
    """The blocks of file ``number`` that begin at ``offset`` or behind it, and before ``end`` (None: all that follow).

    Offset 0 means the first block. ``last_txid``, ``last_block``, ``limit`` and ``mark`` are those of the segment.
    ``exact``: a block begins at ``offset`` itself, and no stretch before it looks for that block.
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
"""A place in a segment for a txid: no block that begins before the first offset has a txid above it, and none at the
second one or behind it has it or one below. The first offset is 0, or a block begins there."""


def locate_by_index(segment: Segment, txid: int) -> tuple[int, int]:
    """Look a txid up in the segment's own index; returns an offset and the txid before it."""
    # 1 << 63 is above every offset, so a place with exactly this txid is included.
    found = bisect_right(segment.index, (txid, 1 << 63))
    low = segment.index[found - 1][1] if found else 0
    later = (place for place in segment.index[max(found - 1, 0) :] if place[0] >= txid)
    return low, next(later, (0, segment.size))[1]


class Span(Struct, frozen=True):
    """The wanted part of a file: the blocks that begin from ``low`` on and before ``high``, in stored bytes."""

    segment: Segment
    low: int
    high: int

    @property
    def size(self) -> int:
        """Bytes, as stored."""
        return self.high - self.low


def find_spans(segments: Sequence[Segment], after: int, until: int, near: TxidLocator = locate_by_index) -> list[Span]:
    """Find the spans with every block that has a txid above ``after`` and up to ``until``, and few others.

    Only for the files in which these bounds lie ``near`` is asked.
    """
    found = []
    for segment in segments:
        if segment.last_txid <= after or segment.first_txid > until:
            continue
        low, high = 0, segment.size
        # Each task that begins in a packed file unpacks it from its beginning, so one task reads all of it.
        if not segment.is_packed and after >= segment.first_txid:
            low = near(segment, after)[0]
        if not segment.is_packed and until < segment.last_txid:
            high = near(segment, until)[1]
        found.append(Span(segment, low, max(low, high)))
    return found


def cut_stretches(wanted: Sequence[Span], size: int) -> list[tuple[Stretch, ...]]:
    """Parts of about ``size`` bytes each, in order, each of stretches of one file or of several."""
    total = sum(span.size for span in wanted)
    count = -(-total // max(size, JOURNAL_LIMITS.min_stretch_bytes))
    parts: list[tuple[Stretch, ...]] = []
    part: list[Stretch] = []
    passed = begun = 0
    for span in wanted:
        packed = span.segment.is_packed
        # A file that is not cut begins a part of its own rather than make another one half as large again.
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
    """Find the ends, from ``start`` on and before ``stop``, of ``count`` equal parts of ``total``.

    One that would end just behind the beginning of the file, or just before its end, ends there.
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
        # A span starts at a block that the locator found. Cuts within it are arbitrary offsets, and the stretch before
        # a cut looks for the same block (_require_cut).
        exact=low == span.low > 0,
        mark=segment.mark,
    )


def locate_by_search(file: JournalFile, segment: Segment, txid: int) -> tuple[int, int]:
    """:data:`TxidLocator`, found out by looking at a few blocks of the file."""
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
    """Find the offset of a group at ``txid`` or before it, and the last txid before the group. None where no such
    place is found: then a reader begins with the file."""
    wanted = txid
    # The blocks near the txid may all stand within one group. Their headers name the txid with which it begins, and the
    # second round looks near that.
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
    """The header of a block about the middle of the file (of a compressed one the first), None where there is none: how
    much its entries take, as against what is stored."""
    begin = file.header.blocks_offset
    if segment.is_packed:
        ref = file.find_block_at(begin)
    else:
        ref = file.find_next_block(max(begin, segment.size // 2), SEARCH_CHUNK_BYTES) or file.find_block_at(begin)
    return None if ref is None else ref.header


def iter_stretch_blocks(file: JournalFile, stretch: Stretch) -> Iterator[BlockRef]:
    """The blocks of a stretch of ``file`` whose groups have happened, and gaps; bodies are read when asked for.

    Raises DamageError as a reader of the whole journal, and where the next stretch would not begin where this one ends.
    """
    if stretch.limit is not None:
        # What a writer has added since belongs to no stretch.
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
            # Of a group that has not happened: a gap in which entries of groups before it are lost as well.
            if happened or (header.is_gap and header.first_txid < header.group):
                yield ref
    if stretch.end is not None:
        _require_cut(file, stretch.end, None, walker.last_txid + 1)
    _judge_end(file, stretch, walker)


def _open_stretch_walker(file: JournalFile, stretch: Stretch) -> Walker | None:
    """A walker that stands at the first block of the stretch; None where there is none."""
    if not stretch.offset:
        begin, last_txid, chain, group = file.header.blocks_offset, file.header.first_txid - 1, file.header.chain, 0
    else:
        ref = file.find_next_block(stretch.offset, SEARCH_CHUNK_BYTES)
        if stretch.exact and (ref is None or ref.offset != stretch.offset):
            # Whatever is found behind it, the entries of the block that stood here are among those that are missing.
            lost = stretch.last_txid if ref is None else ref.header.first_txid - 1
            raise damaged_block_error(file.path, stretch.offset, lost, lost)
        # A large block, or nothing, lies over the whole stretch: the stretch before it has found the same.
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
    """The group that the file ends with, if that has happened; 0 where it is not known.

    It may be as large as it likes, for a file is left before a group and never within one; all others are smaller than
    a file is meant to be.
    """
    offset, crc = stretch.last_block
    if not offset or offset + BLOCK_HEADER_SIZE > file.size:
        return 0
    last = file.find_block_at(offset)
    if last is None or last.header.crc != crc or not last.header.is_last or last.header.is_abort:
        return 0
    return last.header.group


def _require_cut(file: JournalFile, cut: int, offset: int | None, txid: int) -> None:
    """Refuse a file in which the stretch from ``cut`` on would not begin with the block at ``offset`` (None: no block).

    Only bytes that look like a block in this very place, header CRC included, lead there. Raises DamageError
    ``SOW-JRN-010``.
    """
    found = file.find_next_block(cut, SEARCH_CHUNK_BYTES)
    if (None if found is None else found.offset) != offset:
        raise damaged_block_error(file.path, cut if found is None else found.offset, txid, None)


def _judge_end(file: JournalFile, stretch: Stretch, walker: Walker) -> None:
    """Refuse a file that does not end as the next one says. Raises DamageError ``SOW-JRN-011`` and ``SOW-JRN-054``."""
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
