"""Named checksums of the expression language and of names (``behaviour`` 6.3): CRC-64 and CRC-32C, table-driven.

Both are defined without a final exclusive-or; that reproduces published client-name hashes and bookmarks.
"""

from __future__ import annotations

from functools import cache

CRC64_POLYNOMIAL = 0x95AC9329AC4BC9B5
CRC32C_POLYNOMIAL = 0x82F63B78


@cache
def _make_crc_table(polynomial: int) -> tuple[int, ...]:
    rows = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ polynomial if value & 1 else value >> 1
        rows.append(value)
    return tuple(rows)


def _run_crc(data: bytes, polynomial: int, state: int) -> int:
    table = _make_crc_table(polynomial)
    for byte in data:
        # Reflected: the lowest bit comes first, so the state shifts to the right.
        state = table[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state


def crc64(data: bytes) -> int:
    """CRC-64, reflected, initial all ones, no final xor. ``crc64(b"123456789") == 14602665702277640833``."""
    return _run_crc(data, CRC64_POLYNOMIAL, 0xFFFF_FFFF_FFFF_FFFF)


def crc32c(data: bytes) -> int:
    """CRC-32C, reflected, initial all ones, no final xor. ``crc32c(b"123456789") == 486108540``."""
    return _run_crc(data, CRC32C_POLYNOMIAL, 0xFFFF_FFFF)


def hash_client_name(name: str) -> int:
    """Return the publisher id of a client name, the first part of its bookmarks."""
    return crc64(name.encode())
