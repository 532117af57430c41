"""Walking one file from group to group, and judging what is broken: a torn tail, or damage (``sow-journal(5)``).

The reader, the writer and the check all walk with this; nobody else decides what a tail is.
"""

from __future__ import annotations

from collections.abc import Iterator

from sowctl.errors import DamageError
from sowctl.journal.block import Damage, TailReport
from sowctl.journal.blockcodec import BLOCK_HEADER_SIZE, BLOCK_MAGIC, follows
from sowctl.journal.files import BlockRef, JournalFile, damaged_block
from sowctl.journal.format import block_place

_SECTOR = 512
_LEAST_UNWRITTEN = 16
_RETRIES = 3


class Walker:
    """Walks one file. After :meth:`groups` is exhausted, ``offset`` and ``last_txid`` tell where it stands.

    ``offset`` is behind the last complete group. ``tail`` is set where bytes or an open group were left over; then
    ``last_txid`` counts the txids of the open group too. ``last_block`` is offset and header CRC of the last block
    before ``offset``.
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
    ) -> None:
        self.file = file
        self.offset = offset
        self.last_txid = last_txid
        self.last_block = (0, 0)
        self.tail: TailReport | None = None
        self._is_last = is_last
        self._acknowledged = acknowledged
        self._resync = resync
        self._next: BlockRef | None = None
        self._group: list[BlockRef] = []
        self._open = 0
        self._retries = _RETRIES if is_last else 0

    def groups(self) -> Iterator[list[BlockRef] | Damage]:
        """The complete groups, each as its blocks; with ``resync`` also the stretches passed over.

        A group whose last block is an abort marker has not happened. A group of the last file is handed out when its
        bodies have been checked, or when a later block says that it was synced. Raises DamageError unless ``resync``.
        """
        at = self.offset
        while at >= 0:
            ref, self._next = self._next or self._block(at), None
            if ref is not None and follows(ref.header, self.last_txid, self._open):
                self._group.append(ref)
                self._open = ref.header.group
                self.last_txid = ref.header.last_txid
                at = ref.end
                if not ref.header.is_last:
                    continue
                broken = self._unwritten(at)
                if broken is None:
                    done, self._group, self._open = self._group, [], 0
                    self.offset = at
                    self.last_block = done[-1].offset, done[-1].header.crc
                    yield done
                    continue
            else:
                broken = self._first_torn()
                if broken is None and at >= self.file.size:
                    if self._open and self._grown():
                        continue
                    yield from self._finish(at)
                    return
                broken = at if broken is None else broken
            self._step_back(broken)
            if self._grown():
                at = broken
                continue
            found, at = self._judge(broken)
            yield from found

    def _block(self, at: int) -> BlockRef | None:
        return self.file.block_at(at) if at < self.file.size else None

    def _unwritten(self, end: int) -> int | None:
        """The offset of the first block of the group just read that may be torn; None where all is well.

        Only in the last file, and only where the next block does not prove that the group had been synced.
        """
        if not self._is_last:
            return None
        self._next = self._block(end)
        if self._next is not None and self._next.header.synced_txid >= self.last_txid:
            return None
        return self._first_torn()

    def _first_torn(self) -> int | None:
        """The offset of the first block of the open group whose body is not right; only in the last file."""
        if not self._is_last:
            return None
        return next((ref.offset for ref in self._group if not ref.is_whole()), None)

    def _step_back(self, broken: int) -> None:
        """Forget the blocks of the open group from ``broken`` on."""
        self._next = None
        for index, ref in enumerate(self._group):
            if ref.offset >= broken:
                self.last_txid = ref.header.group - 1 if index == 0 else self._group[index - 1].header.last_txid
                del self._group[index:]
                break
        self._open = self._group[0].header.group if self._group else 0

    def _grown(self) -> bool:
        """Whether a writer changed the file since it was looked at; then the place is worth another look."""
        if self._retries == 0:
            return False
        self._retries -= 1
        size = self.file.current_size()
        changed, self.file.size = size != self.file.size, size
        return changed

    def _finish(self, at: int) -> Iterator[list[BlockRef] | Damage]:
        """The file ends where a block does. An open group is left over, or it was cut off and had happened."""
        if not self._open:
            return
        if not self._is_last or self._acknowledged >= self._open:
            error = self._incomplete(at) if not self._is_last else self._lost_end(at)
            if not self._resync:
                raise error
            yield self._group
            yield Damage(self.file.path, at, 0, self.last_txid + 1, None, error)
        if self._is_last:
            self.tail = TailReport(self.file.path, at, 0, self._open, self.last_txid)

    def _judge(self, at: int) -> tuple[list[list[BlockRef] | Damage], int]:
        """What is broken at ``at``: a torn tail (``tail`` is set), or damage; and where to go on, -1 for nowhere.

        Raises DamageError unless ``resync``; then the damage is given, before it what is saved of the open group.
        """
        following = self.file.next_block(at + 1)
        if self._is_torn(at, following):
            size = self.file.size - at
            self.tail = TailReport(self.file.path, at, size, self._open, self.last_txid, self._has_begun(at))
            return [], -1
        first = self.last_txid + 1
        stray = self._block(at)
        if stray is not None and stray.is_whole():
            error, following = self._gap(stray), stray
        else:
            last = None if following is None else _last_before(following)
            error = damaged_block(self.file.path, at, first, last)
        if not self._resync:
            raise error
        stop = self.file.size if following is None else following.offset
        damage = Damage(self.file.path, at, stop - at, first, error.facts["last_txid"], error)
        saved = self._start_over(following, first)
        return [saved, damage] if saved else [damage], -1 if following is None else stop

    def _is_torn(self, at: int, following: BlockRef | None) -> bool:
        """The rule of "A torn tail" in the page."""
        lowest = self._open or self.last_txid + 1
        if not self._is_last or self._acknowledged >= lowest:
            return False
        if self._is_shifted(at):
            return False
        if following is None:
            return True
        end = following.offset
        unfinished = True
        while following is not None:
            if following.header.synced_txid > self.last_txid:
                return False
            unfinished = unfinished and following.header.group == lowest and not following.header.is_last
            following = self._block(following.end) or self.file.next_block(following.offset + 1)
        return unfinished or self._has_unwritten(at, end)

    def _is_shifted(self, at: int) -> bool:
        """Whether whole blocks behind ``at`` stand elsewhere than they were written: bytes were cut out or put in.

        No append does that. Not asked where the file ends within the block at ``at``, or was not written in between:
        both are what a crash leaves, and a payload may hold anything, blocks of a copied journal too.
        """
        header = self.file.header_at(at)
        if header is not None and at + header.size > self.file.size:
            return False
        displaced = self.file.displaced(at + 1, self.last_txid)
        return displaced is not None and not self._has_unwritten(at, displaced.offset)

    def _has_begun(self, at: int) -> bool:
        """Whether the bytes at ``at`` may be what an append left: a block's beginning, or space never written."""
        end = min(at + BLOCK_HEADER_SIZE, self.file.size)
        begins = bytes(self.file.read(at, min(len(BLOCK_MAGIC), end - at)))
        return BLOCK_MAGIC.startswith(begins) or not any(begins) or self._has_unwritten(at, end)

    def _has_unwritten(self, start: int, end: int) -> bool:
        """Whether some sector between two offsets is zeros, as far as it lies between them."""
        at = start
        while at < end:
            stop = min(at - at % _SECTOR + _SECTOR, end)
            if stop - at >= _LEAST_UNWRITTEN and self.file.read(at, stop - at) == bytes(stop - at):
                return True
            at = stop
        return False

    def _start_over(self, following: BlockRef | None, missing: int) -> list[BlockRef]:
        """Stand before ``following``; the blocks of the group left behind, if it has probably happened.

        It has not if an abort marker comes next, or if no txid is missing: then the marker is what is damaged.
        """
        saved, self._group, self._open = self._group, [], 0
        if following is None:
            return saved
        header = following.header
        self.last_txid = _last_before(following)
        if header.is_abort or header.group != header.first_txid:
            self._open = header.group
        return [] if header.is_abort or header.first_txid == missing else saved

    def _incomplete(self, at: int) -> DamageError:
        return DamageError(
            "SOW-JRN-012",
            f"the journal file ends within the group that starts with txid {self._open}",
            place=block_place(self.file.path, at),
            hint="restore the file from a copy",
            offset=at,
            first_txid=self._open,
            last_txid=None,
        )

    def _lost_end(self, at: int) -> DamageError:
        return lost_end(self.file, at, self.last_txid, self._acknowledged)

    def _gap(self, ref: BlockRef) -> DamageError:
        return DamageError(
            "SOW-JRN-011",
            f"txid {self.last_txid + 1} should follow, but the block starts with txid {ref.header.first_txid}",
            place=block_place(self.file.path, ref.offset),
            hint="restore the file from a copy",
            offset=ref.offset,
            first_txid=self.last_txid + 1,
            last_txid=ref.header.first_txid - 1,
        )


def _last_before(ref: BlockRef) -> int:
    """The txid after which a block stands."""
    return ref.header.last_txid if ref.header.is_abort else ref.header.first_txid - 1


def lost_end(file: JournalFile, at: int, last_txid: int, acknowledged: int) -> DamageError:
    """DamageError ``SOW-JRN-013``: the journal ends before a txid that a store or the topics file knows."""
    missing = (
        f"txid {acknowledged} is" if acknowledged == last_txid + 1 else f"txids {last_txid + 1} to {acknowledged} are"
    )
    return DamageError(
        "SOW-JRN-013",
        f"the journal ends with txid {last_txid}, but txid {acknowledged} was acknowledged: {missing} missing",
        place=block_place(file.path, at),
        hint="restore the end of the journal from a copy; to go on without it see 'Accepting a loss' in sow-journal(5)",
        offset=at,
        first_txid=last_txid + 1,
        last_txid=acknowledged,
    )
