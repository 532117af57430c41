"""Verification of many values at once: checksums in runs, marks in runs, and the digest (``sow-store(5)``).

Called by bulk reads and writes of records: scans, transactions, the check, the digests of ``info`` and ``replay``. Only
:mod:`sowctl.store.codec` encodes and decodes the bytes. Specified in "How to read" and "Digest".

A run is a sequence of keys and values end to end, verified by one CRC-32 instead of one per value. With :class:`Marks`
between the values it can also be searched: a single search by the pattern engine finds all values with a match, many
times as fast as searching each; :mod:`sowctl.engine.search.prefilter` does that.
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
"""Four bytes after which a CRC-32 in state :data:`CRC_RESIDUE` is 0 again, as before the first byte."""
DIGEST_MODULUS = 1 << 128
SECRET_BYTES = 12
"""Random bytes of a mark: a payload must not be able to contain a mark on purpose."""
_MARK_BYTE = b"\xff"
"""Never part of an encoded character, so that a search for the next mark seldom stops before it."""
# The next four bytes can set a CRC register to any state: they are the requested state combined with the current one.
# RESIDUE is the state after a valid value.
CRC_RESTART_MASK = int.from_bytes(CRC_RESTART, "little") ^ CRC_RESIDUE
"""Combined with a checksum, gives the four bytes that restart it."""


class Marks:
    """Marks of one scan: a byte, ``secret``, the number of the value, and the bytes that restart the checksum.

    ``behind`` is a PCRE2 pattern: from any position in a value to the end of the mark after it, with the number as its
    only group.
    """

    def __init__(self, secret: bytes) -> None:
        """``secret``: :data:`SECRET_BYTES` random bytes, which a value contains by chance with a probability of
        2**-96."""
        self._start = _MARK_BYTE + secret
        self._parts: list[bytes] = []
        rest = b"".join(b"\\x%02x" % byte for byte in secret)
        # Possessive quantifiers: the search never backtracks. A byte 0xff that begins no mark is skipped as well.
        self.behind = rb"(?:[^\xff]++|\xff(?!%b))*+\xff%b([\x00-\xff]{4})" % (rest, rest)

    def build_parts(self, count: int) -> list[bytes]:
        """Return the parts of a run of ``count`` values: two empty ones, for key and value, before every mark."""
        # Created for the largest batch so far and reused for every batch of a scan.
        for number in range(len(self._parts) // 3, count):
            mark = self._start + number.to_bytes(4, sys.byteorder)
            # The register is RESIDUE after a valid value; these four bytes set it to 0 after the number.
            back = crc32(mark, CRC_RESIDUE) ^ CRC_RESTART_MASK
            self._parts += [b"", b"", mark + back.to_bytes(4, "little")]
        return self._parts[: 3 * count]

    def join_values(self, values: Sequence[bytes]) -> bytes:
        """Return a run of ``values`` that were already verified."""
        parts = self.build_parts(len(values))
        parts[1::3] = values
        return b"".join(parts)


def decode_mark_numbers(groups: bytes) -> list[int]:
    """Return the numbers that a search with :attr:`Marks.behind` found, end to end."""
    return memoryview(groups).cast("I").tolist()


def build_sound_run(
    keys: Sequence[bytes], values: Sequence[bytes], *, small: bool = False, marks: Marks | None = None
) -> bytes | None:
    """Return keys and ``values`` as one run of bytes, if its checksum proves that all of them are valid. The run
    contains every value completely.

    One checksum covers the run: every valid value is followed by :data:`CRC_RESTART`, which changes the register from
    its state after such a value (:data:`CRC_RESIDUE`) to the initial state, so that the final state is 0. Wrong bits in
    several values cannot cancel out: the polynomial is irreducible. None has two possible causes: a value is damaged,
    or the values are too large to be copied; :func:`find_damaged_values` distinguishes them.

    ``small``: the caller knows that they are not too large, and calls :func:`require_full_length` for the relevant
    values. ``marks``: every value is followed by its mark.
    """
    if not small:
        # Joining copies all bytes, so it is limited; larger values are verified by one checksum each.
        sizes = set(map(len, values))
        if min(sizes, default=0) < VALUE_OVERHEAD_BYTES:
            return None
        if max(sizes) * len(values) > STORE_LIMITS.max_run_bytes and sum(map(len, values)) > STORE_LIMITS.max_run_bytes:
            return None
    # Key, value, restart, repeated; two slice assignments fill the columns without a loop.
    parts = [CRC_RESTART] * (3 * len(values)) if marks is None else marks.build_parts(len(values))
    parts[0::3], parts[1::3] = keys, values
    run = b"".join(parts)
    # The register is 0 after each RESTART if all values before it are valid, so it is 0 at the end. A damaged value
    # leaves another state, which later valid values cannot change to 0.
    return run if crc32(run) == 0 else None


def find_damaged_values(keys: Sequence[bytes], values: Sequence[bytes]) -> list[int]:
    """Return the indexes of damaged ``values``; ``keys`` are 8-byte SOW keys in the same order."""
    if not values or build_sound_run(keys, values) is not None:
        return []
    # Too large for one run, or one of them is damaged: one checksum per value finds it.
    if set(map(crc32, values, map(crc32, keys))) == {CRC_RESIDUE} and min(map(len, values)) >= VALUE_OVERHEAD_BYTES:
        return []
    return [index for index, (key, value) in enumerate(zip(keys, values, strict=True)) if not is_sound(key, value)]


def require_sound_values(keys: Sequence[bytes], values: Sequence[bytes], path: Path) -> None:
    """Raise :class:`DamageError` SOW-STO-001 with the key of the first damaged one among ``values``."""
    if damaged := find_damaged_values(keys, values):
        raise damaged_record_error(keys[damaged[0]], str(path))


def require_full_length(keys: Sequence[bytes], values: Sequence[bytes]) -> None:
    """Raise :class:`DamageError` SOW-STO-001 if one of ``values`` has a right checksum, but is shorter than any
    value."""
    if min(map(len, values), default=VALUE_OVERHEAD_BYTES) < VALUE_OVERHEAD_BYTES:
        raise damaged_record_error(
            next(key for key, value in zip(keys, values, strict=True) if len(value) < VALUE_OVERHEAD_BYTES)
        )


def compute_digest_term(key: bytes, value: bytes) -> int:
    """Return the share of one record or version in the store's digest: xxh3-128 over key and value."""
    return int(xxh3_128_intdigest(key + value))


def compute_digest_sum(keys: Iterable[bytes], values: Iterable[bytes]) -> int:
    """Return the sum of :func:`compute_digest_term` over many values, not yet reduced modulo 2**128."""
    # A sum does not depend on the order, so that a change adds the new term and subtracts the old one without reading
    # the other values.
    return sum(map(xxh3_128_intdigest, map(add, keys, values)))
