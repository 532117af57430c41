"""The files of one journal as a row: which there are, opening them, finding the one of a txid. Inside the room only."""

from __future__ import annotations

from pathlib import Path

from sowctl.errors import DamageError, MissingError
from sowctl.journal.block import FileInfo, Position
from sowctl.journal.files import JournalFile, list_numbers
from sowctl.journal.format import FILE_HEADER_SIZE, block_place, file_name
from sowctl.journal.state import JournalState, from_checkpoint
from sowctl.seam import Seam


class Folder:
    """An instance's journal files. The last one stays open; the others are opened and released."""

    def __init__(self, directory: Path, instance: str, seam: Seam) -> None:
        """Look at the directory. Raises MissingError ``SOW-JRN-001``, and what the header of the last file deserves."""
        self.directory = directory
        self.instance = instance
        self.numbers: list[int] = []
        self._seam = seam
        self._first_txids: dict[int, int] = {}
        self._last: JournalFile | None = None
        self.look()

    def look(self) -> None:
        """Look again which files there are and how long the last one is."""
        self.numbers = list_numbers(self.directory, self.instance)
        if not self.numbers:
            raise MissingError(
                "SOW-JRN-001",
                f"the instance {self.instance!r} has no journal here",
                place=str(self.directory),
                hint="publish something first, or look at the directory and the instance name",
            )
        last = self.last()
        last.size = last.current_size()

    def last(self) -> JournalFile:
        """The file that grows."""
        if self._last is None or self._last.number != self.numbers[-1]:
            # The one before is closed by whoever still walks through it.
            self._last = JournalFile(self.path(self.numbers[-1]), self.numbers[-1], self._seam)
        return self._last

    def path(self, number: int) -> Path:
        """Where a file lies."""
        return self.directory / file_name(self.instance, number)

    def open(self, number: int) -> JournalFile:
        """A file of this lineage, to be given back to :meth:`release`. Raises DamageError ``SOW-JRN-005``."""
        last = self.last()
        if number == last.number:
            return last
        file = JournalFile(self.path(number), number, self._seam)
        if file.header.lineage != last.header.lineage:
            file.close()
            raise DamageError(
                "SOW-JRN-005",
                "the journal file belongs to another journal than the last one",
                place=str(file.path),
                hint="restore the files of one journal",
                offset=0,
            )
        return file

    def release(self, file: JournalFile) -> None:
        """Close a file, unless it is the last one."""
        if file is not self._last:
            file.close()

    def close(self) -> None:
        """Close the last file too."""
        if self._last is not None:
            self._last.close()
            self._last = None

    def infos(self) -> list[FileInfo]:
        """The files in order, headers checked."""
        infos: list[FileInfo] = []
        for number in self.numbers:
            file = self.open(number)
            header = file.header
            if infos:
                infos[-1] = infos[-1]._replace(last_txid=header.first_txid - 1)
            infos.append(FileInfo(file.path, number, file.size, header.first_txid, None, header.created))
            self.release(file)
        return infos

    def first_txid(self, number: int) -> int:
        """The first txid that a file can hold."""
        if number not in self._first_txids:
            file = self.open(number)
            self._first_txids[number] = file.header.first_txid
            self.release(file)
        return self._first_txids[number]

    def number_of(self, txid: int) -> int:
        """The number of the file that holds ``txid``, or would."""
        low, high = self.numbers[0], self.numbers[-1]
        while low < high:
            middle = (low + high + 1) // 2
            if self.first_txid(middle) <= txid:
                low = middle
            else:
                high = middle - 1
        return low

    def checkpoint(self, number: int) -> JournalState:
        """The state at the start of a file. Raises DamageError ``SOW-JRN-004``."""
        file = self.open(number)
        try:
            raw = file.checkpoint()
            end = Position(file.number, file.header.blocks_offset, file.header.first_txid - 1)
            return from_checkpoint(raw, end)
        except (ValueError, TypeError) as error:
            raise DamageError(
                "SOW-JRN-004",
                f"the checkpoint of the journal file cannot be read ({error})",
                place=block_place(file.path, FILE_HEADER_SIZE),
                hint="restore the file from a copy; the blocks in it are intact",
                offset=FILE_HEADER_SIZE,
            ) from error
        finally:
            self.release(file)

    def is_group_start(self, place: Position) -> bool:
        """Whether a group starts at ``place`` and behind its txid."""
        if not self.numbers[0] <= place.number <= self.numbers[-1] or place.offset < FILE_HEADER_SIZE:
            return False
        file = self.open(place.number)
        try:
            ref = file.block_at(place.offset)
        finally:
            self.release(file)
        return ref is not None and ref.header.group == ref.header.first_txid == place.txid + 1
