"""Walk one file group by group and classify defects: a torn tail, or damage (``sow-journal(5)``).

Reader, writer and check use this class; it alone decides what counts as a torn tail. The rule is "A torn tail" in
sow-journal(5): the remains of a crash are skipped, everything else is damage and raises an error.
"""

from __future__ import annotations

from collections.abc import Iterator

from sowctl.errors import DamageError
from sowctl.journal.block import Damage, TailReport
from sowctl.journal.blockcodec import BLOCK_HEADER_SIZE, BLOCK_MAGIC, can_follow, continues_chain
from sowctl.journal.files import BlockRef, JournalFile, damaged_block_error
from sowctl.journal.format import format_block_place

# The smallest unit that disks write: after a crash a sector holds either the new or the old bytes, and space that a
# file gained by growing reads as zeros.
_SECTOR_BYTES = 512
# Fewer zero bytes than this at the edge of a sector may well be data; sixteen in a row hardly ever are.
_MIN_UNWRITTEN_BYTES = 16
# The last file may grow during the walk. The number of retries is limited: with a writer that appends all the time, the
# walk would never reach a verdict.
_MAX_RETRIES = 3


class Walker:
    """Walks one file. After :meth:`iter_groups` is exhausted, ``offset`` and ``last_txid`` give the final position.

    ``offset`` is the end of the last complete group. ``tail`` is set if bytes or an open group remain; then
    ``last_txid`` includes the txids of the open group. ``last_block`` is offset and header CRC of the last block before
    ``offset``. ``chain`` is the header CRC of the last block that was passed, 0 if unknown.

    A walk may begin within a group, ``open_group``: then the rest of the group is returned as if it were the whole
    group. The blocks of ``settled``, a group that is known to be complete, are returned one by one.
    """

    def __init__(
        self,
        file: JournalFile,
        offset: int,
        last_txid: int,
        *,
        is_last: bool,
        acknowledged: int = 0,
        resync: bool = False,
        chain: int = 0,
        open_group: int = 0,
        settled: int = 0,
    ) -> None:
        self.file = file
        self.offset = offset
        self.last_txid = last_txid
        self.last_block = (0, 0)
        self.chain = self._behind = chain
        self.tail: TailReport | None = None
        self._is_last = is_last
        self._acknowledged = acknowledged
        self._resync = resync
        self._next: BlockRef | None = None
        self._group: list[BlockRef] = []
        self._open = open_group
        self._settled = settled
        self._retries = _MAX_RETRIES if is_last else 0

    def iter_groups(self) -> Iterator[list[BlockRef] | Damage]:
        """Yield the complete groups, each as its blocks; with ``resync`` also the damaged stretches that are skipped.

        A group that ends with an abort marker does not take effect. A group of the last file is yielded after its
        bodies were checked, or if a later block records that it was synced. Raises DamageError unless ``resync``.
        """
        at = self.offset
        # Invariant: everything before self.offset belongs to complete groups that were yielded; self._group holds the
        # verified headers of the open group between self.offset and `at`.
        while at >= 0:
            ref, self._next = self._next or self._read_block(at), None
            # A header counts only if its CRC is right at this offset, and if its txid and group continue the previous
            # ones. A copy of an older block, or bytes of a payload that look like one, fail at least one of the two
            # tests.
            if ref is not None and can_follow(ref.header, self.last_txid, self._open):
                # The end of the open group is in the part that was cut out: the group was complete.
                if ref.header.is_gap and self._group and ref.header.group != self._open:
                    done, self._group, self._open = self._group, [], 0
                    self.offset, self._behind = at, self.chain
                    self.last_block = done[-1].offset, done[-1].header.crc
                    yield done
                # Right offset and txid, but written after another block than the previous one in the file: two copies
                # of a journal were continued separately, and parts of both were put together.
                if not continues_chain(ref.header, self.chain):
                    if not self._resync:
                        raise other_history_error(ref, self.chain)
                    yield Damage(
                        self.file.path, at, 0, ref.header.first_txid, None, other_history_error(ref, self.chain)
                    )
                self._group.append(ref)
                self.chain = _chain_behind(ref)
                self._open = ref.header.group
                self.last_txid = ref.header.last_txid
                at = ref.end_offset
                if not ref.header.is_last:
                    if self._open == self._settled:
                        # A bulk load is one group of any size: its headers are not collected before it is read.
                        done, self._group = self._group, []
                        self.offset, self._behind = at, self.chain
                        self.last_block = done[-1].offset, done[-1].header.crc
                        yield done
                    continue
                # The last block of a group exists, but in the last file its body may be missing: an append is one
                # write, and a crash may keep its sectors in any order. So bodies are checked before the group is
                # trusted.
                broken = self._find_unwritten_block(at)
                if broken is None:
                    done, self._group, self._open = self._group, [], 0
                    self.offset = at
                    self.last_block = done[-1].offset, done[-1].header.crc
                    self._behind = self.chain
                    yield done
                    continue
            else:
                # No block continues here. The bodies of the open group are checked before the end of the file: the
                # first torn body is the start of the defect.
                broken = self._first_torn()
                if broken is None and at >= self.file.size:
                    # The file ends within a group. A writer may be about to write the rest: continue if the file has
                    # grown.
                    if self._open and self._has_grown():
                        continue
                    yield from self._finish_walk(at)
                    return
                broken = at if broken is None else broken
            # Something does not fit at `broken`. It may be a write in progress, which a look at the new size settles;
            # only a stable state is judged.
            self._step_back(broken)
            if self._has_grown():
                at = broken
                continue
            found, at = self._judge_break(broken)
            yield from found

    def _read_block(self, at: int) -> BlockRef | None:
        return self.file.find_block_at(at) if at < self.file.size else None

    def _find_unwritten_block(self, end: int) -> int | None:
        """Return the offset of the first block of the group just read that may be torn; None if there is none.

        Only in the last file, and only if the next block does not prove that the group was synced.
        """
        # A file is synced before its successor is created, so no crash can have torn the files before the last one: a
        # wrong body in them is damage, which loading the block reports.
        if not self._is_last:
            return None
        self._next = self._read_block(end)
        # The next block was written under the lock after this group was synced, and records this. That proof costs one
        # header; without it the bodies are read, which happens only for the newest group.
        if self._next is not None and self._next.header.synced_txid >= self.last_txid:
            return None
        return self._first_torn()

    def _first_torn(self) -> int | None:
        """Return the offset of the first block of the open group with an invalid body; only in the last file."""
        if not self._is_last:
            return None
        return next((ref.offset for ref in self._group if not ref.is_whole()), None)

    def _step_back(self, broken: int) -> None:
        """Drop the blocks of the open group from ``broken`` on."""
        self._next = None
        # last_txid goes back with the blocks: the txids of rejected blocks are not used up.
        for index, ref in enumerate(self._group):
            if ref.offset >= broken:
                self.last_txid = ref.header.group - 1 if index == 0 else self._group[index - 1].header.last_txid
                self.chain = self._behind if index == 0 else _chain_behind(self._group[index - 1])
                del self._group[index:]
                break
        self._open = self._group[0].header.group if self._group else 0

    def _has_grown(self) -> bool:
        """Return whether a writer changed the file size since the last look, so that a retry is useful."""
        # The number of retries is limited; files that cannot grow are not retried.
        if self._retries == 0:
            return False
        self._retries -= 1
        size = self.file.read_size()
        changed, self.file.size = size != self.file.size, size
        return changed

    def _finish_walk(self, at: int) -> Iterator[list[BlockRef] | Damage]:
        """Handle the end of the file at a block boundary: an open group is left over, or its end was lost."""
        if not self._open:
            return
        # A crash leaves a group without its end only in the last file, and only if no part of it was acknowledged.
        # Otherwise its end existed and is lost.
        if not self._is_last or self._acknowledged >= self._open:
            error = self._mark_incomplete(at) if not self._is_last else self._lost_end_error(at)
            if not self._resync:
                raise error
            yield self._group
            yield Damage(self.file.path, at, 0, self.last_txid + 1, None, error)
        if self._is_last:
            self.tail = TailReport(self.file.path, at, 0, self._open, self.last_txid, chain=self.chain)

    def _judge_break(self, at: int) -> tuple[list[list[BlockRef] | Damage], int]:
        """Classify the defect at ``at`` as a torn tail (sets ``tail``) or damage; return also the offset to continue
        at, -1 for none.

        Raises DamageError unless ``resync``; then returns the damage, preceded by the blocks recovered from the open
        group.
        """
        # The bytes after the defect decide: a crash leaves no intact synced block after it.
        following = self.file.find_next_block(at + 1)
        if self._is_torn(at, following):
            size = self.file.size - at
            begun = self._has_begun(at)
            self.tail = TailReport(self.file.path, at, size, self._open, self.last_txid, begun, chain=self.chain)
            return [], -1
        first = self.last_txid + 1
        # An intact block that does not continue here: blocks between are missing, so the error names the txids of the
        # gap. Otherwise the block at this offset is itself damaged.
        stray = self._read_block(at)
        if stray is not None and stray.is_whole():
            error, following = self._pass_gap(stray), stray
        else:
            last = None if following is None else _compute_last_before(following)
            error = damaged_block_error(self.file.path, at, first, last)
        if not self._resync:
            raise error
        # A resyncing reader continues at the next block with a valid header, and reports everything between as one
        # stretch.
        stop = self.file.size if following is None else following.offset
        damage = Damage(self.file.path, at, stop - at, first, error.facts["last_txid"], error)
        saved = self._start_over(following, first)
        return [saved, damage] if saved else [damage], -1 if following is None else stop

    def _is_torn(self, at: int, following: BlockRef | None) -> bool:
        """Apply the rule of "A torn tail" in the page."""
        # The first txid that would be cut off. If a store or the topics file has it, it was synced: then this is data
        # loss, and cutting it off as a torn tail would make the loss final.
        lowest = self._open or self.last_txid + 1
        if not self._is_last or self._acknowledged >= lowest:
            return False
        # Intact blocks at another offset than they were written for show that bytes were cut out or inserted.
        if self._is_shifted(at):
            return False
        if following is None:
            return True
        end = following.offset
        unfinished = True
        # Blocks follow the defect. They prove damage if one of them was written after the broken bytes were synced.
        # They may be the rest of the same write, whose sectors reached the disk in another order.
        while following is not None:
            if following.header.synced_txid > self.last_txid:
                return False
            # All following blocks belong to the one group that was being written, and its end is missing.
            unfinished = unfinished and following.header.group == lowest and not following.header.is_last
            following = self._read_block(following.end_offset) or self.file.find_next_block(following.offset + 1)
        # Or a sector between was never written, which results from an interrupted append but not from a flipped bit.
        return unfinished or self._has_unwritten(at, end)

    def _is_shifted(self, at: int) -> bool:
        """Return whether intact blocks after ``at`` are at another offset than they were written for: bytes were cut
        out or inserted.

        No append does that. Not checked if the file ends within the block at ``at``, or if a sector in between was not
        written: both result from a crash, and a payload may hold anything, including blocks of a copied journal.
        """
        # A block that extends past the end of the file was cut by the crash itself; the content of its payload proves
        # nothing.
        header = self.file.read_header_at(at)
        if header is not None and at + header.size > self.file.size:
            return False
        displaced = self.file.find_displaced_block(at + 1, self.last_txid)
        return displaced is not None and not self._has_unwritten(at, displaced.offset)

    def _has_begun(self, at: int) -> bool:
        """Return whether an append may have left the bytes at ``at``: the beginning of a block, or space never
        written."""
        # One header's length is checked: an append begins with a header, or with zeros if its first sector is missing.
        end = min(at + BLOCK_HEADER_SIZE, self.file.size)
        begins = bytes(self.file.read(at, min(len(BLOCK_MAGIC), end - at)))
        return BLOCK_MAGIC.startswith(begins) or not any(begins) or self._has_unwritten(at, end)

    def _has_unwritten(self, start: int, end: int) -> bool:
        """Return whether the part of any sector between two offsets is zeros."""
        at = start
        while at < end:
            stop = min(at - at % _SECTOR_BYTES + _SECTOR_BYTES, end)
            if stop - at >= _MIN_UNWRITTEN_BYTES and self.file.read(at, stop - at) == bytes(stop - at):
                return True
            at = stop
        return False

    def _start_over(self, following: BlockRef | None, missing: int) -> list[BlockRef]:
        """Continue before ``following``; return the blocks of the abandoned group, if it was probably complete.

        It was not if an abort marker follows, or if no txid is missing: then the marker itself is damaged.
        """
        # The blocks read so far are intact. If entries are missing between them and `following`, the group most likely
        # ended among the missing ones and took effect; an abort marker or an unbroken txid sequence shows that it did
        # not.
        saved, self._group, self._open = self._group, [], 0
        # The block after the damage names the lost block: there is nothing to compare with.
        self.chain = self._behind = 0
        if following is None:
            return saved
        header = following.header
        self.last_txid = _compute_last_before(following)
        if header.is_abort or header.group != header.first_txid:
            self._open = header.group
        return [] if header.is_abort or header.first_txid == missing else saved

    def _mark_incomplete(self, at: int) -> DamageError:
        return DamageError(
            "SOW-JRN-012",
            f"the journal file ends within the group that starts at txid {self._open}",
            place=format_block_place(self.file.path, at),
            hint="restore the file from a copy",
            offset=at,
            first_txid=self._open,
            last_txid=None,
        )

    def _lost_end_error(self, at: int) -> DamageError:
        return lost_end_error(self.file, at, self.last_txid, self._acknowledged)

    def _pass_gap(self, ref: BlockRef) -> DamageError:
        return DamageError(
            "SOW-JRN-011",
            f"txid {self.last_txid + 1} is expected, but the block starts at txid {ref.header.first_txid}",
            place=format_block_place(self.file.path, ref.offset),
            hint="restore the file from a copy",
            offset=ref.offset,
            first_txid=self.last_txid + 1,
            last_txid=ref.header.first_txid - 1,
        )


