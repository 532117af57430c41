"""Scan a journal from a known position to its end, group by group, and compute the state at the end.

Called only by :mod:`sowctl.journal.reader`, which answers queries with it. :mod:`sowctl.journal.walk` walks one file;
this module combines files, and the topics file makes reading the part before its end unnecessary. Specified in
``sow-journal(5)``, "Reading" and "The topics file".
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import TypeVar

from sowctl.errors import DamageError, MissingError
from sowctl.journal.block import Block, Damage, Position, TailReport
from sowctl.journal.files import BlockRef, JournalFile, damaged_block_error, foreign_file_error, has_gap
from sowctl.journal.fileset import REMOVED_FILE_CODE, FileSet
from sowctl.journal.state import EMPTY_TOPIC_STATE, JournalState, find_last_counted_block
from sowctl.journal.walk import Walker, lost_end_error
from sowctl.remote.place import RemotePath
from sowctl.values.topicref import TopicRef

T = TypeVar("T")


def retry_after_removal(folder: FileSet, ask: Callable[[], T]) -> T:
    """Return the result of ``ask``, called again if the oldest files are removed meanwhile: the remaining files begin
    later.

    Raises the errors of ``ask``, MissingError ``SOW-JRN-063`` if a required file was removed.
    """
    needed = folder.first_required_number
    while True:
        first = folder.first_known_number
        try:
            return ask()
        except MissingError:
            now = folder.first_known_number
            # Each round begins with a later file, so the loop ends.
            if now == first or (needed is not None and now > needed):
                raise


class JournalScan:
    """The groups of a journal and the state at its end, which every query brings up to date.

    ``acknowledged``: up to this txid the end cannot be torn, only lost. ``tail_report``: the part at the end that the
    last complete walk skipped, None for none.
    """

    def __init__(self, folder: FileSet, lineage: bytes, acknowledged: int) -> None:
        self.acknowledged = acknowledged
        self.tail_report: TailReport | None = None
        self._folder = folder
        self._lineage = lineage
        self._state: JournalState | None = None
        self._asked = False
        self._told = False

    def refresh_state(self) -> JournalState:
        """Bring the state up to the current end and return it; callers must not change it."""
        # The order matters: first list the files, then read the known state. It may be newer than the listing, which
        # _find_known_state() allows for.
        self._folder.refresh()
        self._folder.refuse_foreign_end()
        state = self._find_known_state()
        # If nothing is known about the last file, its checkpoint gives the state at its start: only one file is walked,
        # however long the journal is.
        if state is None or state.end.number != self._folder.last_number:
            # The checkpoint of the last file includes everything in the topics file of an earlier one.
            state = self._state = self._folder.read_checkpoint_state(self._folder.last_number)
        for walker, group in self._iterate_groups(state.end, resync=False, chain=state.chain):
            if isinstance(group, list):
                place = Position(walker.file.number, group[0].offset, group[0].header.first_txid - 1)
                # An aborted group uses up its txids (advance), but its topics and publishers are not counted (absorb).
                if not group[-1].header.is_abort:
                    for ref in group:
                        state.absorb_block(place, ref.read_map())
                state.advance_to(Position(place.number, walker.offset, walker.last_txid), walker.last_block)
            # A new file begins: the state ends before its first block. The file has no block yet, hence (0, 0).
            elif walker.file.number != state.end.number:
                state.advance_to(Position(walker.file.number, walker.offset, walker.last_txid), (0, 0))
        return state

    def note_synced_txid(self, txid: int) -> None:
        """Record that everything up to ``txid`` was synced: a store applied it, or this process synced it."""
        self.acknowledged = max(self.acknowledged, txid)

    @property
    def has_synced_txid(self) -> bool:
        """True if a topics file of this journal has the txid up to which the journal was synced."""
        self._find_known_state()
        return self._told

    def forget(self) -> None:
        """Drop the known state of the end; the next query determines it again."""
        self._state = None
        self._asked = False

    def has_block(self, block: tuple[int, int, int], txid: int) -> bool:
        """See :meth:`~sowctl.journal.reader.Journal.has_block`."""
        return retry_after_removal(self._folder, lambda: self._has_block(block, txid))

    def _has_block(self, block: tuple[int, int, int], txid: int) -> bool:
        """Return whether a block is still at its offset, or was pruned or cut out since.

        The CRC of a block's header is seeded with lineage, file and offset and covers the CRCs of the body: another
        copy of the journal that was continued separately cannot have the same block at the same offset.
        """
        # The usual query is about the block that this scan saw last: no file is read for it.
        number, offset, crc = block
        if self._state is not None and self._state.block_identity == block:
            return self._state.end.txid == txid
        self._folder.refresh()
        # The file was pruned. A removed file cannot contradict the caller; but the oldest remaining file names the
        # block before it. A file that is only at a URL is not read for this either.
        if number < self._folder.first_known_number:
            oldest = self._folder.read_header(self._folder.first_known_number)
            return oldest.first_txid != txid + 1 or oldest.chain in (0, crc)
        if number <= self._folder.last_number:
            file = self._folder.open_file(number)
            ref = file.find_block_at(offset)
            found = ref is not None and (ref.header.crc, ref.header.last_txid) == (crc, txid)
            # Like a pruned part, a part that was cut out cannot contradict the caller.
            found = found or has_gap(file, txid)
            self._folder.release_file(file)
            if found:
                return True
        # If whole files were lost at the end, their gap is in the previous file.
        holder = self._folder.find_file_number(txid)
        if holder >= number:
            return False
        file = self._folder.open_file(holder)
        found = has_gap(file, txid)
        self._folder.release_file(file)
        return found

    def find_block_at(self, start: Position) -> Block | None:
        """See :meth:`~sowctl.journal.reader.Journal.find_block_at`."""
        # The directories are listed only for an unknown file: a queue calls this for each message.
        if not self._folder.has_file(start.number):
            self._folder.refresh()
        if not self._folder.has_file(start.number):
            return None
        try:
            file = self._folder.open_file(start.number)
        except MissingError as error:
            if error.code != REMOVED_FILE_CODE:
                raise
            return None
        try:
            ref = file.find_block_at(start.offset)
            # `size` of the last file may be outdated, and blocks after it are not found.
            if ref is None and file is self._folder.open_last_file():
                self._folder.refresh()  # it has grown since
                ref = file.find_block_at(start.offset)
            if ref is None or ref.header.first_txid != start.txid + 1:
                raise damaged_block_error(file.path, start.offset, start.txid + 1, None)
            return ref.load()
        finally:
            self._folder.release_file(file)

    def iter_block_refs(
        self, after: int, topic: TopicRef | None, start: Position | None, resync: bool
    ) -> Iterator[BlockRef | Damage]:
        """Yield the unread blocks of complete groups, beginning at a suitable position before ``after``."""
        self._folder.refresh()
        try:
            at = retry_after_removal(self._folder, lambda: self._find_start(after, topic, start))
        # The start could not be found because a file is damaged: a resyncing reader begins at the oldest file instead
        # and reports the damage when it reaches it.
        except DamageError:
            if not resync:
                raise
            at = Position(self._folder.numbers[0], -1, 0)
        for _, item in self._iterate_groups(at, resync):
            if isinstance(item, Damage):
                yield item
            elif item is not None and not item[-1].header.is_abort:
                yield from item
            elif item is not None:
                # In an aborted group, only a gap that also contains lost entries of earlier groups.
                yield from (ref for ref in item if ref.header.is_gap and ref.header.first_txid < ref.header.group)

    def _iterate_groups(
        self, at: Position, resync: bool, chain: int = 0
    ) -> Iterator[tuple[Walker, list[BlockRef] | Damage | None]]:
        """Yield every group from ``at`` to the end, including aborted ones; None marks the start of a file.

        A negative offset means the first block of that file. ``chain`` is the header CRC of the block before ``at``, 0
        if unknown.
        """
        last_txid = at.txid
        before: JournalFile | None = None
        for number in range(at.number, self._folder.last_number + 1):
            try:
                file = self._folder.open_file(number)
            except DamageError as error:
                if not resync:
                    raise
                path = self._folder.find_path(number)
                size = self._folder.read_stored_size(number)
                lost = Damage(path, 0, size, last_txid + 1, None, error)
                # A file that cannot be opened is one stretch of damage. The walker is a placeholder that is never used.
                yield Walker(self._folder.open_last_file(), 0, last_txid, is_last=False), lost
                continue
            try:
                offset = at.offset if number == at.number else -1
                if number == at.number and offset < 0:
                    last_txid = file.header.first_txid - 1
                walker = self._open_walker(file, offset, last_txid, resync, chain)
                yield walker, None
                for problem in self._check_boundary(before, file, last_txid, chain) if number > at.number else ():
                    if not resync:
                        raise problem.error
                    yield walker, problem
                for item in walker.iter_groups():
                    yield walker, item
                last_txid, chain, before = walker.last_txid, walker.chain, file
                # Only the end of the last file can be torn or lost.
                if number == self._folder.last_number:
                    yield from self._report_end(walker, resync)
            finally:
                self._folder.release_file(file)

    def _check_boundary(
        self, before: JournalFile | None, file: JournalFile, last_txid: int, chain: int
    ) -> Iterator[Damage]:
        """Yield the damage if ``file`` does not continue a file that ended with ``last_txid`` and header CRC ``chain``.

        ``before`` is None if the previous file could not be read.
        """
        # Files are contiguous: each header has the first txid of its file. This detects a lost end of the previous
        # file.
        lineage = before.header.lineage if before is not None else file.header.lineage
        if not self._folder.continues_lineage(lineage, last_txid, file):
            yield _file_gap(file, last_txid)
        # The header also names the block before the file. This detects a file of a copy that was continued separately.
        elif before is not None and chain and file.header.chain not in (0, chain):
            error = foreign_file_error(file, before, file.header.chain, chain)
            yield Damage(file.path, 0, 0, file.header.first_txid, None, error)

    def _open_walker(self, file: JournalFile, offset: int, last_txid: int, resync: bool, chain: int) -> Walker:
        """Return a walker at ``offset``, or at the file's first block if the offset is negative."""
        is_last = file.number == self._folder.last_number
        if offset < 0:
            offset, last_txid = file.header.blocks_offset, file.header.first_txid - 1
            chain = file.header.chain
        return Walker(
            file, offset, last_txid, is_last=is_last, acknowledged=self.acknowledged, resync=resync, chain=chain
        )

    def _report_end(self, walker: Walker, resync: bool) -> Iterator[tuple[Walker, Damage]]:
        """Report the tail or the damage at the end of the last file."""
        self.tail_report = walker.tail
        # The file ends cleanly after a block, but before an acknowledged txid: whole blocks were lost. With a tail, the
        # walker has already compared.
        if walker.tail is None and self.acknowledged > walker.last_txid:
            error = lost_end_error(walker.file, walker.offset, walker.last_txid, self.acknowledged)
            if not resync:
                raise error
            first = walker.last_txid + 1
            yield walker, Damage(walker.file.path, walker.offset, 0, first, self.acknowledged, error)

    def _find_start(self, after: int, topic: TopicRef | None, start: Position | None) -> Position:
        """Return the position between groups from which a read misses nothing above ``after``."""
        known = self._find_known_state()
        if known is not None and known.end.number < self._folder.first_known_number:
            known = None  # the file in which it ends was removed since
        # A remembered position is used only if a group with the right txid begins there: the file may have been
        # replaced. Otherwise its txid still limits the search.
        if start is not None:
            if known is not None and known.end == start:
                return start
            if self._folder.is_group_start(start):
                return start
            after = max(after, start.txid)
        if known is not None:
            latest = known.topic_states.get(topic, EMPTY_TOPIC_STATE).last_txid if topic is not None else known.end.txid
            # Nothing of this topic, or nothing at all, is newer: begin at the end, so that only later additions are
            # read.
            if latest <= after:
                return known.end
        # First the file (by binary search over the headers), then, in the last known file, the nearest mark before the
        # txid: marks are at most about 1 MiB apart, so at most that much is walked in vain.
        number = self._folder.find_file_number(after + 1)
        if known is not None and number == known.end.number:
            index = bisect_right(known.marks, (after, 1 << 63)) - 1
            if index >= 0:
                mark = Position(number, known.marks[index][1], known.marks[index][0])
                # Marks come from the topics file, which is derived and may belong to another copy: used only if a group
                # begins there.
                if self._folder.is_group_start(mark):
                    return mark
        return Position(number, -1, 0)

    def _find_known_state(self) -> JournalState | None:
        """Return the state of an earlier query, otherwise that of the topics file if it can be trusted.

        Everything in a topics file was synced before the file was written. So it proves two things: up to its end
        nothing can be torn, only damaged or lost (even if the journal ends before it); and, if its last block still
        exists, earlier blocks need not be read.
        """
        if self._state is None and not self._asked:
            self._asked = True
            told = self._folder.read_topics_state(self._lineage)
            self._told = told is not None
            if told is not None and isinstance(self._folder.directory, RemotePath):
                # A manifest is written after everything it describes: no block has to prove it.
                self.note_synced_txid(told.end.txid)
                self._state = told
            elif told is not None:
                # It may have been written after the files were listed: then the files contain its state by now.
                last = self._folder.open_last_file()
                # A topics file that ends beyond the known end of the file is no contradiction until the files are
                # listed again.
                if (told.end.number, told.end.offset) > (last.number, last.size):
                    self._folder.refresh()
                self.note_synced_txid(told.end.txid)
                # A file removed meanwhile is no longer listed when this is called again.
                retry_after_removal(self._folder, lambda: self._adopt_told_state(told))
        elif self._state is not None and self._is_cut(self._state.end):
            # The file is shorter than when it was read: the known end is no longer valid.
            self._state = None
        return self._state

    def _adopt_told_state(self, told: JournalState) -> None:
        """Adopt the state of the topics file if its last block is at its recorded offset."""
        if not self._folder.first_known_number <= told.end.number <= self._folder.last_number:
            return
        file = self._folder.open_file(told.end.number)
        try:
            # The last counted block must be at its recorded offset, with the same header CRC and an intact body. The
            # CRC is seeded with lineage, file and offset, so no other block can match it.
            ref = find_last_counted_block(told, file)
            self._state = told if ref is not None and ref.is_whole() else None
            # Only checkpoints contain the histories that restores ended; a writer copies them into the next checkpoint.
            told.histories = self._folder.histories
        finally:
            self._folder.release_file(file)

    def _is_cut(self, end: Position) -> bool:
        """Return whether the file of ``end``, if it is the last one, ends before it."""
        last = self._folder.open_last_file()
        return end.number == last.number and end.offset > last.size


def _file_gap(file: JournalFile, last_txid: int) -> Damage:
    first = file.header.first_txid
    error = DamageError(
        "SOW-JRN-011",
        f"the file should start at txid {last_txid + 1}, but starts at {first}",
        place=str(file.path),
        hint="the end of the previous file is missing: restore that file from a copy",
        offset=0,
        first_txid=last_txid + 1,
        last_txid=first - 1,
    )
    return Damage(file.path, 0, 0, last_txid + 1, first - 1, error)
