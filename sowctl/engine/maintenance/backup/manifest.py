"""The manifest of a backup: the codec of ``manifest.json`` (``sow-backup(5)``, "The manifest").

The manifest describes a backup without opening its files. Times in microseconds since 1970 UTC, sizes in bytes,
lineages and digests as hexadecimal digits, paths relative to the backup's tree.
"""

from __future__ import annotations

import json
from typing import Literal

import msgspec
from msgspec import Struct
from xxhash import xxh3_128_hexdigest

from sowctl.errors import DamageError, VersionError
from sowctl.values.topicref import TopicRef

FORMAT_NAME = "sow-backup"
FORMAT_VERSION = 1
MANIFEST_NAME = "manifest.json"
_SEAL_PREFIX = b"xxh3-128 "

Role = Literal["configuration", "journal", "store", "queue", "bookmarks", "chains"]


class BackupFile(Struct, frozen=True):
    """One file. ``how``: a copy, a link to the instance's own file, or a link to that of an earlier backup."""

    path: str
    role: Role
    size: int
    digest: str
    mode: int
    how: Literal["copied", "linked", "kept"]


class BackupTopic(Struct, frozen=True):
    """One topic as of the instant: its digest as ``hash`` computes it, with expiration evaluated at the manifest's
    time.

    ``file`` is its store, None without one; ``applied``, ``stamp`` (creation time, number of the transaction) and
    ``stored`` (digest) are from the store's meta record; the journal continues after ``applied``.
    """

    topic: str
    message_type: str
    journalled: bool
    file: str | None
    applied: int
    stamp: tuple[int, int]
    stored: str
    digest: str
    records: int
    versions: int

    @property
    def ref(self) -> TopicRef:
        """Topic name and message type."""
        return TopicRef(self.topic, self.message_type)


class Lineage(Struct, frozen=True):
    """A history that a restore ended (``sow-journal(5)``)."""

    lineage: str
    last_txid: int
    above: int
    time: int


class BackupOrigin(Struct, frozen=True):
    """The paths of the original instance; a restore asks it for the highest txid assigned since."""

    root: str
    journal: str | None
    archive: str | None


class BackupManifest(Struct, frozen=True):
    """One backup. ``time`` is the instant, the time of the last entry; ``created`` is the clock's time of the backup.

    ``first_txid`` and ``last_txid`` bound the entries that its journal can have; both are 0 without a journal. ``base``
    is the earlier backup that it builds on, ``reason`` why it has none. ``verified`` is the time of verification.
    """

    name: str
    instance: str
    created: int
    time: int
    kind: Literal["full", "incremental"]
    origin: BackupOrigin
    configuration: str
    program: str
    format: str = FORMAT_NAME
    version: int = FORMAT_VERSION
    base: str | None = None
    reason: str | None = None
    lineage: str | None = None
    first_txid: int = 0
    last_txid: int = 0
    histories: tuple[Lineage, ...] = ()
    journal: str | None = None
    archive: str | None = None
    formats: dict[str, int] = msgspec.field(default_factory=dict)
    topics: tuple[BackupTopic, ...] = ()
    files: tuple[BackupFile, ...] = ()
    verified: int | None = None

    @property
    def bytes(self) -> int:
        """The total size of its files."""
        return sum(file.size for file in self.files)


def encode_manifest(manifest: BackupManifest) -> bytes:
    """Return the content of the file: JSON for people and programs, and a last line with a checksum of all lines before
    it."""
    body = json.dumps(msgspec.to_builtins(manifest), indent=1, ensure_ascii=True).encode() + b"\n"
    return body + _SEAL_PREFIX + xxh3_128_hexdigest(body).encode() + b"\n"


def decode_manifest(raw: bytes, place: str) -> BackupManifest:
    """Decode a manifest. Raises DamageError ``SOW-BAK-001``, VersionError ``SOW-BAK-002``."""
    at = raw.rfind(_SEAL_PREFIX, 0, len(raw) - 1)
    # The checksum first: no member of a changed file is trusted, not even its version.
    if at < 0 or raw[at:] != _SEAL_PREFIX + xxh3_128_hexdigest(raw[:at]).encode() + b"\n":
        raise build_damage_error(place, "the checksum in its last line does not match")
    try:
        version = msgspec.json.decode(raw[:at], type=_Versioned).version
        if version > FORMAT_VERSION:
            raise VersionError(
                "SOW-BAK-002",
                f"the backup has format version {version}; this release reads up to {FORMAT_VERSION}",
                place=place,
                hint="use the release that made it, or a later one",
            )
        return msgspec.json.decode(raw[:at], type=BackupManifest)
    except msgspec.DecodeError as error:
        raise build_damage_error(place, str(error)) from error


class _Versioned(Struct):
    version: int


def build_damage_error(place: str, what: str) -> DamageError:
    """Return DamageError ``SOW-BAK-001``: some content of a backup does not match its manifest."""
    return DamageError(
        "SOW-BAK-001",
        f"the backup is damaged: {what}",
        place=place,
        hint="use another backup (sowctl backup DIR --list), and make a new one",
    )
