"""Check a journal: read and verify every byte and report problems as findings (``sow-journal(5)``).

The walk and its classification of tails are those of the reader. The check also verifies what a reader does not read:
every body, every column against header and map, times per topic, and the topics file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from sowctl.errors import DamageError, MissingError, SowError, StorageError, VersionError
from sowctl.findings import Finding, Level, Place
from sowctl.journal.block import Block, Damage, EndedHistory, Position
from sowctl.journal.files import BlockRef, JournalFile, require_same_content
from sowctl.journal.format import NO_PUBLISHER, OPERATIONS
from sowctl.journal.listing import find_files, list_files
from sowctl.journal.lock import is_locked
from sowctl.journal.state import (
    JournalState,
    build_topics_path,
    decode_checkpoint,
    decode_topics_file,
    read_topics_file,
)
from sowctl.journal.walk import Walker, lost_end_error
from sowctl.remote.place import require_local
from sowctl.seam import SEAM, Seam
from sowctl.values.display import format_count
from sowctl.values.topicref import TopicRef


class JournalCoverage(Struct):
    """The amount of data read by a check; updated while its findings are consumed.

    ``bytes`` is the decompressed size, ``stored`` the size on disk; ``packed`` of ``files`` are compressed,
    ``archived`` are in the archive; ``gaps`` is the number of removed parts. ``missed``: texts about unreadable parts.
    """

    files: int = 0
    packed: int = 0
    archived: int = 0
    bytes: int = 0
    stored: int = 0
    blocks: int = 0
    entries: int = 0
    groups: int = 0
    gaps: int = 0
    missed: list[str] = field(default_factory=list)


def check_journal(
    directory: Path,
    instance: str,
    *,
    seam: Seam = SEAM,
    acknowledged: int = 0,
    coverage: JournalCoverage | None = None,
    archive: Path | None = None,
    on_read: Callable[[int, int], None] | None = None,
) -> Iterator[Finding]:
    """Read everything and yield problems in file order; ``archive`` may contain files of the journal too.

    Ids are the codes that a reader would raise; also ``SOW-JRN-040`` torn tail, ``041`` unfinished group, ``042``
    decreasing time, ``043`` unusable topics file, ``044`` topics file contradicts the journal. ``acknowledged`` is the
    highest txid that any store has applied. ``on_read`` receives the number of bytes on disk that were read, and the
    total. Raises only MissingError ``SOW-JRN-001`` and StorageError ``SOW-JRN-020``.
    """
    check = _JournalCheck(directory, instance, seam, acknowledged, coverage or JournalCoverage(), archive)
    check.on_read = on_read
    yield from check.run()


class _JournalCheck:
    def __init__(
        self,
        directory: Path,
        instance: str,
        seam: Seam,
        acknowledged: int,
        coverage: JournalCoverage,
        archive: Path | None,
    ) -> None:
        self.directory = directory
        self.archive = archive
        self.instance = instance
        self.seam = seam
        self.acknowledged = acknowledged
        self.coverage = coverage
        self.lineage = self.newest = b""
        self.chain = 0
        self.histories: tuple[EndedHistory, ...] = ()
        self.last_txid: int | None = None
        self.times: dict[TopicRef, int] = {}
        self.state = JournalState(Position(0, 0, 0))
        self.told: JournalState | None = None
        self.broken = False
        self.topics_file = b""
        self.on_read: Callable[[int, int], None] | None = None
        self.behind = self.total = 0
        """Bytes on disk of the files read so far, and of all files."""

    def run(self) -> Iterator[Finding]:
        # Read first: its state is included in the files listed afterwards.
        self.topics_file = read_topics_file(self.directory, self.instance)
        try:
            paths = list_files(self.directory, self.instance, self.archive)
        except DamageError as error:
            yield _convert_error(error, str(self.directory), None)
            self.broken = True
            paths = find_files(self.directory, self.instance, self.archive)
        numbers = list(paths)
        if not numbers:
            raise MissingError("SOW-JRN-001", f"instance {self.instance!r} has no journal here")
        self._look_ahead(paths[numbers[-1]][0], numbers[-1])
        if self.on_read is not None:
            self.total = sum(map(_stored_size, (paths[number][0] for number in numbers)))
        for number in numbers:
            path, *others = paths[number]
            try:
                file = self._open_file(path, number)
                if file is None:
                    continue
                try:
                    yield from self._check_copies(file, others)
                    yield from self._check_file(file, number == numbers[-1])
                    self.behind += file.stored_bytes
                finally:
                    file.close()
            except (DamageError, VersionError) as error:
                yield _convert_error(error, str(path), 0)
                self.coverage.missed.append(f"{path.name}: {error.message}")
                self.last_txid, self.chain = None, 0
                self.broken = True

    def _open_file(self, path: Path, number: int) -> JournalFile | None:
        """Open a file at its current path; None if it was removed since, with all before it."""
        try:
            return JournalFile(path, number, self.seam)
        except StorageError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            # The file was moved, compressed or pruned after the listing. Pruning removes the oldest files first, so a
            # number below all remaining ones was pruned.
            paths = find_files(self.directory, self.instance, self.archive)
            if number < min(paths, default=0):
                return None
            return JournalFile(paths.get(number, [path])[0], number, self.seam)

    def _look_ahead(self, path: Path, number: int) -> None:
        """Read the lineage and the histories that restores ended from the last file."""
        try:
            with closing(JournalFile(path, number, self.seam)) as file:
                header = file.header
                start = Position(number, header.blocks_offset, header.first_txid - 1)
                self.newest = header.lineage
                self.histories = decode_checkpoint(
                    file.read_checkpoint(), start, header.chain, header.version
                ).histories
        except (SowError, ValueError, TypeError):
            pass  # its errors are reported when the file itself is checked

    def _check_file_boundary(self, file: JournalFile) -> Iterator[Finding]:
        """Check that a file continues the previous one."""
        header = file.header
        # None after an unreadable file: whether the files are contiguous is unknown, and is not reported a second time.
        if self.last_txid is None:
            return
        ended = next((one for one in self.histories if one.lineage == self.lineage), None)
        if header.lineage != self.lineage and ended is not None:
            # After a restore, txids continue above every txid ever assigned, not after the last one restored.
            expected = ended.above + 1 if ended.last_txid == self.last_txid else self.last_txid + 1
        else:
            expected = self.last_txid + 1
        if header.first_txid != expected:
            self.broken = True
            text = f"the file should start at txid {expected}, but starts at {header.first_txid}"
            yield _build_problem("SOW-JRN-011", file, 0, text)
        elif self.chain and header.chain not in (0, self.chain):
            self.broken = True
            text = (
                "two histories in one journal: the file follows a block with checksum "
                f"{header.chain:08x}, but the last block has {self.chain:08x}"
            )
            hint = "copies of this journal were continued separately: restore the files of one of them"
            yield _build_problem("SOW-JRN-054", file, 0, text, hint=hint)

    def _check_copies(self, file: JournalFile, others: Sequence[Path]) -> Iterator[Finding]:
        for path in others:
            try:
                require_same_content(file, path, self.seam)
            except DamageError as error:
                yield _convert_error(error, str(path), 0)

    def _check_file(self, file: JournalFile, is_last: bool) -> Iterator[Finding]:
        header = file.header
        # A compressed file is decompressed completely here, so its own checksum is verified before any block is read.
        self.coverage.bytes += file.size
        self.coverage.stored += file.stored_bytes
        self.coverage.files += 1
        self.coverage.packed += file.is_compressed
        self.coverage.archived += require_local(file.path).parent != self.directory
        # The first readable file determines the journal; later ones are compared with it.
        if not self.lineage:
            self.lineage = header.lineage
            self.told = decode_topics_file(self.topics_file, self.newest or self.lineage)
        elif header.lineage != self.lineage and not any(one.lineage == self.lineage for one in self.histories):
            yield _build_problem("SOW-JRN-005", file, 0, "the file belongs to another journal than the files before it")
        yield from self._check_file_boundary(file)
        begin = Position(file.number, header.blocks_offset, header.first_txid - 1)
        yield from self._check_checkpoint(file, begin)
        if is_last and self.told is not None:
            # The topics file is written only after a sync, so nothing before its end can be torn.
            self.acknowledged = max(self.acknowledged, self.told.end.txid)
        # Every file is walked from its own start, not from the end of the previous one: damage in one does not hide
        # problems in the next.
        walker = Walker(
            file,
            begin.offset,
            begin.txid,
            is_last=is_last,
            acknowledged=self.acknowledged,
            resync=True,
            chain=header.chain,
        )
        self.state.advance_to(begin, (0, 0))
        for item in walker.iter_groups():
            if isinstance(item, Damage):
                self.broken = True
                yield _convert_error(item.error, str(file.path), item.offset)
                self._note_missed(file, item.offset, item.size)
            else:
                yield from self._check_group(file, walker, item)
            if self.on_read is not None and self.total:
                # In a compressed file, the walk counts decompressed bytes.
                done = self.behind + file.stored_bytes * min(walker.offset, file.size) // max(file.size, 1)
                self.on_read(min(done, self.total), self.total)
        self.last_txid, self.lineage, self.chain = walker.last_txid, header.lineage, walker.chain
        if is_last:
            yield from self._check_end(file, walker)

    def _check_checkpoint(self, file: JournalFile, begin: Position) -> Iterator[Finding]:
        try:
            # Each checkpoint must equal the accumulated state of the previous files; the first one is the initial
            # state.
            header = file.header
            noted = decode_checkpoint(file.read_checkpoint(), begin, header.chain, header.version)
        except DamageError as error:
            yield _convert_error(error, str(file.path), None)
        except (ValueError, TypeError) as error:
            yield _build_problem("SOW-JRN-004", file, None, f"invalid checkpoint ({error})")
        else:
            if self.last_txid is None:
                self.state = noted
                self.times = {topic: state.last_time for topic, state in noted.topic_states.items()}
            # After damage the state is incomplete; the checkpoint of the next intact file replaces it, so that one loss
            # is not reported for every file.
            elif self.broken:
                self.state = noted
            elif noted.topic_states != self.state.topic_states or noted.publishers != self.state.publishers:
                yield _build_problem("SOW-JRN-014", file, None, "the checkpoint contradicts the files before it")

    def _check_group(self, file: JournalFile, walker: Walker, group: list[BlockRef]) -> Iterator[Finding]:
        place = Position(file.number, group[0].offset, group[0].header.first_txid - 1)
        happened = not group[-1].header.is_abort
        self.coverage.groups += happened
        for ref in group:
            if ref.header.is_gap:
                yield from self._check_gap(file, ref, place, happened)
                continue
            try:
                # The walk has checked headers and, at the end, bodies of the last group; the check reads every body.
                block = ref.load()
                self.coverage.blocks += 1
                if not ref.header.is_abort:
                    yield from self._check_block(block, happened)
            except DamageError as error:
                self.broken = True
                yield _convert_error(error, str(file.path), ref.offset)
                self._note_missed(file, ref.offset, ref.header.size)
                continue
            if happened:
                self.state.absorb_block(place, block.map)
        self.state.advance_to(Position(file.number, walker.offset, walker.last_txid), walker.last_block)
        # The topics file is compared at the position that it describes, which need not be the end of the journal.
        if self.told is not None and self.told.end == self.state.end and not self.broken:
            yield from self._compare_topics_file(self.told)

    def _check_gap(self, file: JournalFile, ref: BlockRef, place: Position, happened: bool) -> Iterator[Finding]:
        """Report the part that a repair cut out; every check reports it as known."""
        try:
            gap = ref.read_gap()
        except DamageError as error:
            self.broken = True
            yield _convert_error(error, str(file.path), ref.offset)
            return
        self.coverage.gaps += 1
        if gap.topic_refs is None:
            # The next checkpoint has the topics and publishers with entries in the gap.
            self.broken = True
        elif happened:
            self.state.absorb_block(place, ref.read_map())
        yield _build_problem("SOW-JRN-071", file, ref.offset, gap.text, Level.WARNING)

    def _note_missed(self, file: JournalFile, offset: int, size: int) -> None:
        if size:
            self.coverage.missed.append(f"{file.path.name}: {format_count(size, 'byte')} at {offset}")

    def _check_block(self, block: Block, happened: bool) -> Iterator[Finding]:
        """Compare the content with header and map. Raises DamageError ``SOW-JRN-014``."""
        columns = block.decode_columns()
        sizes = block.decompress_payloads()
        self.coverage.entries += len(block)
        wrong: list[str] = []
        if len(sizes) != sum(columns.lengths):
            wrong.append("the payload lengths do not match")
        # Readers by time skip blocks by these two bounds: wrong ones would hide entries.
        if (min(columns.times), max(columns.times)) != (block.header.earliest, block.header.latest):
            wrong.append("its times do not match its header")
        if not OPERATIONS.keys() >= set(columns.operations):
            wrong.append("an unknown operation")
        last = {topic: index for index, topic in enumerate(columns.topic_indexes)}
        # A listed topic without entries gets the txid before the first one, which its row cannot have.
        rows = [(block.first_txid + last.get(index, -1), row) for index, row in enumerate(block.map.topic_rows)]
        # Readers of one topic skip blocks by this list: a missing topic would hide entries.
        if len(last) != len(rows) or any(
            row.last_txid != txid or row.last_time != columns.times[txid - block.first_txid] for txid, row in rows
        ):
            wrong.append("its list of topics does not match its entries")
        highest: dict[int, int] = {}
        for who, sequence in zip(columns.publisher_indexes, columns.sequences, strict=True):
            highest[who] = max(sequence, highest.get(who, 0))
        highest.pop(NO_PUBLISHER, None)
        if highest != {index: who.sequence for index, who in enumerate(block.map.publishers)}:
            wrong.append("its list of publishers does not match its entries")
        for text in wrong:
            yield self._block_problem(block, "SOW-JRN-014", f"a block is inconsistent: {text}")
        if happened:
            yield from self._check_times(block)

    def _check_times(self, block: Block) -> Iterator[Finding]:
        columns = block.decode_columns()
        topic_refs = block.topic_refs
        for index, (number, at) in enumerate(zip(columns.topic_indexes, columns.times, strict=True)):
            topic = topic_refs[number]
            before = self.times.get(topic)
            if before is not None and at < before:
                txid = block.first_txid + index
                text = f"the time of txid {txid} is earlier than that of a previous entry of topic {topic.name}"
                yield self._block_problem(block, "SOW-JRN-042", text)
            self.times[topic] = at

    def _check_end(self, file: JournalFile, walker: Walker) -> Iterator[Finding]:
        # A tail that a crash left is a warning, because the next writer repairs it; lost acknowledged entries are an
        # error.
        tail = walker.tail
        if tail is None and self.acknowledged > walker.last_txid:
            error = lost_end_error(file, walker.offset, walker.last_txid, self.acknowledged)
            yield _convert_error(error, str(file.path), walker.offset)
        hint = "the next command that writes corrects this"
        if tail is not None and self._is_being_written(file):
            tail = None
        if tail is not None and tail.size:
            yield _build_problem("SOW-JRN-040", file, tail.offset, tail.text, Level.WARNING, hint)
        if tail is not None and tail.open_group:
            unfinished = replace(tail, size=0).text
            yield _build_problem("SOW-JRN-041", file, walker.offset, unfinished, Level.WARNING, hint)
        path = build_topics_path(self.directory, self.instance)
        if self.told is None and path.exists():
            place = Place(str(path))
            text = "the topics file is damaged or belongs to another journal; it is ignored"
            yield Finding("SOW-JRN-043", Level.INFO, place, text, hint="the next writer rewrites it")

    def _is_being_written(self, file: JournalFile) -> bool:
        """Return whether another process is appending the open group at the end, so that it is no tail.

        A group may take several appends, and the lock is held from its first block to its last. If a process has
        released the lock since the end was read, it has continued writing or repaired the end.
        """
        return is_locked(self.directory, self.instance) or file.read_size() != file.size

    def _compare_topics_file(self, told: JournalState) -> Iterator[Finding]:
        # Readers ignore a topics file whose last block differs, so this is no contradiction.
        if told.last_block == self.state.last_block and (
            told.topic_states != self.state.topic_states or told.publishers != self.state.publishers
        ):
            place = Place(str(build_topics_path(self.directory, self.instance)))
            yield Finding(
                "SOW-JRN-044",
                Level.ERROR,
                place,
                "the topics file contradicts the journal",
                hint="remove the topics file; the next writer rebuilds it",
            )

    def _block_problem(self, block: Block, code: str, text: str) -> Finding:
        return Finding(code, Level.ERROR, Place(str(block.path), offset=block.start.offset), text)


def _stored_size(path: Path) -> int:
    """Return the bytes on disk; 0 for a file that was removed, or that is at a URL."""
    try:
        return require_local(path).stat().st_size
    except (OSError, SowError):
        return 0


def _build_problem(
    code: str, file: JournalFile, offset: int | None, text: str, level: Level = Level.ERROR, hint: str | None = None
) -> Finding:
    return Finding(code, level, Place(str(file.path), offset=offset), text, hint=hint)


def _convert_error(error: SowError, path: str, offset: int | None) -> Finding:
    facts = error.facts.get("offset", offset)
    return Finding(error.code, Level.ERROR, Place(path, offset=facts), error.message, hint=error.hint)
