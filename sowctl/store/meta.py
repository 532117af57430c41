"""The meta record of a store: its definition and its state (``sow-store(5)``, "The meta record").

One binary record with its own magic, version and checksum, rewritten in every transaction that changes anything, so
that counts, digest, journal position and records are always consistent. Only the store reads and writes it.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from sowctl.checksum import crc32
from sowctl.errors import DamageError, VersionError
from sowctl.store.codec import REBUILD_HINT
from sowctl.values.topicref import TopicRef

MAGIC = b"SOWSTORE"
FORMAT_VERSION = 1
META_KEY = b"meta"
KEY_MODES = ("fields", "user", "module")
NO_LINEAGE = bytes(16)
_PREFIX = struct.Struct("<8sHHI")
_FIXED = struct.Struct("<16sQQQQQ16sqqqQIBB")
_CRC = struct.Struct("<I")
_LENGTH = struct.Struct("<H")
_SEQUENCE = struct.Struct("<Q")
_BLOCK = struct.Struct("<QQI")
_STATE_MODULUS = 1 << 128
SEQUENCE_PREFIX = b"seq:"

AppliedBlock: TypeAlias = tuple[int, int, int]
"""The block of the journal that ends with the applied txid: number of its file, its offset there, its header CRC.

Two separately continued copies of an instance have one lineage and the same txids; their blocks distinguish them."""


class AppliedPosition(NamedTuple):
    """The applied position in a journal: its lineage, the last txid, and the block that ends with it, if known."""

    lineage: bytes
    txid: int
    block: AppliedBlock | None = None


class Definition(Struct, frozen=True):
    """The topic whose records a store contains. Two definitions that differ in any part never share a file.

    ``key_mode`` is ``fields``, ``user`` or ``module``; ``key_fields`` the key paths in configuration order (empty for
    user keys); ``key_domain`` the domain at the start of every key digest (None if there is none).
    """

    instance: str
    topic: str
    message_type: str
    key_mode: str
    key_fields: tuple[str, ...] = ()
    key_domain: str | None = None

    @property
    def ref(self) -> TopicRef:
        """``topic`` and message type."""
        return TopicRef(self.topic, self.message_type)

    def __post_init__(self) -> None:
        if self.key_mode not in KEY_MODES:
            raise ValueError(f"key mode {self.key_mode!r} is not one of {', '.join(KEY_MODES)}")

    def __str__(self) -> str:
        keys = ", ".join(self.key_fields) if self.key_mode == "fields" else f"{self.key_mode} keys"
        domain = "" if self.key_domain is None else f", key domain {self.key_domain!r}"
        return f"instance {self.instance!r}, topic {self.topic!r} ({self.message_type}), {keys}{domain}"

    def list_differences(self, other: Definition) -> list[str]:
        """Return the names of the parts that differ in ``other``."""
        names = ("instance", "topic", "message_type", "key_mode", "key_fields", "key_domain")
        return [name for name in names if getattr(self, name) != getattr(other, name)]


class StoreMeta(Struct, frozen=True):
    """Definition and state of a store as of one transaction. Times are microseconds since 1970 UTC, 0 means none.

    ``lineage`` (16 bytes, zero: no journal) and ``applied`` give the log and the txid up to which the records are
    complete; ``block`` is the last applied block, None if unknown; ``digest`` is the sum modulo 2**128 over records and
    versions; ``last_time`` the highest applied time; ``removal_mark`` the clock of the latest physical removal of
    expired records; ``transaction`` the number of the LMDB transaction that wrote this record.
    """

    definition: Definition
    lineage: bytes = NO_LINEAGE
    applied: int = 0
    records: int = 0
    versions: int = 0
    payload_bytes: int = 0
    version_bytes: int = 0
    digest: int = 0
    last_time: int = 0
    removal_mark: int = 0
    created: int = 0
    sequences: int = 0
    transaction: int = 0
    block: AppliedBlock | None = None
    format_version: int = FORMAT_VERSION

    @property
    def state_number(self) -> int:
        """The number by which derived data names this state."""
        return self.number_state(self.digest)

    def number_state(self, digest: int) -> int:
        """The number of the state of this store that has ``digest``."""
        # Digests are hashes, so two states have one number only if digest and time are equal.
        return (digest + (self.created << 64)) % _STATE_MODULUS

    def extract_digest(self, state_number: int) -> int:
        """The digest of another state of this store, from its number."""
        return (state_number - (self.created << 64)) % _STATE_MODULUS

    @property
    def has_journal(self) -> bool:
        """True if the records follow a journal."""
        return self.lineage != NO_LINEAGE

    def replace_parts(self, **parts: Any) -> StoreMeta:
        """Return a copy with some parts replaced."""
        return replace(self, **parts)


def _encode_text(text: str) -> bytes:
    raw = text.encode()
    return _LENGTH.pack(len(raw)) + raw


def encode_meta(meta: StoreMeta) -> bytes:
    """Return the encoded meta record. Raises struct.error if a name is longer than 65,535 bytes."""
    definition = meta.definition
    # Fixed fields first: they can be read without decoding the texts after them.
    fixed = _FIXED.pack(
        meta.lineage,
        meta.applied,
        meta.records,
        meta.versions,
        meta.payload_bytes,
        meta.version_bytes,
        meta.digest.to_bytes(16, "little"),
        meta.last_time,
        meta.removal_mark,
        meta.created,
        meta.transaction,
        meta.sequences,
        KEY_MODES.index(definition.key_mode),
        definition.key_domain is not None,
    )
    texts = (definition.instance, definition.topic, definition.message_type, definition.key_domain or "")
    body = fixed + b"".join(map(_encode_text, texts)) + _LENGTH.pack(len(definition.key_fields))
    body += b"".join(map(_encode_text, definition.key_fields))
    # Older readers stop after the key fields, and older writers omit this part: then the block is unknown, and is not
    # compared.
    body += _BLOCK.pack(*meta.block) if meta.block is not None else b""
    whole = _PREFIX.pack(MAGIC, FORMAT_VERSION, 0, len(body)) + body
    return whole + _CRC.pack(crc32(whole))


def decode_meta(data: bytes, place: str) -> StoreMeta:
    """Decode a meta record: magic first, then version, then checksum.

    Raises :class:`DamageError` SOW-STO-010 (not a store), :class:`VersionError` SOW-STO-011 (newer format),
    :class:`DamageError` SOW-STO-012 (checksum or length).
    """
    # This order makes each error accurate: another kind of file is not reported as damaged, nor is a newer format whose
    # checksum covers fields that this version does not know.
    if data[:8] != MAGIC or len(data) < _PREFIX.size + _CRC.size:
        raise DamageError(
            "SOW-STO-010", "the file is not a SOW file: its meta record has an unknown format", place=place
        )
    _, version, _, length = _PREFIX.unpack_from(data)
    if version > FORMAT_VERSION:
        raise VersionError(
            "SOW-STO-011",
            f"the file has format version {version}; this release reads up to {FORMAT_VERSION}",
            place=place,
            hint="use the release that wrote it, or a later one",
        )
    # The length must account for every byte: a truncated or extended record is damaged even if some checksum fits.
    end = _PREFIX.size + length
    if len(data) != end + _CRC.size or crc32(data[:end]) != _CRC.unpack_from(data, end)[0]:
        raise _damaged_meta_error(place)
    try:
        # Inconsistent fields with a right checksum are reported as damage: no such record was ever written.
        return _decode_body(data[_PREFIX.size : end], version)
    except (struct.error, UnicodeDecodeError, IndexError, ValueError):
        raise _damaged_meta_error(place) from None


def _damaged_meta_error(place: str) -> DamageError:
    return DamageError(
        "SOW-STO-012",
        "the meta record is damaged: its checksum does not match",
        place=place,
        hint=REBUILD_HINT,
    )


def _decode_body(body: bytes, version: int) -> StoreMeta:
    (lineage, applied, records, versions, payload, history, digest, last, mark, created, transaction, *rest) = (
        _FIXED.unpack_from(body)
    )
    sequences, mode, domain = rest
    # Lengths may be anything in a forged record: unpacking raises at the end of the body, which counts as damage.
    texts, at = _decode_texts(body, _FIXED.size, 4)
    (count,) = _LENGTH.unpack_from(body, at)
    fields, at = _decode_texts(body, at + 2, count)
    # Later versions may append fields after this one; fields missing at the end of an older record are unknown, not
    # damaged.
    block = _BLOCK.unpack_from(body, at) if len(body) >= at + _BLOCK.size else None
    definition = Definition(texts[0], texts[1], texts[2], KEY_MODES[mode], tuple(fields), texts[3] if domain else None)
    return StoreMeta(
        definition=definition,
        lineage=lineage,
        applied=applied,
        records=records,
        versions=versions,
        payload_bytes=payload,
        version_bytes=history,
        digest=int.from_bytes(digest, "little"),
        last_time=last,
        removal_mark=mark,
        created=created,
        sequences=sequences,
        transaction=transaction,
        block=block,
        format_version=version,
    )


def _decode_texts(body: bytes, at: int, count: int) -> tuple[list[str], int]:
    found = []
    for _ in range(count):
        start = at + 2
        at = start + _LENGTH.unpack_from(body, at)[0]
        found.append(body[start:at].decode())
    return found, at


def encode_sequence_key(publisher: int) -> bytes:
    """Return the key in ``meta`` of a publisher's highest sequence number."""
    return SEQUENCE_PREFIX + publisher.to_bytes(8, "big")


def encode_sequence(publisher: int, sequence: int) -> bytes:
    """Return the value of this key: the number and a CRC-32 over key and number."""
    raw = _SEQUENCE.pack(sequence)
    # The CRC covers the key: a number stored under another publisher is detected.
    return raw + _CRC.pack(crc32(raw, crc32(encode_sequence_key(publisher))))


def decode_sequence(publisher: int, data: bytes, place: str) -> int:
    """Decode the value. Raises :class:`DamageError` SOW-STO-013."""
    if len(data) != _SEQUENCE.size + _CRC.size or data != encode_sequence(publisher, _SEQUENCE.unpack_from(data)[0]):
        raise DamageError("SOW-STO-013", f"the sequence number of publisher {publisher} is damaged", place=place)
    return int(_SEQUENCE.unpack_from(data)[0])
