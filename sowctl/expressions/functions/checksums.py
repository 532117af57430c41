"""Checksums of texts (``sowctl-expressions(7)``, functions)."""

from __future__ import annotations

from sowctl.expressions.functions.signature import function
from sowctl.identity.hashes import crc32c, crc64


def md5(text: bytes) -> bytes:
    """32 lower-case hexadecimal digits."""
    import hashlib

    return hashlib.md5(text, usedforsecurity=False).hexdigest().encode()


CHECKSUMS = (
    function("CRC32", lambda s: crc32c(s or b""), "text", "number", "CRC-32C without final xor", strict=False),
    function("CRC64", lambda s: crc64(s or b""), "text", "number", "CRC-64 without final xor", strict=False),
    function("MD5", md5, "text", "text", "MD5 in hexadecimal digits"),
)
