"""CRC-32 as in zlib and in every file format here, computed with the processor's own instructions.

All data that a scan reads is verified. With the CRC of the standard library, this took 16 of the 123 ms of reading
432,174 records without evaluating them; this one needs a tenth of that.
"""

from __future__ import annotations

from isal.isal_zlib import crc32

__all__ = ["crc32"]
