"""Tools that damage a file on purpose: flip a bit, cut the end, overwrite a range."""

from __future__ import annotations

from pathlib import Path


def flip_bit(path: Path, bit: int) -> None:
    """Turn bit number ``bit`` of the file (bit 0 is the lowest of byte 0) over, in place."""
    with path.open("r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ (1 << (bit % 8))]))


def truncate(path: Path, size: int) -> None:
    """Keep the first ``size`` bytes."""
    with path.open("r+b") as file:
        file.truncate(size)


def overwrite(path: Path, offset: int, data: bytes) -> None:
    """Put ``data`` at ``offset``, in place."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def flipped(content: bytes, bit: int) -> bytes:
    """``content`` with one bit turned over."""
    data = bytearray(content)
    data[bit // 8] ^= 1 << (bit % 8)
    return bytes(data)
