"""Upload sealed journal files to a URL, with the manifest that lists them (``sow-archive(5)``).

A segment is a local file, compressed or not; it also stays here. The manifest is written after all its files exist at
the URL: a killed run leaves the archive unchanged, plus some unlisted files that the next run replaces. Called under
the lock of :mod:`sowctl.journal.maintenance.lock`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from msgspec import UNSET, Struct
from msgspec.structs import replace

from sowctl.errors import DamageError, RefusedError, SowError
from sowctl.journal.archive.archived_file import ArchivedFile
from sowctl.journal.archive.manifest import (
    MANIFEST_PLACE_INTERVAL_BYTES,
    KnownState,
    Manifest,
    encode_manifest,
    find_manifest,
    format_manifest_name,
)
from sowctl.journal.archive.remotefile import lost_file_error, segment_mismatch_error
from sowctl.journal.block import Position
from sowctl.journal.files import BlockRef, JournalFile, read_error
from sowctl.journal.limits import JOURNAL_LIMITS
from sowctl.journal.maintenance.survey import SurveyedFile
from sowctl.journal.state import decode_checkpoint
from sowctl.journal.walk import Walker
from sowctl.remote import remote_files
from sowctl.remote.place import RemotePath
from sowctl.seam import Seam
from sowctl.values.display import format_count
from sowctl.values.times import Micros
from sowctl.values.topicref import TopicRef

_SEND_CHUNK_BYTES = 4 << 20


class UploadedSegment(Struct, frozen=True):
    """A segment of the archive. ``anew``: this run uploaded it; otherwise it existed before."""

    segment: ArchivedFile
    source: Path
    anew: bool


class ArchiveUpload:
    """One run that uploads files to the archive at ``target``. ``verify``: existing segments are read again.

    ``agreed`` counts the segments that were read and match the manifest.
    """

    def __init__(self, target: RemotePath, instance: str, seam: Seam, now: Micros, *, verify: bool = False) -> None:
        self.target = target
        self.instance = instance
        self._seam = seam
        self._now = now
        self._verify = verify
        self._known = find_manifest(target, instance)
        self._segments = {} if self._known is None else dict(self._known.map_segments())
        self._before = KnownState() if self._known is None else self._known.before
        self._behind = KnownState() if self._known is None else self._known.behind
        self._waiting: list[UploadedSegment] = []
        self._bytes = 0
        self.agreed = 0

    def has_segment(self, file: SurveyedFile) -> bool:
        """Return whether the manifest lists a segment of this number."""
        return file.number in self._segments

    @property
    def last_txid(self) -> int:
        """The last txid in the archive; 0 without segments."""
        return self._segments[max(self._segments)].last_txid if self._segments else 0

    def check_continuity(self, files: Sequence[SurveyedFile]) -> None:
        """Require that files continue those in the archive. Raises RefusedError ``SOW-JRN-085``."""
        if not self._segments or not files:
            return
        last = max(self._segments)
        if files[0].number > last + 1:
            raise self._upload_error(
                f"the archive ends at file {last:010d}, but the oldest local file is {files[0].number:010d}",
                "use another URL, and keep both archives: the files between were pruned before they were archived",
            )
        for file in files:
            if file.number in self._segments:
                self._compare_segment(file, self._segments[file.number])

    def list_missing_files(self, files: Sequence[SurveyedFile]) -> list[SurveyedFile]:
        """Return the files to upload: those missing from the archive, or with ``verify`` those that differ there."""
        return [file for file in files if self._needs_upload(file)]

    def upload_files(self, files: Sequence[SurveyedFile]) -> Iterator[UploadedSegment]:
        """Upload missing files, oldest first; yield each one after the manifest lists it.

        Raises as :meth:`check_continuity`, DamageError for a damaged file, and the errors of writing at a URL; with
        ``verify`` as :meth:`verify_unlisted_segments` at the end.
        """
        self.check_continuity(files)
        try:
            for file in files:
                self._send_file(file)
                if (
                    self._bytes >= JOURNAL_LIMITS.manifest_interval_bytes
                    or len(self._waiting) >= JOURNAL_LIMITS.manifest_interval_files
                ):
                    yield from self._save_manifest()
        except SowError:
            # Files that were uploaded completely need not be uploaded again.
            yield from self._save_manifest()
            raise
        yield from self._save_manifest()
        self.verify_unlisted_segments(files)

    def verify_unlisted_segments(self, files: Sequence[SurveyedFile]) -> None:
        """With ``verify``, read the segments that are not among ``files``: they cannot be uploaded again.

        Raises as :func:`verify_segment` for the first that differs.
        """
        here = {file.number for file in files}
        for number in sorted(self._segments.keys() - here) if self._verify else ():
            verify_segment(self.target, self._segments[number])
            self.agreed += 1

    def _needs_upload(self, file: SurveyedFile) -> bool:
        there = self._segments.get(file.number)
        if there is None:
            return True
        if not self._verify:
            return False
        try:
            verify_segment(self.target, there)
        except DamageError:
            return True
        self.agreed += 1
        return False

    def _send_file(self, file: SurveyedFile) -> None:
        if not self._needs_upload(file):
            self._waiting.append(UploadedSegment(self._segments[file.number], file.path, anew=False))
            return
        with closing(JournalFile(file.path, file.number, self._seam)) as opened:
            # Only the checkpoint of the first file has the state before the archive.
            if not self._segments:
                self._before = _beginning_state(opened)
            found = _collect_facts(opened, file)
        digest = hashlib.sha256()
        place = self.target / file.path.name
        size = self._seam.call("remote.write", remote_files.write_file, place, self._read_content(file.path, digest))
        # The manifest may list the segment only after the store confirms its size.
        lies = remote_files.find_size(place)
        if lies != size:
            raise segment_mismatch_error(place, "no bytes" if lies is None else format_count(lies, "byte"), str(size))
        self._segments[file.number] = replace(found, size=size, sha256=digest.hexdigest())
        # An older segment that is uploaded again after --verify does not change the state at the end.
        if file.number == max(self._segments):
            assert file.behind is not None  # a finished file is followed by another
            self._behind = KnownState.from_state(file.behind)
        self._waiting.append(UploadedSegment(self._segments[file.number], file.path, anew=True))
        self._bytes += size

    def _read_content(self, path: Path, digest: hashlib._Hash) -> Iterator[bytes]:
        try:
            fd = self._seam.call("file.open", os.open, path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise read_error(error, path) from error
        try:
            at = 0
            while chunk := self._read_chunk(fd, at, path):
                digest.update(chunk)
                yield chunk
                at += len(chunk)
        finally:
            os.close(fd)

    def _read_chunk(self, fd: int, at: int, path: Path) -> bytes:
        """Return a chunk of a local file. An error concerns the file, not the URL to which it is uploaded."""
        try:
            return self._seam.call("file.read", os.pread, fd, _SEND_CHUNK_BYTES, at)
        except OSError as error:
            raise read_error(error, path) from error

    def _save_manifest(self) -> Iterator[UploadedSegment]:
        """Write the manifest if it would change; then yield the segments that it lists."""
        if any(one.anew for one in self._waiting):
            # Order: segments first. This single write makes all of them visible to readers.
            segments = tuple(self._segments[number] for number in sorted(self._segments))
            manifest = Manifest(self.instance, self._now, segments, self._before, self._behind)
            place = self.target / format_manifest_name(self.instance)
            self._seam.call("remote.write", remote_files.write_file, place, [encode_manifest(manifest)])
        done, self._waiting, self._bytes = self._waiting, [], 0
        yield from done

    def _compare_segment(self, file: SurveyedFile, there: ArchivedFile) -> None:
        with closing(JournalFile(file.path, file.number, self._seam)) as opened:
            header = opened.header
        # Comparing headers suffices: each has the checksum of the block before the file, which differs in a copy that
        # was continued separately.
        if header != there.build_file_header():
            raise self._upload_error(
                f"file {file.number:010d} of this journal differs from that in the archive",
                "use another URL: the archive belongs to another journal, or to a copy that was continued separately",
            )

    def _upload_error(self, why: str, hint: str) -> RefusedError:
        return RefusedError("SOW-JRN-085", why, place=str(self.target), hint=hint)


def verify_segment(directory: RemotePath, segment: ArchivedFile) -> None:
    """Read a segment and compare it with its digest. Raises DamageError ``SOW-JRN-083`` and ``SOW-JRN-084``."""
    place = directory / segment.name
    digest, size = hashlib.sha256(), 0
    try:
        for chunk in remote_files.iterate_chunks(place):
            digest.update(chunk)
            size += len(chunk)
    except SowError as error:
        if error.code != "SOW-RMT-002":
            raise
        raise lost_file_error(place) from error
    if (size, digest.hexdigest()) != (segment.size, segment.sha256):
        raise segment_mismatch_error(place, f"sha256 {digest.hexdigest()}", segment.sha256)


def _beginning_state(file: JournalFile) -> KnownState:
    header = file.header
    end = Position(file.number, header.blocks_offset, header.first_txid - 1)
    return KnownState.from_state(decode_checkpoint(file.read_checkpoint(), end, header.chain, header.version))


class _WalkFacts:
    """Facts about a file, collected by a walk through it."""

    def __init__(self) -> None:
        self.entries = self.payload_bytes = self.gaps = 0
        self.earliest = self.latest = 0
        self.last_entries: dict[TopicRef, tuple[int, int]] = {}
        self.index: list[tuple[int, int]] = []

    def add(self, group: list[BlockRef]) -> None:
        """Add a group."""
        first = group[0]
        # Readers start at these offsets, so each must be the start of a group.
        begins = first.header.first_txid == first.header.group and not first.header.is_gap
        if begins and (not self.index or first.offset >= self.index[-1][1] + MANIFEST_PLACE_INTERVAL_BYTES):
            self.index.append((first.header.group - 1, first.offset))
        self.gaps += sum(ref.header.is_gap for ref in group)
        # Its gaps were counted above: they may contain entries of previous groups.
        if group[-1].header.is_abort:
            return
        for ref in group:
            header = ref.header
            if header.is_gap:
                continue
            self.entries += header.count
            self.payload_bytes += header.payloads_raw
            if header.count:
                self.earliest = min(self.earliest or header.earliest, header.earliest)
                self.latest = max(self.latest, header.latest)
            for row in ref.read_map().topic_rows:
                self.last_entries[row.topic] = row.last_txid, row.last_time


def _collect_facts(file: JournalFile, known: SurveyedFile) -> ArchivedFile:
    """Walk through a file and collect its facts, except for size and digest, which the upload determines."""
    header = file.header
    # is_last=False: the file is finished, so a bad end is damage and not a torn tail.
    walker = Walker(file, header.blocks_offset, header.first_txid - 1, is_last=False, chain=header.chain)
    found = _WalkFacts()
    for group in walker.iter_groups():
        assert isinstance(group, list)  # without resync, damage raises
        found.add(group)
    assert known.last_txid is not None
    topic_rows = tuple((*topic, *last) for topic, last in found.last_entries.items())
    return ArchivedFile(
        name=known.path.name,
        number=file.number,
        size=0,
        sha256="",
        length=file.size,
        lineage=header.lineage.hex(),
        created=header.created,
        header=(header.version, header.checkpoint_size, header.checkpoint_crc, header.chain, header.chain_offset),
        first_txid=header.first_txid,
        last_txid=known.last_txid,
        entries=found.entries,
        payload_bytes=found.payload_bytes,
        earliest=found.earliest,
        latest=found.latest,
        topics=topic_rows,
        last_block=walker.last_block,
        index=tuple(found.index),
        gaps=found.gaps,
        seekable=True if file.is_compressed and file.is_seekable else UNSET,
    )
