"""Repair of a journal: replace unreadable parts of its files by gaps; intact parts stay unchanged.

The damage is found by walking all files as a resyncing reader: the parts between intact blocks are cut out. Called
under the locks of :mod:`sowctl.journal.maintenance.lock` and of writers. Specified in ``sow-journal(5)``, "Gaps" and
"Damage cut out".
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

from msgspec import Struct

from sowctl.checksum import crc32
from sowctl.directories import FILE_MODE, sync_directory
from sowctl.errors import DamageError, SowError, StorageError, VersionError
from sowctl.findings import Finding, Level, Place
from sowctl.journal.appender import describe_os_error
from sowctl.journal.block import Damage, TailReport
from sowctl.journal.blockcodec import (
    ABORT_FLAG,
    BLOCK_HEADER_SIZE,
    CODEC_NONE,
    GAP_FLAG,
    LAST_BLOCK_FLAG,
    BlockHeader,
    BlockMap,
    compute_header_seed,
    pack_block_header,
)
from sowctl.journal.files import BlockRef, JournalFile
from sowctl.journal.listing import list_files
from sowctl.journal.maintenance.relocation import build_hidden_path
from sowctl.journal.state import write_all
from sowctl.journal.walk import Walker
from sowctl.remote.place import require_local
from sowctl.seam import Seam
from sowctl.values.display import format_count
from sowctl.values.times import Micros, format_time

OTHER_HISTORY_CODE = "SOW-JRN-054"
_REPAIR_CHUNK_BYTES = 4 << 20
"""Bytes copied at a time."""


class Cut(Struct, frozen=True):
    """A stretch of a file to be cut out: ``size`` bytes at ``offset``, and the gap that replaces it.

    ``group``, ``flags``, ``earliest`` and ``latest`` are those of the gap's header, ``map`` its encoded map. ``names``
    is None if the content is unknown. ``at_end``: the file ends there, so that the gap may be longer.
    """

    offset: int
    size: int
    first_txid: int
    last_txid: int
    group: int
    flags: int
    reason: str
    map: bytes = b""
    names: BlockMap | None = None
    earliest: int = 0
    latest: int = 0
    at_end: bool = False

    @property
    def end_offset(self) -> int:
        """The offset after the stretch."""
        return self.offset + self.size

    @property
    def fitting_map(self) -> bytes:
        """The map, if there is room for it."""
        return self.map if self.at_end or BLOCK_HEADER_SIZE + len(self.map) <= self.size else b""


class RepairPlan(Struct):
    """The damage of a journal: ``cuts`` by file, the ``tail`` for the next writer, ``left``: damage that no gap can
    repair."""

    cuts: dict[Path, list[Cut]]
    left: list[Finding]
    tail: TailReport | None = None


class RepairedGap(Struct, frozen=True):
    """A gap that was or will be made: position, txids, and the receipt, None before the repair.

    ``topics`` had entries in it; None if unknown.
    """

    path: Path
    offset: int
    size: int
    first_txid: int
    last_txid: int
    topics: tuple[str, ...] | None
    reason: str
    receipt: Path | None


def plan_repair(
    directory: Path, instance: str, seam: Seam, acknowledged: int, archive: Path | None = None
) -> RepairPlan:
    """Read all files and return the parts to cut out. ``acknowledged`` is the highest txid that any store has applied,
    or that the topics file includes. Raises MissingError, StorageError, DamageError ``SOW-JRN-006``."""
    found = RepairPlan({}, [])
    # Raises if a file is missing between others: a gap cannot replace a whole file.
    paths = list_files(directory, instance, archive)
    firsts = _first_txids(paths, seam)
    for number, (path, *_) in paths.items():
        try:
            file = JournalFile(path, number, seam)
        except (DamageError, VersionError) as error:
            found.left.append(_unrepairable_problem(error, path))
            continue
        with closing(file):
            try:
                file.read_checkpoint()
            except DamageError as error:
                found.left.append(_unrepairable_problem(error, path))
            # If a restore began a new history, the next file says nothing about the end of this one.
            lineage, following = firsts.get(number + 1, (b"", 0))
            known = following if lineage == file.header.lineage else None
            cuts = _find_damaged_ranges(file, known, number == max(paths), acknowledged, found)
            if cuts and file.is_compressed:
                tool = "gzip" if path.suffix == ".gz" else "zstd"
                found.left.append(
                    Finding(
                        "SOW-JRN-010",
                        Level.ERROR,
                        Place(str(path), offset=cuts[0].offset),
                        f"a compressed file is damaged in {format_count(len(cuts), 'place')}",
                        hint=f"decompress it with {tool} -d and run the command again",
                    )
                )
            elif cuts:
                found.cuts[path] = cuts
    return found


def _first_txids(paths: dict[int, list[Path]], seam: Seam) -> dict[int, tuple[bytes, int]]:
    """Return lineage and first txid of every file with a readable header."""
    firsts = {}
    for number, (path, *_) in paths.items():
        with suppress(DamageError, VersionError), closing(JournalFile(path, number, seam)) as file:
            firsts[number] = file.header.lineage, file.header.first_txid
    return firsts


def _unrepairable_problem(error: SowError, path: Path) -> Finding:
    place = Place(str(path), offset=error.facts.get("offset"))
    return Finding(error.code, Level.ERROR, place, error.message, hint=error.hint)


def _find_damaged_ranges(
    file: JournalFile, following: int | None, is_last: bool, acknowledged: int, found: RepairPlan
) -> list[Cut]:
    """Return the stretches of a file that are not intact blocks. ``following`` is the first txid of the next file."""
    header = file.header
    walker = Walker(
        file, header.blocks_offset, header.first_txid - 1, is_last=is_last, acknowledged=acknowledged, resync=True
    )
    sound: list[BlockRef] = []
    for item in walker.iter_groups():
        if isinstance(item, Damage):
            # Two histories: a gap cannot merge them. Other damage is found by the intact blocks.
            if item.error.code == OTHER_HISTORY_CODE:
                found.left.append(_unrepairable_problem(item.error, require_local(file.path)))
        else:
            sound += [ref for ref in item if ref.is_whole()]
    # Everything before `end` is damage or intact; the rest was left by a crash.
    end = file.size
    tail = walker.tail
    # With resync, the walker also reports a tail that was partly acknowledged: that is a loss, and becomes a gap.
    if tail is not None and acknowledged < (tail.open_group or walker.last_txid + 1):
        found.tail = tail
        end = walker.offset
    # The cuts are exactly the parts between intact blocks.
    sound = _add_unlisted_blocks(file, sound, end)
    # The end that the file must reach: the next file, or the last acknowledged txid. Txids up to there were assigned.
    lost = following - 1 if following is not None else acknowledged if is_last else 0
    cuts: list[Cut] = []
    for before, after in zip([None, *sound], [*sound, None], strict=True):
        start = before.end_offset if before is not None else header.blocks_offset
        stop = after.offset if after is not None else max(end, start)
        cuts += _cut_between_blocks(file, before, after, start, stop, lost, found)
    return cuts


def _add_unlisted_blocks(file: JournalFile, sound: list[BlockRef], end: int) -> list[BlockRef]:
    """Return all blocks up to ``end`` that are intact at their original offset; ``sound`` are those that the walk
    returned.

    For an aborted group, a resyncing walk omits the blocks before the damage.
    """
    found: list[BlockRef] = []
    at = file.header.blocks_offset
    for known in [*sound, None]:
        stop = known.offset if known is not None else end
        while at < stop and (ref := file.find_next_block(at)) is not None and ref.offset < stop:
            is_one = ref.end_offset <= stop and ref.is_whole()
            found += [ref] if is_one else []
            at = ref.end_offset if is_one else ref.offset + 1
        if known is not None:
            found.append(known)
            at = known.end_offset
    return found


def _cut_between_blocks(
    file: JournalFile,
    before: BlockRef | None,
    after: BlockRef | None,
    start: int,
    stop: int,
    lost: int,
    found: RepairPlan,
) -> list[Cut]:
    """Return the cuts between two intact blocks; ``lost``: the last txid that the file must contain if none follows."""
    txid = before.header.last_txid if before is not None else file.header.first_txid - 1
    group = before.header.group if before is not None and not before.header.is_last else 0
    cuts: list[Cut] = []
    # Blocks with valid headers describe their own content.
    while start < stop:
        ref = file.find_block_at(start)
        if ref is None or ref.end_offset > stop or ref.header.first_txid != txid + 1 or ref.header.is_gap:
            break
        header = ref.header
        try:
            names, raw = ref.read_map(), bytes(file.read(start + BLOCK_HEADER_SIZE, header.map_size))
        except DamageError:
            names, raw = None, b""
        flags = header.flags & (LAST_BLOCK_FLAG | ABORT_FLAG)
        txids = header.first_txid, header.last_txid
        times = header.earliest, header.latest
        reason = "its content is damaged"
        cuts.append(Cut(start, header.size, *txids, header.group, flags, reason, raw, names, *times))
        start, txid, group = ref.end_offset, header.last_txid, 0 if header.is_last else header.group
    first = txid + 1
    if after is None:
        # A txid is never assigned twice: the gap includes all txids that may have followed.
        last = max(lost, txid, _find_displaced_txid(file, start, txid))
        if start < stop or last > txid or group:
            reason = "it cannot be read" if start < stop else "it was lost"
            # If entries are missing, an open group ended among them; otherwise it was aborted.
            flags = LAST_BLOCK_FLAG if last > txid or not group else LAST_BLOCK_FLAG | ABORT_FLAG
            cuts.append(Cut(start, stop - start, first, last, group or first, flags, reason, at_end=True))
        return cuts
    behind = after.header
    last = behind.last_txid if behind.is_abort else behind.first_txid - 1
    if start == stop and last == txid:
        return cuts
    # A gap is a block and needs room for a header, because the blocks after it must keep their offsets.
    if stop - start < BLOCK_HEADER_SIZE:
        error = DamageError(
            "SOW-JRN-011",
            f"txids {first} to {last} are missing, and a gap does not fit between the blocks",
            hint="restore the file from a copy",
            offset=start,
        )
        found.left.append(_unrepairable_problem(error, require_local(file.path)))
        return cuts
    # The next block belongs to a group that started in the missing part: the gap is part of that group and must not end
    # it.
    goes_on = behind.is_abort or behind.group != behind.first_txid
    if goes_on:
        flags, chosen = 0, behind.group
    elif group and last == txid:
        # No entry is missing: the missing block was an abort marker.
        flags, chosen = LAST_BLOCK_FLAG | ABORT_FLAG, group
    else:
        flags, chosen = LAST_BLOCK_FLAG, group or first
    cuts.append(Cut(start, stop - start, first, last, chosen, flags, "it cannot be read"))
    return cuts


def _find_displaced_txid(file: JournalFile, start: int, txid: int) -> int:
    """Return the last txid of intact blocks at another offset than they were written for; 0 if there are none."""
    last = 0
    while (ref := file.find_displaced_block(start, max(txid, last))) is not None:
        last, start = ref.header.last_txid, ref.offset
    return last


def list_repaired_gaps(path: Path, cuts: Sequence[Cut], receipts: Sequence[Path | None]) -> Iterator[RepairedGap]:
    """Yield the cuts of a file in a form for people."""
    for cut, receipt in zip(cuts, receipts, strict=True):
        names = None if cut.names is None else tuple(row.topic.name for row in cut.names.topic_rows)
        yield RepairedGap(path, cut.offset, cut.size, cut.first_txid, cut.last_txid, names, cut.reason, receipt)


def repair_file(path: Path, cuts: Sequence[Cut], seam: Seam, now: Micros) -> list[Path]:
    """Write the receipts, then rewrite the file with gaps; return the paths of the receipts.

    Raises StorageError ``SOW-JRN-072``, with the file unchanged or repaired.
    """
    temporary = build_hidden_path(path)
    try:
        with closing(JournalFile(path, _parse_file_number(path), seam)) as file:
            # Order: the removed bytes are on disk under their own name before the file loses them.
            receipts = [_write_receipt(file, cut, seam, now) for cut in cuts]
            sync_directory(path.parent, seam)
            _write_anew(file, temporary, cuts, receipts, seam)
            # Read back before the rename: the damaged file is replaced only by a file that was verified.
            _compare_repaired(file, temporary, cuts, seam)
        # Intact blocks keep their offsets, so readers that have the old file open can continue in the new one.
        seam.call("file.rename", os.rename, temporary, path)
        sync_directory(path.parent, seam)
    except (OSError, StorageError) as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            reason = describe_os_error(error)
        else:
            reason = describe_os_error(error.__cause__) if isinstance(error.__cause__, OSError) else error.summary
        raise StorageError(
            "SOW-JRN-072",
            f"cannot repair the journal file: {reason}",
            place=str(path),
            hint="the file is either unchanged or repaired; free space or correct the permissions, and "
            "run the command again",
        ) from error
    return receipts


def _parse_file_number(path: Path) -> int:
    """Return the number of an uncompressed file."""
    return int(path.name.removesuffix(".journal")[-10:])


def _write_receipt(file: JournalFile, cut: Cut, seam: Seam, now: Micros) -> Path:
    """Return the synced file with the removed bytes: from an interrupted run, or a new one."""
    crc = 0
    for piece in _read_pieces(file, cut.offset, cut.size):
        crc = crc32(piece, crc)
    facts = {
        "file": file.path.name,
        "lineage": file.header.lineage.hex(),
        "number": file.number,
        "offset": cut.offset,
        "size": cut.size,
        "crc": crc,
        "first_txid": cut.first_txid,
        "last_txid": cut.last_txid,
        "topics": None if cut.names is None else [list(row.topic) for row in cut.names.topic_rows],
        "publishers": None if cut.names is None else [[row.client, row.sequence] for row in cut.names.publishers],
        "reason": cut.reason,
    }
    number = 1
    # Only the holder of the maintenance lock creates such files.
    while (path := require_local(file.path).with_name(f"{file.path.name}.cut-{number}")).exists():
        # From an interrupted run: the same bytes of the same offset are not stored twice.
        if _is_of(path, facts):
            _sync_file(path, seam)
            return path
        number += 1
    temporary = build_hidden_path(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = seam.call("file.open", os.open, temporary, flags, FILE_MODE)
    try:
        write_all(seam, fd, json.dumps(facts | {"time": format_time(now)}).encode() + b"\n")
        for piece in _read_pieces(file, cut.offset, cut.size):
            write_all(seam, fd, piece)
        seam.call("file.sync", os.fsync, fd)
        # repair_file syncs the directory once for all receipts, before it rewrites the file.
        seam.call("file.rename", os.rename, temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)
    return path


def _is_of(path: Path, facts: dict[str, object]) -> bool:
    """Return whether a receipt has these facts; it got its name after it was complete."""
    try:
        with path.open("rb") as stream:
            noted = json.loads(stream.readline())
    except (OSError, ValueError):
        return False
    return isinstance(noted, dict) and noted | {"time": None} == facts | {"time": None}


def _sync_file(path: Path, seam: Seam) -> None:
    fd = seam.call("file.open", os.open, path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        seam.call("file.sync", os.fsync, fd)
    finally:
        os.close(fd)


def _read_pieces(file: JournalFile, offset: int, size: int) -> Iterator[bytes]:
    while size > 0:
        piece = bytes(file.read(offset, min(size, _REPAIR_CHUNK_BYTES)))
        if not piece:
            raise OSError(errno.EIO, "the file ends too early")
        yield piece
        offset += len(piece)
        size -= len(piece)


def _build_gap(file: JournalFile, cut: Cut, receipt: Path) -> tuple[bytes, int]:
    """Return the bytes of a gap, and the number of zeros after them."""
    raw, name = cut.fitting_map, receipt.name.encode() + b"\n"
    # The following blocks keep their offsets, since their checksums include them; only a gap at the end may be longer.
    size = cut.size if not cut.at_end else max(cut.size, BLOCK_HEADER_SIZE + len(raw) + len(name))
    room = size - BLOCK_HEADER_SIZE - len(raw)
    name = name if len(name) <= room else b""
    # A size field holds less than four gigabytes: the columns get up to half of that, the payloads the rest.
    columns = min(room, 1 << 31)
    zeros = columns - len(name)
    rest = room - columns
    # A gap is a block without entries: a walk skips it by its size and its txids.
    header = BlockHeader(
        codec=CODEC_NONE,
        flags=GAP_FLAG | cut.flags,
        count=0,
        group=cut.group,
        first_txid=cut.first_txid,
        last_txid=cut.last_txid,
        synced_txid=0,
        earliest=cut.earliest,
        latest=cut.latest,
        map_size=len(raw),
        columns_stored=columns,
        columns_raw=0,
        payloads_stored=rest,
        payloads_raw=0,
        map_crc=crc32(raw),
        columns_crc=_crc_of_zeros(crc32(name), zeros),
        payloads_crc=_crc_of_zeros(0, rest),
        chain=0,
        crc=0,
    )
    seed = compute_header_seed(file.header.lineage, file.number, cut.offset)
    # Chain 0 means unknown: the predecessor of the damaged block may be in the gap, too. The blocks before the gap
    # count as synced: the new file is synced before the rename.
    return pack_block_header(header, cut.first_txid - 1, seed, 0) + raw + name, zeros + rest


def _crc_of_zeros(crc: int, count: int) -> int:
    """Return the CRC after ``count`` more zero bytes."""
    while count > 0:
        crc = crc32(bytes(min(count, _REPAIR_CHUNK_BYTES)), crc)
        count -= _REPAIR_CHUNK_BYTES
    return crc


def _write_anew(file: JournalFile, target: Path, cuts: Sequence[Cut], receipts: Sequence[Path], seam: Seam) -> None:
    found = os.fstat(file.fd)
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = seam.call("file.open", os.open, target, flags, FILE_MODE)
    try:
        at = 0
        for cut, receipt in zip(cuts, receipts, strict=True):
            for piece in _read_pieces(file, at, cut.offset - at):
                write_all(seam, fd, piece)
            content, zeros = _build_gap(file, cut, receipt)
            write_all(seam, fd, content)
            while zeros > 0:
                write_all(seam, fd, bytes(min(zeros, _REPAIR_CHUNK_BYTES)))
                zeros -= _REPAIR_CHUNK_BYTES
            at = cut.end_offset
        for piece in _read_pieces(file, at, file.size - at):
            write_all(seam, fd, piece)
        os.fchmod(fd, found.st_mode & 0o777)
        seam.call("file.sync", os.fsync, fd)
        # _compare_repaired should read from the disk, not from the page cache.
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def _compare_repaired(file: JournalFile, target: Path, cuts: Sequence[Cut], seam: Seam) -> None:
    """Verify the written file: gaps at their offsets, and all other bytes unchanged. Raises OSError."""
    with closing(JournalFile(target, file.number, seam)) as anew:
        at = 0
        for cut in cuts:
            ref = anew.find_block_at(cut.offset)
            if ref is None or not ref.header.is_gap or not ref.is_whole():
                raise OSError(errno.EIO, "a gap was written and reads differently")
            _have_same_bytes(file, anew, at, cut.offset)
            at = cut.end_offset
        _have_same_bytes(file, anew, at, file.size)


def _have_same_bytes(file: JournalFile, anew: JournalFile, at: int, end: int) -> None:
    while at < end:
        size = min(end - at, _REPAIR_CHUNK_BYTES)
        if file.read(at, size) != anew.read(at, size):
            raise OSError(errno.EIO, "the rewritten file differs from what was written")
        at += size
