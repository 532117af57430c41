"""The manifest of a backup: the one codec of ``manifest.json`` (``sow-backup(5)``, "The manifest").

Everything that is known of a backup without opening its files. Times in microseconds since 1970 UTC, sizes in bytes,
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
    """One file. ``how`` it came: a copy, a link to the instance's own file, or a link to that of an earlier backup."""

    path: str
    role: Role
    size: int
    digest: str
    mode: int
    how: Literal["copied", "linked", "kept"]


class BackupTopic(Struct, frozen=True):
    """One topic as of the instant: its digest as ``hash`` tells it, with the lifetimes judged at the manifest's time.

    ``file`` is its store, None where it has none; ``applied``, ``stamp`` (creation time, number of the transaction) and
    ``stored`` (digest) are what the store says of itself, behind which the journal goes on.
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
        """``topic`` and message type."""
        return TopicRef(self.topic, self.message_type)


class Lineage(Struct, frozen=True):
    """A history that a restore ended (``sow-journal(5)``)."""

    lineage: str
    last_txid: int
    above: int
    time: int


class BackupOrigin(Struct, frozen=True):
    """The place of the instance, which is asked again for the txids that it has given since."""

    root: str
    journal: str | None
    archive: str | None


class BackupManifest(Struct, frozen=True):
    """One backup. ``time`` is the instant: that of the last entry; ``created`` the clock when it was taken.

    ``first_txid`` and ``last_txid`` bound the entries that its journal can hold; both are 0 without a journal.
    ``base`` is the backup that it was built on, ``reason`` why it has none. ``verified`` is when it was proven.
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
        """Of all its files."""
        return sum(file.size for file in self.files)


def encode_manifest(manifest: BackupManifest) -> bytes:
    """The bytes of the file: JSON for people and programs, and a last line that seals what stands before it."""
    body = json.dumps(msgspec.to_builtins(manifest), indent=1, ensure_ascii=True).encode() + b"\n"
    return body + _SEAL_PREFIX + xxh3_128_hexdigest(body).encode() + b"\n"


def decode_manifest(raw: bytes, place: str) -> BackupManifest:
    """Read it back. Raises DamageError ``SOW-BAK-001``, VersionError ``SOW-BAK-002``."""
    at = raw.rfind(_SEAL_PREFIX, 0, len(raw) - 1)
    # The seal first: of a file that was changed, no member is believed, its version neither.
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
    """Return DamageError ``SOW-BAK-001``: something of a backup is not what its manifest says."""
    return DamageError(
        "SOW-BAK-001",
        f"the backup is damaged: {what}",
        place=place,
        hint="use another backup (sowctl backup DIR --list), and make a new one",
    )
