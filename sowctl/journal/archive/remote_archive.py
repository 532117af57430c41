"""The segments of an archive at a URL as files of a journal that continues locally: listing them, and proving that they
belong to it.

Called only by :mod:`sowctl.journal.fileset`, and only when a file is needed that does not exist locally. The manifest
proves that remote and local files are one journal: its last txid, its last block and the header of a file in both
places. Specified in ``sow-archive(5)``, "Reading".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.errors import DamageError
from sowctl.remote.place import Place, RemotePath, require_local

if TYPE_CHECKING:
    from sowctl.journal.archive.archived_file import ArchivedFile
    from sowctl.journal.archive.manifest import Manifest
    from sowctl.journal.format import FileHeader


def split_directories(
    directory: Place, archive: Place | None
) -> tuple[tuple[Path | None, Path | None], RemotePath | None]:
    """Return the local directories, and the one at a URL."""
    if isinstance(directory, RemotePath):
        return (None if archive is None else require_local(archive), None), directory
    if isinstance(archive, RemotePath):
        return (directory, None), archive
    return (directory, archive), None


class RemoteArchive:
    """An archive at a URL. ``reaching``: a manifest that this process has already read suffices if it has this txid;
    ``is_all``: the journal is named only by the URL, so that the archive must exist."""

    def __init__(self, at: RemotePath, instance: str, reaching: int | None, *, is_all: bool) -> None:
        self.at = at
        self.asked = False
        self.manifest: Manifest | None = None
        self._instance = instance
        self._reaching = reaching
        self._is_all = is_all
        self._segments: Mapping[int, ArchivedFile] = {}
        self._checked: tuple[int, int] | None = None

    def read_manifest(self, *, needed: bool = False) -> None:
        """Read the manifest. ``needed``: files before the local ones are required, so that a missing archive is an
        error.

        Raises the errors of :func:`sowctl.journal.archive.manifest.find_manifest` and ``require_manifest``.
        """
        from sowctl.journal.archive.manifest import find_manifest, require_manifest

        # Without a manifest, require_manifest raises and find_manifest returns None.
        self.manifest = (require_manifest if self._is_all or needed else find_manifest)(
            self.at, self._instance, self._reaching
        )
        self._segments = {} if self.manifest is None else self.manifest.map_segments()
        self.asked = True  # not after a failed read: then the next call reads again

    def find_segment(self, number: int) -> ArchivedFile:
        """Return the manifest's entry of a file."""
        return self._segments[number]

    def list_segment_paths(self, here: Collection[int]) -> dict[int, RemotePath]:
        """Return the URLs of its segments by number; ``here`` are the numbers of the local files."""
        if self._ends_before(here):
            # Files were uploaded and pruned since the manifest was read. Each is uploaded before it is pruned, so that
            # a manifest read after the local listing includes all files missing from this listing.
            self._reaching = None
            self.read_manifest()
        return {number: self.at / one.name for number, one in self._segments.items()}

    def refuse_gap(self, here: Collection[int], place: Place) -> None:
        """Raise DamageError ``SOW-JRN-086`` if files between the last segment and the oldest local file are in neither
        place."""
        if self.manifest is None or not self._ends_before(here):
            return
        last, oldest = self.manifest.last_segment, min(here)
        raise DamageError(
            "SOW-JRN-086",
            f"the archive ends at file {last.number:010d} and txid {last.last_txid}, but the first "
            f"local file is {oldest:010d}: the files between are in neither",
            place=str(self.at),
            hint=f"restore them in {place}, and upload them with sowctl journal archive --to; without "
            "them, their entries are lost",
            first_txid=last.last_txid + 1,
        )

    def check_continuity(
        self,
        here: Collection[int],
        header_of: Callable[[int], FileHeader],
        joins: Callable[[bytes, int, FileHeader], bool],
    ) -> None:
        """Require that the segments are the beginning of the local files; checked once for each end and beginning.

        ``header_of`` returns the header of a local file; ``joins`` whether a header continues a lineage and a last
        txid. Raises DamageError ``SOW-JRN-087``.
        """
        if self.manifest is None or not here:
            return
        last, oldest = self.manifest.last_segment, min(here)
        if self._checked == (last.number, oldest):
            return
        # A header has the checksum of the block before it, which differs in a copy that was continued separately. So
        # the last common file proves all files before it; without a common file, the local file after the last segment
        # does.
        common = max((number for number in here if number in self._segments), default=None)
        if common is not None:
            if header_of(common) != self._segments[common].build_file_header():
                raise self._mismatch_error(f"file {common:010d} of the archive differs from the local file")
        elif oldest == last.number + 1:
            header = header_of(oldest)
            if not joins(bytes.fromhex(last.lineage), last.last_txid, header):
                raise self._mismatch_error(
                    f"it ends at txid {last.last_txid}, but local file {oldest:010d} begins at {header.first_txid}"
                    if header.lineage.hex() == last.lineage
                    else f"local file {oldest:010d} has another history"
                )
            # A checksum of 0 means unknown.
            if last.last_block[1] and header.chain not in (0, last.last_block[1]):
                raise self._mismatch_error(f"local file {oldest:010d} does not continue the last file of the archive")
        self._checked = last.number, oldest

    def _ends_before(self, here: Collection[int]) -> bool:
        """Return whether files are missing between its last segment and the oldest local file."""
        return bool(self._segments) and bool(here) and min(here) > max(self._segments) + 1

    def _mismatch_error(self, why: str) -> DamageError:
        return DamageError(
            "SOW-JRN-087",
            f"the archive is not the beginning of this journal: {why}",
            place=str(self.at),
            hint="check the URL: the archive belongs to another journal, or to a copy that was continued separately",
        )
