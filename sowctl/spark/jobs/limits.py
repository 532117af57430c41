"""Limits of jobs: sizes of tasks, of their buffers, and of the parts that they write.

The limits, each with its reason, are fields of :class:`JobLimits`; tests set smaller ones. Every process has its own
:data:`JOB_LIMITS`. Decisions that the driver bases on them, such as the layout of a fold, are sent with the tasks.
"""

from __future__ import annotations

from msgspec import Struct


class JobLimits(Struct):
    """The limits."""

    # Folds.

    min_task_bytes: int = 1 << 20
    """Minimum stored bytes of journal per map task, even if processors remain idle."""
    fold_batch_bytes: int = 32 << 20
    """Bytes of entries in memory (payloads and numbers) that a map task folds at a time."""
    part_bytes: int = 64 << 20
    """Approximate bytes of values that a reduce task folds at a time; its memory has to hold them three times."""
    spool_buffer_bytes: int = part_bytes // 2
    """Compressed bytes of runs that are buffered before they are cut into parts, so that the pieces are not tiny."""
    part_pairs: int = 1000
    """Maximum number of pairs in a part that a task writes or yields."""
    window_txids: int = 1 << 20
    """Txids whose bits are processed together."""

    # Two-pass folds.

    max_gather_txids: int = 16_000_000
    """Maximum txids of a journal whose keys the driver holds: 17 bytes per key of each stretch, and a sort."""
    range_bytes: int = 2 << 20
    max_ranges: int = 256
    """Bytes of the records of a range of keys, and maximum ranges of a topic. Ranges are small, so that they stay in
    the processor's cache while they are sorted and appended, which halves the driver's time."""
    max_gather_bytes: int = max_ranges * part_bytes
    """Maximum bytes of a journal's entries in memory. So no range is larger than the part that a reduce task holds at a
    time, and the driver tracks at most half a million pieces."""
    max_open_files: int = 100
    """Maximum open files of pieces. Each task writes one, and the usual limit of a process is 1,024."""
    piece_buffer_bytes: int = 8 << 20
    """Bytes of records that a task buffers before it writes them, one piece per range."""

    # Other jobs.

    min_separate_bytes: int = 8 << 20
    """Bytes of values above which each of several topics is written to its file by a separate task."""
    records_per_part: int = 100_000
    """Records per part of a topic's state."""
    max_broadcast_records: int = 100_000
    """Maximum records of joined sources that are sent to every task. Limits its memory, at about 1 KiB per record; not
    measured."""
    show_batch_rows: int = 4096
    """Rows that are shown at a time."""


JOB_LIMITS = JobLimits()
