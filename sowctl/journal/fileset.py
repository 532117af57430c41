"""The files of one journal in order: listing them, opening them, finding the file of a txid.

Used only by ``scan`` and ``reader``. Specified in ``sow-journal(5)``, "Files" and "Archived and compressed files".
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.errors import DamageError, MissingError, SowError, StorageError
from sowctl.journal.archive.remote_archive import RemoteArchive, split_directories
from sowctl.journal.archive.remotefile import open_journal_file
from sowctl.journal.block import EndedHistory, FileInfo, Position
from sowctl.journal.files import JournalFile, foreign_file_error, has_gap, require_same_content
from sowctl.journal.format import (
    COMPRESSED_SUFFIXES,
    FILE_HEADER_SIZE,
    FileHeader,
    format_block_place,
    format_file_name,
)
from sowctl.journal.listing import format_locations, list_files, list_places
from sowctl.journal.state import JournalState, decode_checkpoint, load_topics_state, read_last_known_txid
from sowctl.journal.stretch import Segment
from sowctl.remote.place import Place, RemotePath, require_local
from sowctl.seam import Seam

if TYPE_CHECKING:
    from sowctl.journal.archive.archived_file import ArchivedFile
    from sowctl.journal.archive.manifest import Manifest

REMOVED_FILE_CODE = "SOW-JRN-063"
MAX_MOVE_RETRIES = 4
"""Number of times that a missing file is looked up again: a file only moves forward, to the archive, compressed,
removed."""


class FileSet:
    """An instance's journal files, in its directory and in its archive. The last file and the compressed file used last
    stay open, because reopening a compressed file decompresses it again from the beginning; other files are opened and
    released.

    One of the two locations may be a URL: then its manifest names the files there and their headers. The manifest of an
    archive at a URL is read when a file is needed that does not exist locally, so that queries which the local files
    can answer need no network.
    """

    def __init__(
        self, directory: Place, instance: str, seam: Seam, archive: Place | None = None, reaching: int | None = None
    ) -> None:
        """List the directory. ``reaching``: a manifest that this process has already read suffices if it has this txid.

        Raises MissingError ``SOW-JRN-001``, and the errors of a bad header of the last file.
        """
        self.directory = directory
        self.archive = archive
        self.instance = instance
        self._numbers: list[int] = []
        self._paths: Mapping[int, Sequence[Place]] = {}
        self._seam = seam
        self._here, at = split_directories(directory, archive)
        self._there: RemoteArchive | None = None
        if at is not None:
            self._there = RemoteArchive(at, instance, reaching, is_all=at == directory)
            if at == directory:
                self._there.read_manifest()
        self._first_txids: dict[int, int] = {}
        self._last: JournalFile | None = None
        self._packed: JournalFile | None = None
        self._histories: tuple[int, tuple[EndedHistory, ...]] = (-1, ())
        self._joined = -1
        self._needed: int | None = None
        self.refresh()

    @property
    def numbers(self) -> list[int]:
        """All files, by number. Reads the manifest of an archive at a URL once: raises its errors, and DamageError
        ``SOW-JRN-086`` and ``SOW-JRN-087`` if the archive is not the beginning of the local files."""
        self._ask_archive()
        return self._numbers

    @property
    def last_number(self) -> int:
        """Number of the file that grows."""
        return self._numbers[-1]

    @property
    def first_known_number(self) -> int:
        """Number of the oldest file that is known without reading the manifest at a URL."""
        return self._numbers[0]

    def has_file(self, number: int) -> bool:
        """Return whether a file exists; for numbers below the local files, reads the manifest at a URL."""
        if number < self._numbers[0]:
            self._ask_archive()
        return self._numbers[0] <= number <= self._numbers[-1]

    @property
    def search_locations(self) -> str:
        """The locations that are searched for files, as text."""
        return format_locations(self.directory, self.archive)

    def refresh(self) -> None:
        """List the files again and update the size of the last one."""
        self._list_files()
        # A repair replaces a file that is open: its copy has the same blocks at the same offsets, and gaps.
        if self._last is not None and self._last.fd >= 0 and not os.fstat(self._last.fd).st_nlink:
            self._last.close()
            self._last = None
        last = self.open_last_file()
        # A compressed file does not grow, and asking for its size would decompress it.
        if not last.is_compressed:
            last.size = last.read_size()

    def _list_files(self) -> None:
        self._paths = self._list_checked()
        self._numbers = list(self._paths)
        if not self._numbers and self._there is not None and not self._there.asked:
            # All of them may be at the URL.
            self._there.read_manifest()
            self._list_files()
            return
        if not self._numbers:
            raise self._no_journal_error()
        needed = self._needed
        if needed is not None and not self.has_file(needed):
            self._needed = None  # the error looks at the first file that is left
            raise self._removed_error(needed)

    def _list_checked(self) -> Mapping[int, Sequence[Place]]:
        directory, archive = self._here
        there = self._there
        if there is None or not there.asked:
            return {} if directory is None else list_files(directory, self.instance, archive)
        assert archive is None
        found = list_places(directory, self.instance, there)
        here = [number for number, paths in found.items() if not isinstance(paths[0], RemotePath)]
        # Set before the check, which opens files by these attributes.
        before, self._paths, self._numbers = (self._paths, self._numbers), found, list(found)
        try:
            there.check_continuity(here, self._header_here, self._continues_header)
        except BaseException:
            # Files that do not belong together are never read: the next call checks again and fails in the same way.
            self._paths, self._numbers = before
            there.asked = False
            raise
        return found

    def _ask_archive(self) -> None:
        """Read the manifest of the archive at a URL, unless already done or the local files begin with file 0."""
        if self._there is not None and not self._there.asked and self._numbers[0] > 0:
            # File 0 is not local, so older files must exist elsewhere: a missing manifest is an error.
            self._there.read_manifest(needed=True)
            self._list_files()

    def _header_here(self, number: int) -> FileHeader:
        """Return the header of a local file."""
        file = open_journal_file(self._paths[number][0], number, self._seam)
        file.close()
        return file.header

    def _continues_header(self, lineage: bytes, last_txid: int, header: FileHeader) -> bool:
        """As :meth:`continues_lineage`, for a header."""
        if header.lineage == lineage:
            # Within a lineage, txids are contiguous; after a restore, they continue above every txid ever assigned.
            return header.first_txid == last_txid + 1
        ended = next((one for one in self.histories if one.lineage == lineage), None)
        return ended is not None and (ended.last_txid, ended.above) == (last_txid, header.first_txid - 1)

    def _no_journal_error(self) -> MissingError:
        """Return the error for a journal without files: it does not exist yet, or its files are missing according to
        the topics file."""
        looked = f" (searched {self.search_locations})" if self.archive is not None else ""
        if not isinstance(self.directory, RemotePath) and (told := read_last_known_txid(self.directory, self.instance)):
            return MissingError(
                "SOW-JRN-001",
                f"all journal files of instance {self.instance!r} are missing{looked}; the journal had "
                f"txids up to {told}",
                place=str(self.directory),
                hint="restore its files, or restore a backup; to continue without them, see 'Accepting a "
                "loss' in sow-journal(5)",
                last_txid=told,
            )
        return MissingError(
            "SOW-JRN-001",
            f"instance {self.instance!r} has no journal{looked}",
            place=str(self.directory),
            hint="publish a message first, or check the directory and the instance name",
        )

    def require_files_after(self, after: int) -> None:
        """Make later listings raise MissingError ``SOW-JRN-063`` if a file with txids above ``after`` was removed from
        now on."""
        # Txid 0 precedes all files: no header is read for it.
        self._needed = self.find_file_number(after + 1) if after else self.numbers[0]

    @property
    def first_required_number(self) -> int | None:
        """Number of the first file that must not be removed, set by :meth:`require_files_after`; None if not set."""
        return self._needed

    def open_last_file(self) -> JournalFile:
        """Return the file that grows."""
        while self._last is None or self._last.number != self.last_number:
            youngest = self.last_number
            # The previous file is closed by the walk that still reads it.
            try:
                self._last = self._open_numbered(youngest)
            except MissingError as error:
                # The file was finished and removed after the listing. Each round begins with a later file, so the loop
                # ends.
                if error.code != REMOVED_FILE_CODE or self.last_number <= youngest:
                    raise
        return self._last

    def find_archived_file(self, number: int) -> ArchivedFile | None:
        """Return the manifest's entry of a file that is read at a URL; None for a local file."""
        paths = self._paths.get(number)
        if self._there is None or not paths or not isinstance(paths[0], RemotePath):
            return None
        return self._there.find_segment(number)

    @property
    def manifest(self) -> Manifest | None:
        """The manifest of the archive at a URL; None if it does not exist or was not read."""
        return None if self._there is None else self._there.manifest

    def read_topics_state(self, lineage: bytes) -> JournalState | None:
        """Return the state in the topics file of this journal; for a URL, the manifest's state at its end."""
        if isinstance(self.directory, RemotePath):
            return None if self.manifest is None else self.manifest.build_end_state()
        return load_topics_state(self.directory, self.instance, lineage)

    def find_path(self, number: int) -> Place:
        """Return the path of a file, or the path that it would have."""
        paths = self._paths.get(number)
        return paths[0] if paths else self.directory / format_file_name(self.instance, number)

    def read_stored_size(self, number: int) -> int:
        """Return the stored size of a file in bytes."""
        archived = self.find_archived_file(number)
        return archived.size if archived is not None else require_local(self.find_path(number)).stat().st_size

    def open_file(self, number: int) -> JournalFile:
        """Return a file of this lineage, to be released with :meth:`release_file`. Raises DamageError
        ``SOW-JRN-005``."""
        if number < self._numbers[0]:
            self._ask_archive()
        last = self.open_last_file()
        if number == last.number:
            return last
        if self._packed is not None and self._packed.number == number:
            return self._packed
        file = self._open_numbered(number)
        # A journal has one lineage, plus those of histories that restores ended: a file with another lineage was
        # restored into the wrong directory.
        if file.header.lineage != last.header.lineage and not self.is_former_lineage(file.header.lineage):
            file.close()
            raise DamageError(
                "SOW-JRN-005",
                "the file belongs to another journal than the last file",
                place=str(file.path),
                hint="restore the files of one journal",
                offset=0,
            )
        return file

    @property
    def histories(self) -> tuple[EndedHistory, ...]:
        """The histories that restores ended, oldest first. Raises DamageError ``SOW-JRN-004``."""
        last = self.open_last_file()
        if last.header.version < 2:
            return ()
        # Checkpoints only ever add histories, so the last file has all of them.
        if self._histories[0] != last.number:
            self._histories = last.number, self.read_checkpoint_state(last.number).histories
        return self._histories[1]

    def is_former_lineage(self, lineage: bytes) -> bool:
        """Return whether ``lineage`` belongs to a history that a restore ended and that this journal continues."""
        return any(one.lineage == lineage for one in self.histories)

    def continues_lineage(self, lineage: bytes, last_txid: int, file: JournalFile) -> bool:
        """Return whether ``file`` continues a file of ``lineage`` that ended with ``last_txid``, or a restored
        history."""
        return self._continues_header(lineage, last_txid, file.header)

    def refuse_foreign_end(self) -> None:
        """Reject a last file that was started after another file than the previous one; checks each last file once.

        Reads one block header. A compressed previous file is not checked, since it would be decompressed completely.
        Raises DamageError ``SOW-JRN-054``.
        """
        last = self.open_last_file()
        if self._joined == last.number or isinstance(last.path, RemotePath):
            return  # the run that archived a segment has checked this
        self._joined = last.number
        header = last.header
        if not header.chain_offset or last.number - 1 not in self._paths:
            return
        if (
            self._paths[last.number - 1][0].suffix in COMPRESSED_SUFFIXES
            or self.find_archived_file(last.number - 1) is not None
        ):
            return
        try:
            before = self.open_file(last.number - 1)
        except SowError:
            return  # a reader of that file gets the error
        try:
            ref = before.find_block_at(header.chain_offset)
            if (ref is None or ref.header.crc != header.chain) and not has_gap(before, header.first_txid - 1):
                raise foreign_file_error(last, before, header.chain, None if ref is None else ref.header.crc)
        finally:
            self.release_file(before)

    def _open_numbered(self, number: int) -> JournalFile:
        looks = 0
        while True:
            try:
                file = open_journal_file(self.find_path(number), number, self._seam, self.find_archived_file(number))
                break
            except StorageError as error:
                looks += 1
                if looks > MAX_MOVE_RETRIES or not isinstance(error.__cause__, FileNotFoundError):
                    raise
                # The file was moved to the archive, compressed or removed since the directories were listed.
                self._list_files()
                if not self.has_file(number):
                    raise self._removed_error(number) from error
        # While a file is moved to the archive or compressed, two copies exist for a moment. Two copies that differ are
        # an error, which their order must not decide.
        for path in self._paths.get(number, ())[1:]:
            if isinstance(path, RemotePath):
                continue  # the run that archived it has compared the two: readers send no request for this
            try:
                require_same_content(file, path, self._seam)
            except SowError:
                file.close()
                raise
        return file

    def _removed_error(self, number: int) -> MissingError:
        """Return the error for a file that was removed, with all before it, after a reader had listed it."""
        first = self.read_first_txid(self.numbers[0])
        return MissingError(
            REMOVED_FILE_CODE,
            f"journal file {number:010d} was removed while it was being read: the first remaining txid is {first}",
            place=str(self.directory / format_file_name(self.instance, number)),
            hint="run the command again: it starts at the first remaining txid; or restore the removed files",
            first_txid=first,
        )

    def release_file(self, file: JournalFile) -> None:
        """Close a file, unless it is one of the files that stay open."""
        if file is self._last or file is self._packed:
            return
        # One compressed file is kept open, because reopening it would decompress it again from the beginning. A file at
        # a URL is kept open for its read-ahead data.
        if file.is_compressed or isinstance(file.path, RemotePath):
            self._packed, file = file, self._packed or file
        if file is not self._packed:
            file.close()

    def close(self) -> None:
        """Close all files, including those that stay open."""
        for file in (self._last, self._packed):
            if file is not None:
                file.close()
        self._last = self._packed = None

    def list_file_infos(self) -> list[FileInfo]:
        """Return the files in order, after checking their headers."""
        infos: list[FileInfo] = []
        for number in self.numbers:
            if (segment := self.find_archived_file(number)) is not None:
                path, size = self.find_path(number), segment.size
                infos.append(FileInfo(path, number, size, segment.first_txid, segment.last_txid, segment.created))
                continue
            file = self.open_file(number)
            header = file.header
            if infos and infos[-1].last_txid is None:
                # A file ends where its successor begins, which costs no walk; the last one has no known end.
                last = header.first_txid - 1
                # A restore that began a new history leaves unused txids in between.
                last = next((one.last_txid for one in self.histories if one.above == last), last)
                infos[-1] = replace(infos[-1], last_txid=last)
            infos.append(FileInfo(file.path, number, file.stored_bytes, header.first_txid, None, header.created))
            self.release_file(file)
        return infos

    def list_segments(
        self, end: Position, last_block: tuple[int, int], after: int = 0, until: int | None = None
    ) -> list[Segment]:
        """Return the files in order for a plan, without those that have no txid above ``after`` or none up to
        ``until``; ``end`` is the end of the journal, and ``last_block`` is the block before it."""
        found: list[Segment] = []
        # Txid 0 precedes all files: no header is read for it.
        first = self.find_file_number(after + 1) if after else self.numbers[0]
        final = self.numbers[-1] if until is None else self.find_file_number(until)
        # The header of a file gives the end of the previous one, so one more file is read than requested.
        for number in range(first, min(final + 1, self.numbers[-1]) + 1):
            if (archived := self.find_archived_file(number)) is not None:
                found.append(archived.build_segment())
                continue
            file = self.open_file(number)
            header = file.header
            if found and self.find_archived_file(number - 1) is None:
                last = header.first_txid - 1
                # A restore that began a new history leaves unused txids in between.
                last = next((one.last_txid for one in self.histories if one.above == last), last)
                block = (header.chain_offset, header.chain) if header.chain else (0, 0)
                found[-1] = replace(found[-1], last_txid=last, last_block=block)
            # Offsets refer to decompressed content, so a file that can be split has that size.
            size, packed = (file.size, False) if file.is_seekable else (file.stored_bytes, True)
            found.append(Segment(number, size, header.first_txid, end.txid, is_packed=packed))
            self.release_file(file)
        if found[-1].number > final:
            found.pop()
        if final < self.numbers[-1] or self.find_archived_file(final) is not None:
            return found
        size = found[-1].size if found[-1].is_packed else end.offset
        found[-1] = replace(found[-1], size=size, last_block=last_block, limit=end.offset)
        return found

    def open_private_file(self, number: int) -> JournalFile:
        """Return a file for a single reader, to be released with :meth:`release_file`: its size is not shared with
        others."""
        return self._open_numbered(number) if number == self.open_last_file().number else self.open_file(number)

    def read_first_txid(self, number: int) -> int:
        """Return the first txid that a file can hold."""
        if (segment := self.find_archived_file(number)) is not None:
            return segment.first_txid
        if number not in self._first_txids:
            file = self.open_file(number)
            self._first_txids[number] = file.header.first_txid
            self.release_file(file)
        return self._first_txids[number]

    def read_header(self, number: int) -> FileHeader:
        """Return the header of a file."""
        if (segment := self.find_archived_file(number)) is not None:
            return segment.build_file_header()
        file = self.open_file(number)
        self.release_file(file)
        return file.header

    def find_file_number(self, txid: int) -> int:
        """Return the number of the file that holds, or would hold, ``txid``."""
        if self._there is not None and self._numbers[0] and txid < self.read_first_txid(self._numbers[0]):
            self._ask_archive()
        low, high = self._numbers[0], self._numbers[-1]
        # Invariant: the first txid of file `low` is at or below `txid`, that of file `high` + 1 is above it. Each step
        # reads one header at most.
        while low < high:
            middle = (low + high + 1) // 2
            if self.read_first_txid(middle) <= txid:
                low = middle
            else:
                high = middle - 1
        return low

    def read_checkpoint_state(self, number: int) -> JournalState:
        """Return the state at the start of a file. Raises DamageError ``SOW-JRN-004``."""
        if (
            self.manifest is not None
            and number == self.manifest.segments[0].number
            and self.find_archived_file(number) is not None
        ):
            return self.manifest.build_beginning_state()
        file = self.open_file(number)
        try:
            raw = file.read_checkpoint()
            end = Position(file.number, file.header.blocks_offset, file.header.first_txid - 1)
            return decode_checkpoint(raw, end, file.header.chain, file.header.version)
        except (ValueError, TypeError) as error:
            raise DamageError(
                "SOW-JRN-004",
                f"invalid checkpoint of the journal file ({error})",
                place=format_block_place(file.path, FILE_HEADER_SIZE),
                hint="restore the file from a copy; the blocks in it are intact",
                offset=FILE_HEADER_SIZE,
            ) from error
        finally:
            self.release_file(file)

    def is_group_start(self, place: Position) -> bool:
        """Return whether a group with the txid after that of ``place`` starts at ``place``."""
        if place.offset < FILE_HEADER_SIZE or not self.has_file(place.number):
            return False
        file = self.open_file(place.number)
        try:
            # A position is between groups if the block there begins its own group with the next txid.
            ref = file.find_block_at(place.offset)
        finally:
            self.release_file(file)
        if ref is None or ref.header.first_txid != place.txid + 1:
            return False
        # A gap may continue a group that began in it.
        return ref.header.group == ref.header.first_txid or ref.header.is_gap
