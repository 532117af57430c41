"""The journal of a backup up to a txid, and the new history that a restore begins behind it (``sow-journal(5)``).

Files are copied as they are; only the one that the txid lies in is cut, behind a whole group. What comes behind stands
in a file of its own, of a new lineage, whose txids are above every one that may have been given.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.directories import make_directories
from sowctl.engine.upkeep.backup import copying
from sowctl.engine.upkeep.backup.folder import write_synced
from sowctl.journal.appender import Appender
from sowctl.journal.block import Ended, Position
from sowctl.journal.files import JournalFile
from sowctl.journal.format import PACKED, pack_file_header
from sowctl.journal.reader import Journal
from sowctl.remote.place import on_disk

if TYPE_CHECKING:
    from sowctl.journal.block import FileInfo
    from sowctl.seam import Seam
    from sowctl.values.times import Micros

STEP = 1_000_000_000_000
"""A new history begins behind a multiple of this: an instance that was lost may have given txids that no backup knows,
and hardly so many. At 400,000 messages a second it would have taken a month."""
_PART = 4 << 20


def end_at(log: Journal, txid: int) -> tuple[Position, Position]:
    """The places before and behind the group in which ``txid`` lies; the same twice where a group ends with it.

    Groups happen as a whole, and the state as of a txid has its entry, so all of the group belongs to it. Raises
    DamageError.
    """
    first = log.files()[0]
    end = Position(first.number, 0, first.first_txid - 1)
    within = False
    for ref in log.unread():
        header = ref.header
        if not within and header.first_txid > txid:
            return end, end
        within = not header.is_last
        if not within:
            before, end = end, Position(ref.file.number, ref.end, header.last_txid)
            if end.txid > txid:
                return before, end
    end = log.end()
    return end, end


def end_before(log: Journal, at: Micros) -> Position:
    """The place behind the last group before the first one with an entry later than ``at``. Raises DamageError."""
    first = log.files()[0]
    end = Position(first.number, 0, first.first_txid - 1)
    for ref in log.unread():
        header = ref.header
        if header.latest > at:
            return end
        if header.is_last:
            end = Position(ref.file.number, ref.end, header.last_txid)
    return log.end()


def wanted_behind(log: Journal, end: Position, at: Micros) -> bool:
    """Whether :func:`end_before` left out blocks with entries up to ``at``: their group goes beyond it, or a group
    before them in the journal does."""
    return any(ref.header.earliest <= at for ref in log.unread(end.txid))


def time_of(log: Journal, end: Position) -> Micros:
    """The time of the last entry before a place; 0 where there is none."""
    return max((ref.header.latest for ref in log.unread() if ref.header.last_txid <= end.txid), default=0)


def copy_journal(files: Sequence[FileInfo], end: Position, places: dict[Path, Path], seam: Seam) -> int:
    """Copy the files up to ``end`` from the directories to which ``places`` gives another; the bytes that were written.

    Raises OSError and what unpacking raises.
    """
    total = 0
    for info in files:
        target = places[on_disk(info.path).parent] / info.path.name
        make_directories(target.parent, seam)
        if info.number < end.number:
            total += copying.copy(on_disk(info.path), target, seam)[0]
        elif info.number == end.number:
            total += _copy_cut(info, end, target, seam)
    return total


def _copy_cut(info: FileInfo, end: Position, target: Path, seam: Seam) -> int:
    file = JournalFile(on_disk(info.path), info.number, seam)
    try:
        offset = max(end.offset, file.header.blocks_offset)
        if not info.is_packed:
            return copying.copy(on_disk(info.path), target, seam, offset)[0]
        # Compressed files are never appended to; and a part of one has to be unpacked in any case.
        plain = target.with_suffix("") if target.suffix in PACKED else target
        parts = [bytes(file.read(at, min(_PART, offset - at))) for at in range(0, offset, _PART)]
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
) -> Ended:
    """Begin a new history behind the end of a journal, with txids above ``above``; the one that this ends.

    Raises OSError and what reading raises.
    """
    with Journal.open(directory, instance, seam=seam, archive=archive) as log:
        state = log.state()
        ended = Ended(log.lineage, state.end.txid, above, now)
        # Noted in the checkpoint of the first file: every reader can name the history that a bookmark is of.
        state.histories = (*log.histories, ended)
        # In a file of its own: no block of the former history is touched.
        number = state.end.number + 1
        header = pack_file_header(
            lineage,
            above + 1,
            number,
            now,
            state.checkpoint(),
            (state.last_block[0], state.chain),
            state.file_version,
        )
    make_directories(directory, seam)  # all files may lie in the archive
    file = Appender(directory, instance, seam)
    try:
        file.create(number, header)
    finally:
        file.close()
    return ended
