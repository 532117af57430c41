"""Scanning a journal: from a known position to its end, group by group, and the state at the end.

Called by :mod:`sowctl.journal.reader` alone, which answers questions with it. One file is walked by
:mod:`sowctl.journal.walk`; here files are strung together, and the topics file spares what stands before its end.
Ruled by ``sow-journal(5)``, "Reading" and "The topics file".
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
    """The answer of ``ask``, asked again where the oldest files are removed meanwhile: what is left begins later.

    Raises what ``ask`` does, MissingError ``SOW-JRN-063`` where a file is gone that must not.
    """
    needed = folder.first_required_number
    while True:
        first = folder.first_known_number
        try:
            return ask()
        except MissingError:
            now = folder.first_known_number
            # Each round begins with a later file, so they come to an end.
            if now == first or (needed is not None and now > needed):
                raise


class JournalScan:
    """The groups of a journal and the state at its end; every question brings the state up to date.

    ``acknowledged``: up to this txid the end cannot be torn, only lost. ``tail_report``: what the last complete walk
    skipped at the end, None where nothing was.
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
        """Bring the state up to the present end and return it; not to be changed by the caller."""
        # Order matters: first see which files there are, then ask what is known. Knowledge may be newer than the files
        # seen, which _find_known_state() allows for.
        self._folder.refresh()
        self._folder.refuse_foreign_end()
        state = self._find_known_state()
        # Where nothing is known of the last file, its checkpoint gives the state at its start: only one file is walked,
        # however long the journal is.
        if state is None or state.end.number != self._folder.last_number:
            # The checkpoint of the last file knows at least what the topics file of an earlier one does.
            state = self._state = self._folder.read_checkpoint_state(self._folder.last_number)
        for walker, group in self._iterate_groups(state.end, resync=False, chain=state.chain):
            if isinstance(group, list):
                place = Position(walker.file.number, group[0].offset, group[0].header.first_txid - 1)
                # An aborted group uses its txids up (advance), but its topics and publishers are not counted (absorb).
                if not group[-1].header.is_abort:
                    for ref in group:
                        state.absorb_block(place, ref.read_map())
                state.advance_to(Position(place.number, walker.offset, walker.last_txid), walker.last_block)
            # A new file begins: the state ends before its first block, of which there is none yet, hence (0, 0).
            elif walker.file.number != state.end.number:
                state.advance_to(Position(walker.file.number, walker.offset, walker.last_txid), (0, 0))
        return state

    def note_synced_txid(self, txid: int) -> None:
        """Take note that everything up to ``txid`` was synced: a store applied it, or this process synced it."""
        self.acknowledged = max(self.acknowledged, txid)

    @property
    def has_synced_txid(self) -> bool:
        """True if a topics file of this journal has the txid up to which it had been synced."""
        self._find_known_state()
        return self._told

    def forget(self) -> None:
        """Drop what is known of the end; the next question finds out again."""
        self._state = None
        self._asked = False

    def has_block(self, block: tuple[int, int, int], txid: int) -> bool:
        """See :meth:`~sowctl.journal.reader.Journal.has_block`."""
        return retry_after_removal(self._folder, lambda: self._has_block(block, txid))

    def _has_block(self, block: tuple[int, int, int], txid: int) -> bool:
        """Return whether a block stands where it was, or was pruned or cut out since.

        The CRC of a block's header starts from lineage, file and offset and covers the CRCs of the body: what one copy
        of a journal has at a place, another that went on by itself has not.
        """
        # The usual question is about the block that this scan saw last: no file is read for it.
        number, offset, crc = block
        if self._state is not None and self._state.block_identity == block:
            return self._state.end.txid == txid
        self._folder.refresh()
        # The file was pruned. What is gone cannot contradict, so the caller's knowledge stands; but the oldest file
        # that is left says behind which block it begins.
        # A file that lies at a URL alone is not asked for this, either.
        if number < self._folder.first_known_number:
            oldest = self._folder.read_header(self._folder.first_known_number)
            return oldest.first_txid != txid + 1 or oldest.chain in (0, crc)
        if number <= self._folder.last_number:
            file = self._folder.open_file(number)
            ref = file.find_block_at(offset)
            found = ref is not None and (ref.header.crc, ref.header.last_txid) == (crc, txid)
            # What was cut out cannot contradict, as what was pruned cannot.
            found = found or has_gap(file, txid)
            self._folder.release_file(file)
            if found:
                return True
        # Where whole files were lost at the end, their gap lies in the file before them.
        holder = self._folder.find_file_number(txid)
        if holder >= number:
            return False
        file = self._folder.open_file(holder)
        found = has_gap(file, txid)
        self._folder.release_file(file)
        return found

    def find_block_at(self, start: Position) -> Block | None:
        """See :meth:`~sowctl.journal.reader.Journal.find_block_at`."""
        # The directories are looked at only for a file that is not among those seen: a queue asks per message.
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
        """The blocks of groups that have happened, from a good place before ``after`` on, unread."""
        self._folder.refresh()
        try:
            at = retry_after_removal(self._folder, lambda: self._find_start(after, topic, start))
        # The place to begin could not be found because a file is damaged: a resyncing reader begins at the oldest file
        # instead and reports the damage when it comes to it.
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
                # Of a group that has not happened: a gap in which entries of groups before it are lost as well.
                yield from (ref for ref in item if ref.header.is_gap and ref.header.first_txid < ref.header.group)

    def _iterate_groups(
        self, at: Position, resync: bool, chain: int = 0
    ) -> Iterator[tuple[Walker, list[BlockRef] | Damage | None]]:
        """Every group from ``at`` to the end, aborted ones too; None stands for the start of a file.

        An offset below zero means the first block of that file. ``chain`` is the header CRC of the block before ``at``,
        0 where it is not known.
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
                # A file that cannot be opened is one stretch of damage. The walker is a stand-in that is never walked.
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
                # Only the last file has an end that can be torn or lost.
                if number == self._folder.last_number:
                    yield from self._report_end(walker, resync)
            finally:
                self._folder.release_file(file)

    def _check_boundary(
        self, before: JournalFile | None, file: JournalFile, last_txid: int, chain: int
    ) -> Iterator[Damage]:
        """Yield the damage where ``file`` follows one that ended with ``last_txid`` and header CRC ``chain``.

        ``before`` is None where that one could not be read.
        """
        # Files join without a gap: each header tells the txid with which its file begins. This finds a lost end of the
        # file before.
        lineage = before.header.lineage if before is not None else file.header.lineage
        if not self._folder.continues_lineage(lineage, last_txid, file):
            yield _file_gap(file, last_txid)
        # And it tells behind which block it begins. This finds a file of a copy that went on separately.
        elif before is not None and chain and file.header.chain not in (0, chain):
            error = foreign_file_error(file, before, file.header.chain, chain)
            yield Damage(file.path, 0, 0, file.header.first_txid, None, error)

    def _open_walker(self, file: JournalFile, offset: int, last_txid: int, resync: bool, chain: int) -> Walker:
        """A walker from ``offset``, or where that is below zero from the file's first block."""
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
        # The file ends cleanly behind a block, yet before a txid that was acknowledged: whole blocks were lost. With a
        # tail the walker has compared already.
        if walker.tail is None and self.acknowledged > walker.last_txid:
            error = lost_end_error(walker.file, walker.offset, walker.last_txid, self.acknowledged)
            if not resync:
                raise error
            first = walker.last_txid + 1
            yield walker, Damage(walker.file.path, walker.offset, 0, first, self.acknowledged, error)

    def _find_start(self, after: int, topic: TopicRef | None, start: Position | None) -> Position:
        """Find the position between groups from which a read misses nothing above ``after``."""
        known = self._find_known_state()
        if known is not None and known.end.number < self._folder.first_known_number:
            known = None  # the file that it ends in was removed since
        # A remembered place is used only if a group begins there with the right txid: the file may be another one by
        # now. Otherwise its txid still bounds where to search.
        if start is not None:
            if known is not None and known.end == start:
                return start
            if self._folder.is_group_start(start):
                return start
            after = max(after, start.txid)
        if known is not None:
            latest = known.topic_states.get(topic, EMPTY_TOPIC_STATE).last_txid if topic is not None else known.end.txid
            # Nothing of this topic, or nothing at all, is newer: begin at the end, so that only what was added since is
            # read.
            if latest <= after:
                return known.end
        # First the file (by a search over the headers), then, in the last known file, the nearest mark before the txid:
        # a mark stands every MiB, so at most about that much is walked in vain.
        number = self._folder.find_file_number(after + 1)
        if known is not None and number == known.end.number:
            index = bisect_right(known.marks, (after, 1 << 63)) - 1
            if index >= 0:
                mark = Position(number, known.marks[index][1], known.marks[index][0])
                # Marks come from the topics file, which is derived and may be of another copy: believed only if a group
                # begins there.
                if self._folder.is_group_start(mark):
                    return mark
        return Position(number, -1, 0)

    def _find_known_state(self) -> JournalState | None:
        """Return the state of an earlier question, else that of the topics file if it can be trusted.

        What a topics file counts in had been synced before it was written. So it proves two things: up to there
        nothing can be torn, only damaged or lost (whether the journal still reaches so far or not); and, where the last
        block it counted in is still there, that nothing before needs to be read.
        """
        if self._state is None and not self._asked:
            self._asked = True
            told = self._folder.read_topics_state(self._lineage)
            self._told = told is not None
            if told is not None and isinstance(self._folder.directory, RemotePath):
                # A manifest is written when all that it tells of is there: no block has to prove it.
                self.note_synced_txid(told.end.txid)
                self._state = told
            elif told is not None:
                # It may have been written after the last look at the files: then they hold what it counts in by now.
                last = self._folder.open_last_file()
                # A topics file that leads beyond the file seen is no contradiction before the files have been looked at
                # again.
                if (told.end.number, told.end.offset) > (last.number, last.size):
                    self._folder.refresh()
                self.note_synced_txid(told.end.txid)
                # A file that is removed meanwhile is no longer among those known, when it is asked again.
                retry_after_removal(self._folder, lambda: self._adopt_told_state(told))
        elif self._state is not None and self._is_cut(self._state.end):
            # The file is shorter than when it was read: what is known of its end is not so any more.
            self._state = None
        return self._state

    def _adopt_told_state(self, told: JournalState) -> None:
        """Take over what the topics file tells if its last block stands where it says."""
        if not self._folder.first_known_number <= told.end.number <= self._folder.last_number:
            return
        file = self._folder.open_file(told.end.number)
        try:
            # The last block that was counted in must stand where the topics file says, with the same header CRC and a
            # whole body. The CRC starts from lineage, file and offset, so no other block can pass for it.
            ref = find_last_counted_block(told, file)
            self._state = told if ref is not None and ref.is_whole() else None
            # Only checkpoints name the histories that restores ended, and a writer copies them into the next one.
            told.histories = self._folder.histories
        finally:
            self._folder.release_file(file)

    def _is_cut(self, end: Position) -> bool:
        """Return whether the file that ``end`` lies in, if it is the last one, ends before it."""
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
