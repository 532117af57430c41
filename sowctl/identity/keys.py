"""SOW keys: 64 bits of identity and 64 bits to detect a collision (``sow-store(5)``, "SOW key").

A key is xxh3-128 over the key domain and the texts of the key fields, each preceded by its length. The high 64 bits are
the SOW key, shown as an unsigned decimal; the low 64 bits are the check word. Both form one 16-byte digest, big-endian,
key first, so that bytes sort like numbers.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, Protocol, overload

import xxhash

from sowctl.errors import UsageError
from sowctl.values.units import parse_whole_number

USER_KEY_DOMAIN = b"\x00user\x00"
_BASE64_PATTERN = re.compile(rb"[A-Za-z0-9+/=]+\Z")
NULL_LENGTH_MARK = b"\xff\xff\xff\xff"
"""Replaces the length if a key field is NULL (only with --allow-null-key)."""

PREPARED_TEXT_BYTES = 64
"""For texts shorter than this, the preceding bytes are precomputed."""

Digest = bytes
"""16 bytes: the SOW key (8, big-endian), then the check word (8). :data:`digest_key` and :data:`digest_check` extract
them: an object with attributes would take 0.2 us more per message."""
DIGEST_BYTES = 16
DIGEST_DTYPE = [("key", ">u8"), ("check", ">u8")]
"""Digests end to end as a numpy record."""
digest_key: Callable[[Digest], bytes] = itemgetter(slice(8))
"""Extracts the SOW key of a digest. In C, for ``map`` over many digests."""
digest_check: Callable[[Digest], bytes] = itemgetter(slice(8, None))
"""Extracts the check word of a digest."""


class DigestSequence(Sequence[bytes]):
    """The digests of many keys, stored end to end in ``raw``."""

    __slots__ = ("raw",)

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def __len__(self) -> int:
        return len(self.raw) // DIGEST_BYTES

    @overload
    def __getitem__(self, place: int) -> Digest: ...

    @overload
    def __getitem__(self, place: slice) -> list[Digest]: ...

    def __getitem__(self, place: int | slice) -> Digest | list[Digest]:
        if isinstance(place, slice):
            return [self[one] for one in range(len(self))[place]]
        at = range(len(self))[place] * DIGEST_BYTES
        return self.raw[at : at + DIGEST_BYTES]


def concatenate_digests(digests: Sequence[Digest]) -> bytes:
    """Return many digests end to end."""
    return digests.raw if isinstance(digests, DigestSequence) else b"".join(digests)


def split_digests(digests: Sequence[Digest]) -> tuple[bytes, bytes]:
    """Return the keys and the check words of many digests, each end to end."""
    # An array extracts every second word in one call, without numpy.
    words = array("Q", concatenate_digests(digests))
    return words[::2].tobytes(), words[1::2].tobytes()


def build_domain_prefix(domain: str) -> bytes:
    """Return the bytes at the start of every digest of a key domain: its UTF-8 length (4 bytes, big-endian) and the
    domain."""
    raw = domain.encode()
    return len(raw).to_bytes(4, "big") + raw


def compute_key_digest(domain_prefix: bytes, texts: Sequence[bytes | None]) -> Digest:
    """Return the digest of the key field ``texts`` in a domain; ``None`` is a NULL field."""
    # Each text is preceded by its length: ("ab", "c") and ("a", "bc") are different keys. No text has the length
    # reserved for NULL, so NULL is a separate key.
    parts = [domain_prefix]
    for text in texts:
        parts.append(NULL_LENGTH_MARK if text is None else len(text).to_bytes(4, "big") + text)
    return xxhash.xxh3_128_digest(b"".join(parts))


class BatchDigester(Protocol):
    """Computes digests of many key tuples at once; raises TypeError if a text is None unless ``null``."""

    def __call__(self, rows: Sequence[Sequence[bytes | None]], *, null: bool = False) -> list[Digest]: ...


def build_batch_digester(domain: str, fields: int) -> BatchDigester:
    """Return :func:`compute_key_digest` for batches of one domain; ``fields`` is the number of key fields of every
    row."""
    start = build_domain_prefix(domain)
    digest = xxhash.xxh3_128_digest
    # Only a few prefixes of short texts exist; they are computed once.
    short = [start + length.to_bytes(4, "big") for length in range(PREPARED_TEXT_BYTES)]

    def many(rows: Sequence[Sequence[bytes | None]], *, null: bool = False) -> list[Digest]:
        # Only here may a text be None. The faster branches call len(), which raises TypeError for it, and so reject a
        # NULL key.
        if null and any(None in row for row in rows):
            return [compute_key_digest(start, row) for row in rows]
        texts: Any = rows
        if fields == 1 and max(map(len, chain.from_iterable(texts)), default=0) < PREPARED_TEXT_BYTES:
            return [digest(short[len(text)] + text) for (text,) in texts]
        if fields == 1:
            return [digest(start + len(text).to_bytes(4, "big") + text) for (text,) in texts]
        return [digest(start + b"".join([len(text).to_bytes(4, "big") + text for text in row])) for row in texts]

    return many


def encode_key_text(text: str) -> bytes:
    """Encode a key or a key field's text given by a caller; bytes of the command line are represented as surrogates.

    Raises UsageError ``SOW-IDN-011`` for half a surrogate pair, which represents no bytes: no message has that key.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise UsageError(
            "SOW-IDN-011",
            f"{text!r} is not a valid key: it has half a surrogate pair, which is not a character",
            hint="give the text of a record's key, or its SOW key; messages with such keys are rejected",
        ) from None


def compute_user_key_digest(user_key: bytes) -> Digest:
    """Return the digest of a key chosen by the publisher."""
    # Read as a length, the first four bytes would mean a domain of 7 million bytes: no computed key begins like this.
    return xxhash.xxh3_128_digest(USER_KEY_DOMAIN + user_key)


def is_user_key(user_key: bytes) -> bool:
    """Return whether ``user_key`` is a non-empty text of the Base64 alphabet (``behaviour`` 1.1, C10)."""
    return _BASE64_PATTERN.match(user_key) is not None


def encode_sow_key(number: int) -> bytes:
    """Return the 8-byte form of a SOW key in the store. Raises OverflowError above 2**64-1."""
    return number.to_bytes(8, "big")


def parse_sow_key(text: str) -> bytes | None:
    """Return the 8 bytes of a SOW key written as a number; None for other texts.

    Accepts the texts accepted by :func:`~sowctl.values.units.parse_whole_number`.
    """
    number = parse_whole_number(text)
    return None if number is None else encode_sow_key(number)
