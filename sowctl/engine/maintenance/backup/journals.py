"""The journal of a backup up to a txid, and the new history that a restore starts after it (``sow-journal(5)``).

Files are copied unchanged; only the one that contains the txid is truncated, after a complete group. Later entries go
to a new file with a new lineage, whose txids are above all that may have been assigned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.directories import make_directories
from sowctl.engine.maintenance.backup import file_copy
from sowctl.engine.maintenance.backup.folder import write_synced
from sowctl.journal.appender import Appender
from sowctl.journal.block import EndedHistory, Position
from sowctl.journal.files import JournalFile
from sowctl.journal.format import COMPRESSED_SUFFIXES, pack_file_header
from sowctl.journal.reader import Journal
from sowctl.remote.place import require_local

if TYPE_CHECKING:
    from sowctl.journal.block import FileInfo
    from sowctl.journal.files import BlockRef
    from sowctl.seam import Seam
    from sowctl.values.times import Micros
    from sowctl.values.topicref import TopicRef

TXID_STEP = 1_000_000_000_000
"""A new history starts after a multiple of this: a lost instance may have assigned txids that no backup knows, but
hardly that many. At 400,000 messages per second it would have taken a month."""
_PART_BYTES = 4 << 20


class TopicLeftOut(Struct, frozen=True):
    """The number of entries of a topic that a restore to a time omits although they are not later than the time.
    ``is_empty``: the topic has no entry before the cut."""

    topic: str
    message_type: str
    entries: int
    is_empty: bool


class CutChoice(Struct, frozen=True):
    """A txid to restore to instead of the time: it includes the first ``entries`` of the omitted ones, and ``later``
    entries that are later than the time. ``topics``: the names of the topics whose entries it includes."""

    txid: int
    entries: int
    later: int
    topics: tuple[str, ...]


class LeftOutEntries(Struct, frozen=True):
    """Entries that a restore to a time omits although they are not later, and the txids that include some or all."""

    topic_counts: tuple[TopicLeftOut, ...] = ()
    choices: tuple[CutChoice, ...] = ()

    @property
    def entry_count(self) -> int:
        """The number of omitted entries of all topics."""
        return sum(topic.entries for topic in self.topic_counts)

    @property
    def empty_topics(self) -> tuple[str, ...]:
        """The names of the topics without an entry before the cut."""
        return tuple(topic.topic for topic in self.topic_counts if topic.is_empty)


def find_end_at(log: Journal, txid: int) -> tuple[Position, Position]:
    """Return the positions before and after the group that contains ``txid``; the same position twice if a group ends
    there.

    Groups are atomic, and the state as of a txid includes its entry, so the whole group belongs to it. Raises
    DamageError.
    """
    first = log.list_files()[0]
    end = Position(first.number, 0, first.first_txid - 1)
    within = False
    for ref in log.iter_block_refs():
        header = ref.header
        if not within and header.first_txid > txid:
            return end, end
        within = not header.is_last
        if not within:
            before, end = end, Position(ref.file.number, ref.end_offset, header.last_txid)
            if end.txid > txid:
                return before, end
    end = log.find_end()
    return end, end


def find_end_before(log: Journal, at: Micros) -> Position:
    """Return the end of the last group before the first group with an entry later than ``at``. Raises DamageError."""
    first = log.list_files()[0]
    end = Position(first.number, 0, first.first_txid - 1)
    for ref in log.iter_block_refs():
        header = ref.header
        if header.latest > at:
            return end
        if header.is_last:
            end = Position(ref.file.number, ref.end_offset, header.last_txid)
    return log.find_end()


def find_left_out(log: Journal, end: Position, at: Micros) -> LeftOutEntries:
    """Return the entries up to ``at`` that :func:`find_end_before` omits: their group, or an earlier one, has a later
    entry. Raises DamageError."""
    counts: Counter[TopicRef] = Counter()
    group_counts: Counter[TopicRef] = Counter()
    later = group_later = 0
    choices: list[CutChoice] = []
    for ref in log.iter_block_refs(end.txid):
        header = ref.header
        found = _count_until(ref, at)
        group_counts.update(found)
        group_later += header.count - found.total()
        if not header.is_last:
            continue
        counts.update(group_counts)
        later += group_later
        if group_counts:
            names = tuple(sorted({name for name, _ in counts}))
            # Only the first and the last choice are kept: there may be as many as groups.
            choices = [*choices[:1], CutChoice(header.last_txid, counts.total(), later, names)]
        group_counts, group_later = Counter(), 0
    kept = _find_topics_before(log, end, set(counts))
    topic_counts = tuple(TopicLeftOut(*topic, counts[topic], topic not in kept) for topic in sorted(counts))
    return LeftOutEntries(topic_counts, tuple(choices))


def _count_until(ref: BlockRef, at: Micros) -> Counter[TopicRef]:
    """Return the number of entries up to ``at`` in a block, by topic."""
    if ref.header.earliest > at:
        return Counter()
    block = ref.load()
    columns, topic_refs = block.decode_columns(), block.topic_refs
    indexes = Counter(index for index, time in zip(columns.topic_indexes, columns.times, strict=True) if time <= at)
    return Counter({topic_refs[index]: count for index, count in indexes.items()})


def _find_topics_before(log: Journal, end: Position, refs: set[TopicRef]) -> set[TopicRef]:
    """Return the ``refs`` that have an entry before ``end``, in the files or before the oldest one."""
    found = {topic for topic in refs if log.find_prior_state(topic).last_txid}
    for ref in log.iter_block_refs() if refs - found else ():
        if ref.header.first_txid > end.txid or found == refs:
            break
        found.update(row.topic for row in ref.read_map().topic_rows if row.topic in refs)
    return found


def read_time_before(log: Journal, end: Position) -> Micros:
    """Return the time of the last entry before a position; 0 without one."""
    return max((ref.header.latest for ref in log.iter_block_refs() if ref.header.last_txid <= end.txid), default=0)


def copy_journal(
    files: Sequence[FileInfo],
    end: Position,
    places: dict[Path, Path],
    seam: Seam,
    watch: Callable[[str, int, int], None],
) -> int:
    """Copy the files up to ``end`` to the directories that ``places`` maps theirs to; return the bytes written.

    ``watch`` is called with the copied and the total bytes. Raises OSError and what decompression raises.
    """
    total = 0
    told = file_copy.PortionProgress(
        watch, "bytes of the journal", sum(info.size for info in files if info.number <= end.number)
    )
    for info in files:
        target = places[require_local(info.path).parent] / info.path.name
        make_directories(target.parent, seam)
        if info.number < end.number:
            total += file_copy.copy_file(require_local(info.path), target, seam, on_read=told)[0]
        elif info.number == end.number:
            total += _copy_cut(info, end, target, seam, told)
    return total


def _copy_cut(info: FileInfo, end: Position, target: Path, seam: Seam, told: Callable[[int], None]) -> int:
    file = JournalFile(require_local(info.path), info.number, seam)
    try:
        # Offset 0 means that no block is kept (find_end_before). The header and the checkpoint are copied in any case.
        offset = max(end.offset, file.header.blocks_offset)
        if not info.is_compressed:
            return file_copy.copy_file(require_local(info.path), target, seam, offset, on_read=told)[0]
        # Compressed files are never appended to, and a part of one has to be decompressed in any case.
        plain = target.with_suffix("") if target.suffix in COMPRESSED_SUFFIXES else target
        parts = [bytes(file.read(at, min(_PART_BYTES, offset - at))) for at in range(0, offset, _PART_BYTES)]
        write_synced(plain, b"".join(parts), seam)
        return offset
    finally:
        file.close()


def begin_history(
    directory: Path,
    instance: str,
    archive: Path | None,
    *,
    lineage: bytes,
    above: int,
    now: Micros,
    seam: Seam,
) -> EndedHistory:
    """Start a new history after the end of a journal, with txids above ``above``; return the history that ends.

    Raises OSError and what reading raises.
    """
    with Journal.open(directory, instance, seam=seam, archive=archive) as log:
        state = log.refresh_state()
        ended = EndedHistory(log.lineage, state.end.txid, above, now)
        # Recorded in the checkpoint of the first file: every reader can name the history of a bookmark.
        state.histories = (*log.histories, ended)
        # In a separate file: no block of the former history is changed.
        number = state.end.number + 1
        header = pack_file_header(
            lineage,
            above + 1,
            number,
            now,
            state.encode_checkpoint(),
            (state.last_block[0], state.chain),
            state.file_version,
        )
    make_directories(directory, seam)  # all files may be in the archive
    file = Appender(directory, instance, seam)
    try:
        file.create_file(number, header)
    finally:
        file.close()
    return ended
