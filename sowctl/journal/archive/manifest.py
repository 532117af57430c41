"""The manifest of an archive of journal files: the list of its files, so that planning a read opens no segment.

Written by :mod:`sowctl.journal.maintenance.upload`; read by readers of a journal that is, wholly or in part, at a URL.
Specified in ``sow-archive(5)``. A manifest that cannot be read completely is an error, never a shorter archive.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from sowctl.checksum import crc32
from sowctl.errors import DamageError, MissingError, VersionError
from sowctl.journal.archive.archived_file import ArchivedFile
from sowctl.journal.archive.remotefile import lost_file_error, segment_mismatch_error
from sowctl.journal.block import EndedHistory, Position
from sowctl.journal.files import read_error
from sowctl.journal.format import MANIFEST_SUFFIX
from sowctl.journal.state import JournalState, decode_topic_states
from sowctl.remote.place import RemotePath
from sowctl.values.display import format_count
from sowctl.values.times import Micros

FORMAT_NAME, VERSION = "sow-archive", 1
MANIFEST_PLACE_INTERVAL_BYTES = 16 << 20
"""Minimum distance of two recorded offsets of a file: a plan can limit its reads at these offsets."""

_REMOTE_MANIFESTS: dict[tuple[RemotePath, str], Manifest] = {}
_LOCAL_MANIFESTS: dict[tuple[str, int, int, int], Manifest] = {}
"""The local manifest that was read last, by path, inode, size and time: a Spark process opens a journal for each of its
tasks."""


class KnownState(Struct, frozen=True, omit_defaults=True):
    """The state of a journal at a position: the rows of a checkpoint as in sow-journal(5), in JSON."""

    topics: tuple[tuple[str, str, int, Micros, int, int, int], ...] = ()
    publishers: tuple[tuple[int, str, int], ...] = ()
    histories: tuple[tuple[str, int, int, Micros], ...] = ()

    @classmethod
    def from_state(cls, state: JournalState) -> KnownState:
        """Convert a journal state."""
        topic_rows, publishers = state.build_rows()
        histories = tuple((one.lineage.hex(), one.last_txid, one.above, one.time) for one in state.histories)
        return cls(tuple(map(tuple, topic_rows)), tuple(map(tuple, publishers)), histories)

    def build_state(self, end: Position, last_block: tuple[int, int] = (0, 0), chain: int = 0) -> JournalState:
        """Return the journal state at ``end``."""
        publishers = {who: (client, sequence) for who, client, sequence in self.publishers}
        histories = tuple(EndedHistory(bytes.fromhex(one[0]), *one[1:]) for one in self.histories)
        return JournalState(end, last_block, decode_topic_states(self.topics), publishers, [], chain, histories)


class Manifest(Struct, frozen=True):
    """An archive: its segments by number, without a gap, and the states before the first and after the last one."""

    instance: str
    made: Micros
    segments: tuple[ArchivedFile, ...]
    before: KnownState = field(default_factory=KnownState)
    behind: KnownState = field(default_factory=KnownState)

    @property
    def last_segment(self) -> ArchivedFile:
        """The newest segment."""
        return self.segments[-1]

    def build_end_state(self) -> JournalState:
        """Return the state after the last segment."""
        last = self.last_segment
        return self.behind.build_state(
            Position(last.number, last.length, last.last_txid), last.last_block, last.last_block[1]
        )

    def build_beginning_state(self) -> JournalState:
        """Return the state before the first segment."""
        header = self.segments[0].build_file_header()
        return self.before.build_state(
            Position(header.number, header.blocks_offset, header.first_txid - 1), chain=header.chain
        )

    def find_segment(self, txid: int) -> ArchivedFile | None:
        """Return the segment with a txid, or None."""
        at = bisect_left(self.segments, txid, key=lambda one: one.last_txid)
        return self.segments[at] if at < len(self.segments) and self.segments[at].first_txid <= txid else None

    def map_segments(self) -> Mapping[int, ArchivedFile]:
        """Return the segments by number."""
        return {one.number: one for one in self.segments}


def format_manifest_name(instance: str) -> str:
    """Return the name of the manifest of an instance's journal."""
    return f"{instance}{MANIFEST_SUFFIX}"


