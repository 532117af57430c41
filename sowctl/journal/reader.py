"""Read a journal without a lock and without changing a byte (``sow-journal(5)``, "Reading").

The interface for all other packages; :mod:`sowctl.journal.scan` finds the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, overload

from sowctl.errors import DamageError, MissingError, SowError
from sowctl.journal.block import Block, Damage, EndedHistory, FileInfo, Gap, Position, TailReport, TopicState
from sowctl.journal.fileset import FileSet
from sowctl.journal.listing import list_files, require_archive_files
from sowctl.journal.scan import JournalScan, retry_after_removal
from sowctl.journal.state import EMPTY_TOPIC_STATE, JournalState
from sowctl.journal.stretch import (
    Segment,
    Stretch,
    find_group_before,
    iter_stretch_blocks,
    locate_by_index,
    locate_by_search,
    sample_header,
)
from sowctl.remote.place import Place
from sowctl.seam import SEAM, Seam
from sowctl.values.topicref import TopicRef

if TYPE_CHECKING:
    from sowctl.journal.archive.archived_file import ArchivedFile
    from sowctl.journal.blockcodec import BlockHeader
    from sowctl.journal.files import BlockRef

MAX_REREADS = 5
"""Maximum number of times that a reader after a store's position starts again because
:data:`~sowctl.journal.fileset.REMOVED_FILE_CODE` ended it."""


def _ignore_gap(_: Gap) -> None:
    return


class Journal:
    """The current state of an instance's journal; many processes may read while one writes. Not thread-safe.

    ``lineage``: 16 bytes. ``on_gap`` receives every gap among the entries read, ``on_read`` from :meth:`iter_blocks`
    the number of txids read and their total.
    """

    def __init__(
        self,
        directory: Place,
        instance: str,
        seam: Seam,
        acknowledged: int,
        archive: Place | None = None,
        reaching: int | None = None,
    ) -> None:
        """Use :meth:`open`."""
        self.directory = directory
        self.instance = instance
        # Without this check, a copy of an archive that lost its end would read as a shorter journal.
        require_archive_files(directory, archive, instance)
        self._folder = FileSet(directory, instance, seam, archive, reaching)
        # The last file decides: earlier files may belong to histories that a restore ended.
        self.lineage = self._folder.open_last_file().header.lineage
        self._scan = JournalScan(self._folder, self.lineage, acknowledged)
        self.on_gap: Callable[[Gap], None] = _ignore_gap
        self.on_read: Callable[[int, int], None] | None = None

    @classmethod
    def exists(cls, directory: Place, instance: str, archive: Place | None = None) -> bool:
        """Return whether there is at least one journal file. Raises DamageError ``SOW-JRN-006`` if one is missing."""
        # A missing file between others is an error even here: a new journal must never begin beside the remains of
        # another one.
        if isinstance(directory, Path) and (archive is None or isinstance(archive, Path)):
            return bool(list_files(directory, instance, archive))
        try:
            FileSet(directory, instance, SEAM, archive).close()
        except MissingError:
            return False
        return True

    @classmethod
    def open(
        cls,
        directory: Place,
        instance: str,
        *,
        seam: Seam = SEAM,
        acknowledged: int = 0,
        archive: Place | None = None,
        reaching: int | None = None,
    ) -> Journal:
        """Open for reading. ``acknowledged`` is the highest txid that any store has applied (0: unknown); ``archive``
        is a second directory that may contain files of the journal. One of the two may be the URL of an archive;
        ``reaching``: its manifest as already read by this process suffices if it has this txid.

        Raises MissingError ``SOW-JRN-001`` if there is no file, the errors of the last file's header, and DamageErrors
        if a local directory has the manifest of an archive but not the files in it.
        """
        return cls(directory, instance, seam, acknowledged, archive, reaching)

    @property
    def archive(self) -> Place | None:
        """The second directory that may contain files of the journal."""
        return self._folder.archive

    @property
    def search_locations(self) -> str:
        """The searched locations of files, as text."""
        return self._folder.search_locations

    @property
    def last_path(self) -> Place:
        """Path of the last file."""
        return self._folder.open_last_file().path

    @property
    def has_synced_txid(self) -> bool:
        """True if the topics file has the txid up to which the journal was synced."""
        return self._scan.has_synced_txid

    def note_synced_txid(self, txid: int) -> None:
        """Record that everything up to ``txid`` was synced: if it is missing, it was lost."""
        self._scan.note_synced_txid(txid)

    @property
    def tail_report(self) -> TailReport | None:
        """The part at the end that the last complete read skipped, None for none."""
        return self._scan.tail_report

    @property
    def first_txid(self) -> int:
        """The first txid that the files can contain: of the lineage, or of the part that pruning has left."""
        return retry_after_removal(self._folder, lambda: self._folder.read_first_txid(self._folder.numbers[0]))

    def require_files_after(self, after: int = 0) -> None:
        """Raise MissingError ``SOW-JRN-063`` on later reads if a current file with txids above ``after`` is removed.

        Continuing with the remaining files is right for queries about the present; a state built from all entries would
        lack records. Call this before checking that all entries exist: files removed earlier are not detected. Callers
        that have already checked use :meth:`require_proven_after`.
        """
        retry_after_removal(self._folder, lambda: self._folder.require_files_after(after))

    def require_proven_after(self, after: int) -> None:
        """As :meth:`require_files_after`, for files that were proven to contain all required entries above ``after``:
        also raises MissingError ``SOW-JRN-063`` if one of them was removed since, because the proof does not hold for
        the remaining files."""
        self._folder.require_files_after(after)

    def list_files(self) -> list[FileInfo]:
        """Return the files in order, after checking their headers. Raises DamageError for gaps and bad headers."""
        self._folder.refresh()
        return self._folder.list_file_infos()

    @property
    def histories(self) -> tuple[EndedHistory, ...]:
        """The histories that restores ended and that this journal continues, oldest first."""
        return self._folder.histories

    def read_last_txid(self) -> int:
        """Return the last txid of the last complete (or aborted) group; ``first_txid - 1`` in an empty journal."""
        return self.refresh_state().end.txid

    def find_block_ending_at(self, txid: int) -> tuple[int, int, int] | None:
        """Return file number, offset and header CRC of the last block, if the journal ends with ``txid``."""
        state = self.refresh_state()
        return state.block_identity if state.end.txid == txid else None

    def has_block(self, block: tuple[int, int, int], txid: int) -> bool:
        """Return whether the block that ends with ``txid`` has this file number, offset and header CRC.

        True also if its file was removed. Reads at most one header.
        """
        return self._scan.has_block(block, txid)

    def find_end(self) -> Position:
        """Return the position after the last complete group."""
        return self.refresh_state().end

    def find_topic_state(self, topic: TopicRef) -> TopicState:
        """Return the last entry of a topic, from the topics file and a scan of the part after it."""
        return self.refresh_state().topic_states.get(topic, EMPTY_TOPIC_STATE)

    def read_topic_states(self) -> dict[TopicRef, TopicState]:
        """Return the states of all topics in the journal."""
        return dict(self.refresh_state().topic_states)

    def covers_topic(self, topic: TopicRef) -> bool:
        """Return whether the files reach back to the first entry of a topic: it has no entry before the oldest file.

        Raises DamageError ``SOW-JRN-004``.
        """
        # The first checkpoint has all topics with entries before the oldest file.
        return self.find_prior_state(topic).last_txid == 0

    def find_prior_state(self, topic: TopicRef) -> TopicState:
        """Return the last entry of a topic before the oldest file, txid 0 for none. Raises DamageError
        ``SOW-JRN-004``."""
        # A topic without entries before the local files has none before those of an archive.
        known = self._find_prior_local_state(topic)
        if not known.last_txid:
            return known
        first = retry_after_removal(self._folder, lambda: self._folder.read_checkpoint_state(self._folder.numbers[0]))
        return first.topic_states.get(topic, EMPTY_TOPIC_STATE)

    def _find_prior_local_state(self, topic: TopicRef) -> TopicState:
        """Return the last entry of a topic before the oldest file that is known without reading the manifest at a
        URL."""
        first = retry_after_removal(
            self._folder, lambda: self._folder.read_checkpoint_state(self._folder.first_known_number)
        )
        return first.topic_states.get(topic, EMPTY_TOPIC_STATE)

    def reaches_txid(self, txid: int) -> bool:
        """Return whether the files go back to ``txid``; reads the manifest at a URL if the local files do not."""
        return self._read_first_local_txid() <= txid or self.first_txid <= txid

    def _read_first_local_txid(self) -> int:
        """Return the first txid of the files that are known without reading the manifest at a URL."""
        return retry_after_removal(self._folder, lambda: self._folder.read_first_txid(self._folder.first_known_number))

    def covers_topic_after(self, topic: TopicRef, txid: int) -> bool:
        """Return whether the files have all entries of a topic above ``txid``: it has none between ``txid`` and the
        oldest file. Reads the manifest at a URL if the local files do not suffice. Raises DamageError
        ``SOW-JRN-004``."""
        # Local files come first: the manifest at a URL is read only if they do not suffice.
        if self._read_first_local_txid() <= txid + 1 or self._find_prior_local_state(topic).last_txid <= txid:
            return True
        return self.reaches_txid(txid + 1) or self.find_prior_state(topic).last_txid <= txid

    def read_beginning_state(self) -> JournalState:
        """Return the state before the oldest file; callers must not change it. Raises DamageError ``SOW-JRN-004``."""
        self._folder.refresh()
        return self._folder.read_checkpoint_state(self._folder.numbers[0])

    @property
    def begins_lineage(self) -> bool:
        """True if the oldest file is the first file of the journal: nothing was pruned."""
        return self._folder.numbers[0] == 0

    def read_state_before(self, txid: int) -> JournalState:
        """Return the state before the file that contains ``txid``; callers must not change it. Raises DamageError
        ``SOW-JRN-004``."""
        self._folder.refresh()
        return self._folder.read_checkpoint_state(self._folder.find_file_number(txid))

    def find_txid_before_file(self, reached: Callable[[JournalState], bool]) -> int:
        """Return the last txid before the file in which ``reached`` becomes true of the journal's state.

        Once true it must stay true. Reads the checkpoints of some files, not their content. Raises DamageError
        ``SOW-JRN-004``.
        """
        self._folder.refresh()
        numbers = self._folder.numbers
        low, high = 0, len(numbers) - 1
        # Invariant: `reached` is false at the start of file `low`, or no file precedes it; it is true after file
        # `high`, or no file follows it.
        while low < high:
            middle = (low + high + 1) // 2
            if reached(self._folder.read_checkpoint_state(numbers[middle])):
                high = middle - 1
            else:
                low = middle
        return self._folder.read_first_txid(numbers[low]) - 1

    def find_highest_sequence(self, publisher: int) -> int:
        """Return the highest sequence of a publisher (hash of its client name), 0 for none."""
        return self.refresh_state().publishers.get(publisher, ("", 0))[1]

    def refresh_state(self) -> JournalState:
        """Bring the state up to the current end and return it; callers must not change it."""
        return self._scan.refresh_state()

    def forget(self) -> None:
        """Drop the known state of the end; the next query determines it again."""
        self._scan.forget()

    @overload
    def iter_blocks(
        self,
        after: int = ...,
        until: int | None = ...,
        topic: TopicRef | None = ...,
        start: Position | None = ...,
        resync: Literal[False] = ...,
    ) -> Iterator[Block]: ...

    @overload
    def iter_blocks(
        self,
        after: int = ...,
        until: int | None = ...,
        topic: TopicRef | None = ...,
        start: Position | None = ...,
        *,
        resync: Literal[True],
    ) -> Iterator[Block | Damage]: ...

    def iter_blocks(
        self,
        after: int = 0,
        until: int | None = None,
        topic: TopicRef | None = None,
        start: Position | None = None,
        resync: bool = False,
    ) -> Iterator[Block | Damage]:
        """Yield the blocks of complete groups with a txid above ``after`` and not above ``until``, in order.

        A block that straddles a bound is yielded whole. With ``topic``, blocks without it are skipped by their map.
        Reading begins at ``start`` if it is a position between groups of this journal; otherwise its txid serves as
        ``after``. Raises DamageError (exit 5) with file, offset and txids; with ``resync`` yields a :class:`Damage`
        instead and continues after it.
        """
        reach = self._find_walk_range(after, until)
        for item in self._scan.iter_block_refs(after, topic, start, resync):
            if isinstance(item, Damage):
                yield item
                continue
            header = item.header
            if until is not None and header.first_txid > until:
                return
            if reach is not None and self.on_read is not None and header.last_txid > reach[0]:
                self.on_read(min(header.last_txid, reach[1]) - reach[0], reach[1] - reach[0])
            # Reading begins at a position between groups, which may be well before `after`: earlier blocks are skipped
            # by their headers.
            if header.last_txid <= max(after, start.txid if start is not None else 0):
                continue
            try:
                if header.is_gap:
                    self._notify_gap(item, topic)
                    continue
                # The map lists the topics, so that columns and payloads of other topics stay unread.
                if topic is None or item.read_map().has_topic(topic):
                    yield item.load()
            except DamageError as error:
                if not resync:
                    raise
                size = header.size
                yield Damage(item.file.path, item.offset, size, header.first_txid, header.last_txid, error)

    def iter_block_refs(self, after: int = 0) -> Iterator[BlockRef]:
        """Yield the blocks of complete groups with a txid above ``after``, in order, as their headers; the rest can be
        read until the next block is requested. Raises DamageError as :meth:`iter_blocks`."""
        reach = self._find_walk_range(after, None)
        for item in self._scan.iter_block_refs(after, None, self._find_group_before(after), resync=False):
            assert not isinstance(item, Damage)
            if item.header.last_txid > after:
                if reach is not None and self.on_read is not None:
                    self.on_read(min(item.header.last_txid, reach[1]) - reach[0], reach[1] - reach[0])
                if item.header.is_gap:
                    self._notify_gap(item, None)
                else:
                    yield item

    def lacks_entries(self, topic: TopicRef) -> bool:
        """Return whether entries of a topic were, or may have been, cut out. Reads all headers; does not call
        ``on_gap``."""
        return any(gap.concerns_topic(topic) for gap in self.iter_gaps())

    def iter_gaps(self) -> Iterator[Gap]:
        """Yield the gaps that repairs left, in order. Reads all headers; does not call ``on_gap``."""
        for item in self._scan.iter_block_refs(0, None, None, resync=False):
            assert not isinstance(item, Damage)
            if item.header.is_gap:
                yield item.read_gap()

    def _find_walk_range(self, after: int, until: int | None) -> tuple[int, int] | None:
        """Return the txids before and at the end of a walk, for progress reports; None if unknown."""
        if self.on_read is None:
            return None
        try:
            last = self.read_last_txid()
            return max(after, self.first_txid - 1), last if until is None else min(until, last)
        except SowError:
            # The walk itself reports the error when it reaches it.
            return None

    def _notify_gap(self, ref: BlockRef, topic: TopicRef | None) -> None:
        """Report a gap to ``on_gap``, unless the requested topic has no entries in it."""
        gap = ref.read_gap()
        if topic is None or gap.concerns_topic(topic):
            self.on_gap(gap)

    def find_block_at(self, start: Position) -> Block | None:
        """Return the block at a position that a reader recorded: ``start.txid`` is the last txid before it; None if
        removed.

        Reads nothing before it. Raises DamageError ``SOW-JRN-010`` for a damaged block.
        """
        return self._scan.find_block_at(start)

    def list_segments(self, after: int = 0, until: int | None = None) -> list[Segment]:
        """Return the files that can contain a txid above ``after`` and up to ``until``, as facts for a plan, up to the
        end of the last complete group. Reads their headers, and as much as :meth:`refresh_state`."""
        state = self.refresh_state()
        return self._folder.list_segments(state.end, state.last_block, after, until)

    def count_bytes_between(self, begin: Position, end: Position) -> int:
        """Return the number of stored bytes between two positions; uses the sizes of the files in between."""
        if begin.number == end.number:
            return end.offset - begin.offset
        # Offsets in a compressed file refer to its decompressed content, which is larger than the file: the rest of
        # such a file may count as zero, but not as negative.
        rest = max(self._folder.read_stored_size(begin.number) - begin.offset, 0)
        return rest + sum(map(self._folder.read_stored_size, range(begin.number + 1, end.number))) + end.offset

    def find_archived_file(self, number: int) -> ArchivedFile | None:
        """Return the manifest's entry of a file that is read at a URL; None for other files."""
        return self._folder.find_archived_file(number) if self._folder.numbers else None

    def may_hold_entries(self, number: int, topic: TopicRef | None, low: int | None, high: int | None) -> bool:
        """Return whether a file can have entries of a topic (None: of any) within two times; True without a
        manifest."""
        archived = self._folder.find_archived_file(number)
        # The manifest does not include entries that were cut out; the file is read so that the gap is reported.
        return archived is None or archived.gaps > 0 or archived.may_hold_entries(topic, low, high)

    def locate_txid(self, segment: Segment, txid: int) -> tuple[int, int]:
        """Return the approximate offsets of a txid in a file (:data:`sowctl.journal.stretch.TxidLocator`); reads few
        blocks, and none of a file in an archive at a URL."""
        if self._folder.find_archived_file(segment.number) is not None:
            return locate_by_index(segment, txid)
        file = self._folder.open_file(segment.number)
        try:
            return locate_by_search(file, segment, txid)
        finally:
            self._folder.release_file(file)

    def sample_header(self, segment: Segment) -> BlockHeader | None:
        """As :func:`~sowctl.journal.stretch.sample_header`; for a file in an archive at a URL, a header that summarizes
        the whole file."""
        if (archived := self._folder.find_archived_file(segment.number)) is not None:
            return archived.build_summary_header()
        file = self._folder.open_file(segment.number)
        try:
            return sample_header(file, segment)
        finally:
            self._folder.release_file(file)

    def iter_stretch_blocks(
        self, stretch: Stretch, after: int = 0, until: int | None = None, topic: TopicRef | None = None
    ) -> Iterator[Block]:
        """Yield the blocks of a stretch with a txid above ``after`` and not above ``until``; with ``topic``, those with
        entries of it.

        Reads nothing else of the journal. Reports gaps as :meth:`iter_blocks` does. Raises DamageError.
        """
        file = self._folder.open_private_file(stretch.number)
        try:
            for ref in iter_stretch_blocks(file, stretch):
                header = ref.header
                if until is not None and header.first_txid > until:
                    return
                if header.last_txid <= after:
                    continue
                if header.is_gap:
                    self._notify_gap(ref, topic)
                elif topic is None or ref.read_map().has_topic(topic):
                    yield ref.load()
        finally:
            self._folder.release_file(file)

    def iter_group_positions(self, after: int = 0, until: int | None = None) -> Iterator[Position]:
        """Yield the position before each complete group that has a txid above ``after``, and none above ``until``.

        Reads only headers, except for the bodies of the last group, and few headers before ``after``. For files in an
        archive at a URL, only the positions in its manifest are yielded. Raises DamageError (exit 5) as
        :meth:`iter_blocks`.
        """
        for number in self._folder.numbers:
            if (archived := self._folder.find_archived_file(number)) is None:
                break
            yield from (
                place
                for place in archived.iter_positions()
                if after <= place.txid and (not until or place.txid < until)
            )
            after = max(after, archived.last_txid)
            if until is not None and until <= after:
                return
        for item in self._scan.iter_block_refs(after, None, self._find_group_before(after), resync=False):
            assert not isinstance(item, Damage)
            header = item.header
            if until is not None and header.group > until:
                return
            # A group is identified by its first block; a reader may begin only before a group, not within it.
            if header.first_txid == header.group and header.last_txid > after and not header.is_gap:
                yield Position(item.file.number, item.offset, header.group - 1)

    def _find_group_before(self, txid: int) -> Position | None:
        """Return the position of a group just before the entries above ``txid``; None if a few reads cannot find it: in
        a file that is read from its beginning, and in one at a URL."""
        number = self._folder.find_file_number(txid + 1)
        if self._folder.find_archived_file(number) is not None:
            return None
        file = self._folder.open_file(number)
        try:
            first = file.header.first_txid
            if not file.is_seekable or txid < first:
                return None
            found = find_group_before(file, Segment(number, file.size, first, txid), txid)
            return None if found is None else Position(number, *found)
        finally:
            self._folder.release_file(file)

    def close(self) -> None:
        """Close the files."""
        self._folder.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
