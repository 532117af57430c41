"""Sizes of blocks, frames and stretches of a journal, and of what is read and sent of it at once.

The figures, each with its reason or what was measured, are fields of :class:`JournalLimits`; tests set smaller ones.
Limits that belong to the format are constants of :mod:`sowctl.journal.blockcodec`.
"""

from __future__ import annotations

from msgspec import Struct

from sowctl.journal.blockcodec import MAX_RAW_BYTES


class JournalLimits(Struct):
    """The figures."""

    # Small enough that a reader of one topic passes over most blocks by their maps, large enough that header and map
    # are a small part of the bytes and that zstd finds repetition.
    max_block_entries: int = 1024
    max_block_bytes: int = 4 << 20
    """A block is closed at this many entries or bytes of payload; a single larger payload is a block of its own."""
    max_raw_bytes: int = MAX_RAW_BYTES
    """Bytes of the columns, and of the payloads, of a block that is written: a reader refuses larger ones."""
    min_compressed_bytes: int = 1024
    """Blocks with fewer bytes are not compressed: it would save little and cost the import of the library."""
    mark_interval_bytes: int = 1 << 20
    """Bytes between two places of a file that the topics file remembers."""
    max_single_lookups: int = 16
    """Keys that a search of the journal looks for one by one; more are looked for all at once."""
    offset_precision_bytes: int = 1 << 20
    """How near to a txid a place in a file is looked for: what is read in vain takes less time than one more look."""
    min_stretch_bytes: int = 1024
    """Bytes of the smallest stretch: no block of entries is much smaller."""
    frame_bytes: int = 16 << 20
    """Content of a frame of zstd: what is unpacked for a block of it. One frame alone saved 4.4 % of a journal of
    orders, such frames 3.8 %, frames of 1 MiB nothing."""
    manifest_interval_bytes: int = 1 << 30
    manifest_interval_files: int = 256
    """So much is sent to an archive at most before its manifest is written: what a run that is killed has to send
    again."""
    first_tail_txids: int = 4096
    """Txids from the end that are looked at first for the last entries: a few blocks. Where they do not suffice, eight
    times as many are."""


JOURNAL_LIMITS = JournalLimits()