def missing_archive_error(directory: RemotePath, instance: str | None = None) -> MissingError:
    """Return MissingError ``SOW-JRN-081``: there is no manifest of this instance, or of any."""
    whose = "a journal" if instance is None else f"the journal of instance {instance!r}"
    return MissingError(
        "SOW-JRN-081",
        f"the URL has no archive of {whose}",
        place=str(directory),
        hint="check the URL and the name of the instance; sowctl journal archive --to creates an archive",
    )


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the encoded manifest: lines of JSON, the last one with a checksum of all previous lines."""
    head = {
        "format": FORMAT_NAME,
        "version": VERSION,
        "instance": manifest.instance,
        "made": manifest.made,
        "segments": len(manifest.segments),
        "first_txid": manifest.segments[0].first_txid,
        "last_txid": manifest.last_segment.last_txid,
    }
    encode = msgspec.json.encode
    lines = [encode(head), *map(encode, manifest.segments)]
    lines += [encode({"before": manifest.before}), encode({"behind": manifest.behind})]
    body = b"".join(line + b"\n" for line in lines)
    return body + encode({"crc32": f"{crc32(body):08x}"}) + b"\n"


def decode_manifest(raw: bytes, place: str) -> Manifest:
    """Decode a manifest. Raises DamageError ``SOW-JRN-080``, VersionError ``SOW-JRN-082``."""
    body, _, last = raw.rstrip(b"\n").rpartition(b"\n")
    # The checksum includes the line break before its own line.
    body += b"\n"
    lines = body.splitlines()
    try:
        head: dict[str, Any] = msgspec.json.decode(lines[0])
        # The version is checked before the checksum: a later version may have another checksum.
        if head["format"] != FORMAT_NAME:
            raise _manifest_damage(place, "it is not a manifest of an archive")
        if head["version"] > VERSION:
            raise VersionError(
                "SOW-JRN-082",
                f"the manifest has version {head['version']}; this release reads up to {VERSION}",
                place=place,
                hint="use the release that wrote it, or a later one",
            )
        if msgspec.json.decode(last)["crc32"] != f"{crc32(body):08x}":
            raise _manifest_damage(place, "its checksum is wrong")
        segments = tuple(msgspec.json.decode(line, type=ArchivedFile) for line in lines[1 : head["segments"] + 1])
        before, behind = (msgspec.json.decode(line, type=dict[str, KnownState]) for line in lines[-2:])
        if len(segments) != head["segments"] or not segments:
            raise _manifest_damage(place, "segments are missing")
        found = Manifest(head["instance"], head["made"], segments, before["before"], behind["behind"])
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise _manifest_damage(place, "it was truncated or changed") from error
    for one, following in pairwise(segments):
        if following.number != one.number + 1 or following.first_txid <= one.last_txid:
            raise _manifest_damage(place, f"segment {following.number:010d} does not follow {one.number:010d}")
    return found


def _manifest_damage(place: str, why: str) -> DamageError:
    return DamageError(
        "SOW-JRN-080",
        f"invalid manifest of the archive: {why}",
        place=place,
        hint="restore a copy of it; or remove it and run sowctl journal archive --to while the local files still exist",
    )


def require_manifest(directory: RemotePath, instance: str, reaching: int | None = None) -> Manifest:
    """As :func:`find_manifest`. Raises MissingError ``SOW-JRN-081`` if there is no archive, the errors of
    :func:`decode_manifest`, and those of reading at a URL."""
    found = find_manifest(directory, instance, reaching)
    if found is None:
        raise missing_archive_error(directory, instance)
    return found


def find_manifest(directory: RemotePath, instance: str, reaching: int | None = None) -> Manifest | None:
    """Return the manifest of an archive, or None.

    ``reaching``: a manifest that this process has already read suffices if it has this txid, because the entries of
    segments in a manifest never change.
    """
    from sowctl.remote.remote_files import read_file

    held = _REMOTE_MANIFESTS.get((directory, instance))
    if reaching is not None and held is not None and held.last_segment.last_txid >= reaching:
        return held
    place = directory / format_manifest_name(instance)
    try:
        raw = read_file(place)
    except MissingError as error:
        if error.code != "SOW-RMT-002":
            raise
        return None
    # At most one: a task reads one journal.
    _REMOTE_MANIFESTS.clear()
    found = _REMOTE_MANIFESTS[directory, instance] = decode_manifest(raw, str(place))
    return found


def require_segments(path: Path, read: Callable[[], Mapping[int, Sequence[Path]]]) -> None:
    """Require the files in a manifest in a local directory, with the sizes in the manifest.

    Such a directory is read like any directory of journal files, in which the last file may end anywhere: without this
    check, a truncated or missing last segment would look like a shorter journal. ``read`` returns the files of the
    journal by number, the one that readers use first: a segment may be missing if readers use another copy. Raises
    DamageError ``SOW-JRN-083``, ``SOW-JRN-084``, StorageError, and the errors of :func:`decode_manifest`.
    """
    try:
        facts = path.stat()
        # A replaced or rewritten manifest differs in at least one of these.
        known = str(path), facts.st_ino, facts.st_size, facts.st_mtime_ns
        if known not in _LOCAL_MANIFESTS:
            raw = path.read_bytes()
            _LOCAL_MANIFESTS.clear()
            _LOCAL_MANIFESTS[known] = decode_manifest(raw, str(path))
    except FileNotFoundError:
        return
    except OSError as error:
        raise read_error(error, path) from error
    # Sizes only: comparing digests would read the whole archive each time it is opened.
    for segment in _LOCAL_MANIFESTS[known].segments:
        place = path.with_name(segment.name)
        try:
            size: int | None = place.stat().st_size
        except FileNotFoundError:
            size = None
        if size == segment.size or read().get(segment.number, [place])[0] != place:
            continue
        raise (
            lost_file_error(place)
            if size is None
            else segment_mismatch_error(place, format_count(size, "byte"), f"{segment.size}")
        )
