"""Proof that many values are sound: checksums in runs, marks in runs, and the digest (``sow-store(5)``).

Called where records are read or written in numbers: scans, transactions, the check, the digests of ``info`` and
``replay``. The bytes themselves are packed and unpacked by :mod:`sowctl.store.codec` alone. Ruled by "How to read" and
"Digest".

A run is many keys and values end to end, verified by one CRC-32 instead of one for each. With :class:`Marks` between
the values it can also be searched: one search by the pattern engine finds which of all values hold something, many
times as fast as asking each; :mod:`sowctl.engine.search.prefilter` does that.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from operator import add
from pathlib import Path

from xxhash import xxh3_128_intdigest

from sowctl.checksum import crc32
from sowctl.store.codec import CRC_RESIDUE, VALUE_OVERHEAD_BYTES, damaged_record_error, is_sound
from sowctl.store.limits import STORE_LIMITS

CRC_RESTART = bytes.fromhex("81d59d4c")
"""Four bytes after which a CRC-32 that stood at :data:`CRC_RESIDUE` is 0 again, as before the first byte."""
DIGEST_MODULUS = 1 << 128
SECRET_BYTES = 12
"""Random bytes of a mark: a payload must not be able to contain a mark on purpose."""
_MARK_BYTE = b"\xff"
"""Is no part of any character, so that a search for the mark behind a place seldom halts before it."""
# A CRC register can be steered to any state by the four bytes that come next: they are the state wanted, combined with
# the state that is. RESIDUE is what a sound value leaves.
CRC_RESTART_MASK = int.from_bytes(CRC_RESTART, "little") ^ CRC_RESIDUE
"""With a checksum, the four bytes that restart it."""


class Marks:
    """Marks of one scan: a byte, ``secret``, the number of the value, and what restarts the checksum.

    ``behind`` is a PCRE2 pattern: from anywhere in a value to the end of the mark behind it, with the number as its one
    group.
    """

    def __init__(self, secret: bytes) -> None:
        """``secret``: :data:`SECRET_BYTES` random bytes, which no value holds but by a chance of 2**-96."""
        self._start = _MARK_BYTE + secret
        self._parts: list[bytes] = []
        rest = b"".join(b"\\x%02x" % byte for byte in secret)
        # Possessive quantifiers: the search never goes back over what it has passed. A byte 0xff that begins no mark is
        # passed as well.
        self.behind = rb"(?:[^\xff]++|\xff(?!%b))*+\xff%b([\x00-\xff]{4})" % (rest, rest)

    def build_parts(self, count: int) -> list[bytes]:
        """Parts of a run of ``count`` values: two empty ones, for key and value, before every mark."""
        # Made once for the largest batch so far and used for every batch of a scan.
        for number in range(len(self._parts) // 3, count):
            mark = self._start + number.to_bytes(4, sys.byteorder)
            # The register stands at RESIDUE behind a sound value; these four bytes take it from behind the number to 0.
            back = crc32(mark, CRC_RESIDUE) ^ CRC_RESTART_MASK
            self._parts += [b"", b"", mark + back.to_bytes(4, "little")]
        return self._parts[: 3 * count]

    def join_values(self, values: Sequence[bytes]) -> bytes:
        """A run of ``values`` that have been verified already."""
        parts = self.build_parts(len(values))
        parts[1::3] = values
        return b"".join(parts)


def decode_mark_numbers(groups: bytes) -> list[int]:
    """The numbers that a search with :attr:`Marks.behind` found, end to end."""
    return memoryview(groups).cast("I").tolist()


def build_sound_run(
    keys: Sequence[bytes], values: Sequence[bytes], *, small: bool = False, marks: Marks | None = None
) -> bytes | None:
    """Return keys and ``values`` in one run of bytes, if its checksum proves all of them sound. Every value stands in
    it whole.

    One checksum runs over all of it: behind every sound value stands :data:`CRC_RESTART`, which takes the register from
    where such a value leaves it (:data:`CRC_RESIDUE`) to where a checksum begins, so that at the end nothing is
    left. Wrong bits in several values cannot cancel out: the polynomial is irreducible. None says nothing: a value
    may be damaged, or they are too large to be copied; :func:`find_damaged_values` tells.

    ``small``: the caller knows that they are not too large, and asks :func:`require_full_length` of those that matter.
    ``marks``: behind every value stands its mark.
    """
    if not small:
        # Joining copies all bytes, so it is bounded; verify() takes a checksum of each value where they are larger.
        sizes = set(map(len, values))
        if min(sizes, default=0) < VALUE_OVERHEAD_BYTES:
            return None
        if max(sizes) * len(values) > STORE_LIMITS.max_run_bytes and sum(map(len, values)) > STORE_LIMITS.max_run_bytes:
            return None
    # Key, value, restart, over and over; two slice assignments fill the columns without a loop.
    parts = [CRC_RESTART] * (3 * len(values)) if marks is None else marks.build_parts(len(values))
    parts[0::3], parts[1::3] = keys, values
    run = b"".join(parts)
    # The register is 0 behind each RESTART if all values before it are sound, so it is 0 at the end. A damaged value
    # leaves another state, which later sound values cannot bring back to 0.
    return run if crc32(run) == 0 else None


def find_damaged_values(keys: Sequence[bytes], values: Sequence[bytes]) -> list[int]:
    """Indexes of the damaged among ``values``; ``keys`` are 8-byte SOW keys in the same order."""
    if not values or build_sound_run(keys, values) is not None:
        return []
    # Too large for one run, or one of them is damaged: a checksum for each tells which.
    if set(map(crc32, values, map(crc32, keys))) == {CRC_RESIDUE} and min(map(len, values)) >= VALUE_OVERHEAD_BYTES:
        return []
    return [index for index, (key, value) in enumerate(zip(keys, values, strict=True)) if not is_sound(key, value)]


def require_sound_values(keys: Sequence[bytes], values: Sequence[bytes], path: Path) -> None:
    """Raise :class:`DamageError` SOW-STO-001 with the key of the first damaged one among ``values``."""
    if damaged := find_damaged_values(keys, values):
        raise damaged_record_error(keys[damaged[0]], str(path))


def require_full_length(keys: Sequence[bytes], values: Sequence[bytes]) -> None:
    """Raise :class:`DamageError` SOW-STO-001 if one of ``values`` has a checksum, but less than a value must have."""
    if min(map(len, values), default=VALUE_OVERHEAD_BYTES) < VALUE_OVERHEAD_BYTES:
        raise damaged_record_error(
            next(key for key, value in zip(keys, values, strict=True) if len(value) < VALUE_OVERHEAD_BYTES)
        )


def compute_digest_term(key: bytes, value: bytes) -> int:
    """Return the share of one record or version in the store's digest: xxh3-128 over key and value."""
    return int(xxh3_128_intdigest(key + value))


def compute_digest_sum(keys: Iterable[bytes], values: Iterable[bytes]) -> int:
    """The sum of :func:`compute_digest_term` over many, not yet reduced modulo 2**128."""
    # A sum does not depend on the order, so that a change adds the new term and takes the old one off without reading
    # the rest.
    return sum(map(xxh3_128_intdigest, map(add, keys, values)))
