"""A journal file at a URL, with the interface of local files: reading blocks at an offset (``sow-archive(5)``).

Opened when the first byte is read: facts in the manifest need no request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sowctl.errors import DamageError, MissingError
from sowctl.journal.files import JournalFile
from sowctl.journal.format import COMPRESSED_SUFFIXES
from sowctl.remote.place import Place, RemotePath
from sowctl.seam import Seam
from sowctl.values.display import format_count

if TYPE_CHECKING:
    from sowctl.journal.archive.archived_file import ArchivedFile
    from sowctl.remote.remote_files import RemoteFile


def open_journal_file(path: Place, number: int, seam: Seam, segment: ArchivedFile | None = None) -> JournalFile:
    """Open a local or remote journal file; ``segment``: the manifest's entry of a file at a URL."""
    if isinstance(path, RemotePath):
        return RemoteJournalFile(path, number, seam, segment)
    return JournalFile(path, number, seam)


class RemoteJournalFile(JournalFile):
    """See :class:`JournalFile`. Raises DamageError ``SOW-JRN-083`` if the file is missing, ``SOW-JRN-084`` if it
    differs from the manifest, and the errors of reading at a URL."""

    __slots__ = ("_place", "_remote", "_segment")

    def __init__(self, path: RemotePath, number: int, seam: Seam, segment: ArchivedFile | None) -> None:
        self.path = path
        self.number = number
        # -1 for the base class, which would close a local descriptor.
        self.fd = -1
        self._seam = seam
        self._place = path
        self._segment = segment
        self._remote: RemoteFile | None = None
        self._unpacked = None
        self._size = -1
        if path.suffix in COMPRESSED_SUFFIXES:
            from sowctl.journal.decompression import DecompressedFile

            self._unpacked = DecompressedFile(self._fetch_bytes, path, seam, lambda: self.stored_bytes)
        try:
            self.header = self._read_header() if segment is None else segment.build_file_header()
        except BaseException:
            self.close()
            raise

    @property
    def stored_bytes(self) -> int:
        """Bytes stored at the URL."""
        return self._open_remote().size if self._segment is None else self._segment.size

    def read_size(self) -> int:
        """Return the number of readable bytes: a sealed file does not grow."""
        if self._segment is not None:
            return self._segment.length
        return self._unpacked.measure_size() if self._unpacked is not None else self._open_remote().size

    def read(self, offset: int, size: int) -> memoryview:
        """Return at most ``size`` bytes; fewer at the end of the file."""
        if self._segment is not None:
            # Reading past the end needs no request.
            size = min(size, self._segment.length - offset)
        if size <= 0:
            return memoryview(b"")
        if self._unpacked is not None:
            return memoryview(self._unpacked.read(offset, size))
        return memoryview(self._seam.call("remote.read", self._open_remote().read, offset, size))

    def close(self) -> None:
        """Close the file; repeated calls do nothing."""
        if self._remote is not None:
            self._remote.close()
            self._remote = None
        super().close()

    def _fetch_bytes(self, size: int, offset: int) -> bytes:
        """Return bytes as stored."""
        return bytes(self._open_remote().read(offset, size))

    def _open_remote(self) -> RemoteFile:
        if self._remote is None:
            from sowctl.remote.remote_files import RemoteFile

            try:
                self._remote = self._seam.call("remote.open", RemoteFile, self._place)
            except MissingError as error:
                if self._segment is None or error.code != "SOW-RMT-002":
                    raise
                raise lost_file_error(self._place) from error
            # Opening returns the size, so a replaced file is detected before any byte is read.
            if self._segment is not None and self._remote.size != self._segment.size:
                raise segment_mismatch_error(
                    self._place, format_count(self._remote.size, "byte"), f"{self._segment.size}"
                )
        return self._remote


_RESTORE_HINT = (
    "if the archive was recreated meanwhile, run the command again; otherwise restore the "
    "segment, or run sowctl journal archive --to --verify where its local file still exists"
)


def lost_file_error(place: Place) -> DamageError:
    """Return DamageError ``SOW-JRN-083``."""
    return DamageError(
        "SOW-JRN-083",
        "a segment in the manifest is missing from the archive",
        place=str(place),
        hint=_RESTORE_HINT,
    )


def segment_mismatch_error(place: Place, found: str, expected: str) -> DamageError:
    """Return DamageError ``SOW-JRN-084``: a segment does not match the manifest."""
    return DamageError(
        "SOW-JRN-084",
        f"the segment does not match the manifest: it has {found}, not {expected}",
        place=str(place),
        hint=_RESTORE_HINT,
    )
