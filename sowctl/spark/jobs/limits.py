"""Sizes of the tasks of jobs, of what they hold, and of the parts that they leave.

The figures, each with its reason, are fields of :class:`JobLimits`; tests set smaller ones. Every process has its own
:data:`JOB_LIMITS`. What the driver decides by its own, such as the layout of a fold, travels with the tasks.
"""

from __future__ import annotations

from msgspec import Struct


class JobLimits(Struct):
    """The figures."""

    # Folds.

    min_task_bytes: int = 1 << 20
    """Stored bytes of journal that are worth a map task of their own, where processors would have no work."""
    fold_batch_bytes: int = 32 << 20
    """Messages and numbers that a map task folds at a time."""
    part_bytes: int = 64 << 20
    """Values that a reduce task folds at a time, about: what its memory has to hold three times."""
    spool_buffer_bytes: int = part_bytes // 2
    """Compressed bytes of runs that are held until they are cut, so that what is cut are no crumbs."""
    part_pairs: int = 1000
    """Pairs of one part, at most, where a task cuts them."""
    window_txids: int = 1 << 20
    """Txids whose bits are looked at together."""

    # Folds in two looks.

    max_gather_txids: int = 16_000_000
    """Txids of a journal, at most, whose keys the driver holds: 17 bytes of each key that a stretch has, and a sort."""
    range_bytes: int = 2 << 20
    max_ranges: int = 256
    """Bytes of the records of a range of keys: few, so that they stay in the processor's cache while they are sorted
    and appended, which halves the driver's time; and ranges of a topic at most."""
    max_gather_bytes: int = max_ranges * part_bytes
    """Entries, in memory, of a journal at most: so no range is larger than what a task of a fold holds at a time, and
    the driver knows of half a million pieces at most."""
    max_open_files: int = 100
    """Files of pieces that are held open. There is one for each task, and a process may have no more than 1,024."""
    piece_buffer_bytes: int = 8 << 20
    """Records that a task holds before it writes them, a piece for each range."""

    # Other jobs.

    min_separate_bytes: int = 8 << 20
    """Values of several topics from which on each is put into its file by a task of its own."""
    records_per_part: int = 100_000
    """Records of a part of a topic's state."""
    max_broadcast_records: int = 100_000
    """Records of attached sources that go to every task. A bound of its memory, not measured: about 1 KiB each."""
    show_batch_rows: int = 4096
    """Rows that are shown at a time."""


JOB_LIMITS = JobLimits()
