"""Sizes of blocks, frames and stretches of a journal, and limits of single reads and uploads.

The figures are fields of :class:`JournalLimits`, each with its reason or measurement; tests set smaller ones. Limits
that belong to the format are constants of :mod:`sowctl.journal.blockcodec`.
"""

from __future__ import annotations

from msgspec import Struct

from sowctl.journal.blockcodec import MAX_RAW_BYTES


class JournalLimits(Struct):
    """The figures."""

    # Small enough that a reader of one topic skips most blocks by their maps, large enough that header and map are a
    # small part of the bytes and that zstd finds repetition.
    max_block_entries: int = 1024
    max_block_bytes: int = 4 << 20
    """A block is closed at this many entries or bytes of payload; a single larger payload is a block of its own."""
    max_raw_bytes: int = MAX_RAW_BYTES
    """Maximum bytes of the columns, and of the payloads, of a written block: readers reject larger ones."""
    min_compressed_bytes: int = 1024
    """Smaller blocks are not compressed: it would save little and cost the import of the library."""
    mark_interval_bytes: int = 1 << 20
    """Bytes between two offsets of a file that the topics file records."""
    max_single_lookups: int = 16
    """Keys that a search of the journal looks up one by one; more are looked up all at once."""
    offset_precision_bytes: int = 1 << 20
    """Precision of the search for the offset of a txid: reading this much in vain takes less time than one more
    probe."""
    min_stretch_bytes: int = 1024
    """Minimum size of a stretch: no block of entries is much smaller."""
    frame_bytes: int = 16 << 20
    """Content of a zstd frame, which is the amount to decompress for one of its blocks. A single frame saved 4.4 % of a
    journal of orders, frames of this size 3.8 %, frames of 1 MiB nothing."""
    manifest_interval_bytes: int = 1 << 30
    manifest_interval_files: int = 256
    """Maximum upload to an archive before its manifest is written: a killed run has to repeat at most this much."""
    first_tail_txids: int = 4096
    """Txids searched first, from the end, for the last entries: a few blocks. If they do not suffice, the range grows
    eightfold."""


JOURNAL_LIMITS = JournalLimits()