def _chain_behind(ref: BlockRef) -> int:
    """Return the header CRC that the next block has to name; 0 after a gap, where the next block names a lost one."""
    return 0 if ref.header.is_gap else ref.header.crc


def _compute_last_before(ref: BlockRef) -> int:
    """Return the txid before a block."""
    return ref.header.last_txid if ref.header.is_abort else ref.header.first_txid - 1


def other_history_error(ref: BlockRef, chain: int) -> DamageError:
    """Return DamageError ``SOW-JRN-054``: a block was written after another block than the one before it."""
    header = ref.header
    return DamageError(
        "SOW-JRN-054",
        f"two histories in one journal: the block at txid {header.first_txid} follows a block "
        f"with checksum {header.chain:08x}, but the previous block has {chain:08x}",
        place=format_block_place(ref.file.path, ref.offset),
        hint="copies of this journal were continued separately, and the directory has files of "
        "both: restore the files of one of them",
        offset=ref.offset,
        first_txid=header.first_txid,
        last_txid=header.last_txid,
        written_behind=f"{header.chain:08x}",
        stands_behind=f"{chain:08x}",
    )


def lost_end_error(file: JournalFile, at: int, last_txid: int, acknowledged: int) -> DamageError:
    """Return DamageError ``SOW-JRN-013``: the journal ends before a txid that a store or the topics file has."""
    missing = (
        f"txid {acknowledged} is" if acknowledged == last_txid + 1 else f"txids {last_txid + 1} to {acknowledged} are"
    )
    return DamageError(
        "SOW-JRN-013",
        f"the journal ends at txid {last_txid}, but txid {acknowledged} was acknowledged: {missing} missing",
        place=format_block_place(file.path, at),
        hint="restore the end of the journal from a copy; to continue without it, see 'Accepting a "
        "loss' in sow-journal(5)",
        offset=at,
        first_txid=last_txid + 1,
        last_txid=acknowledged,
    )
