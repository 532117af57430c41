"""Sizes of batches that are read and verified together, and cache limits.

The figures, each with its reason or measurement, are fields of :class:`StoreLimits`; tests set other ones. Those of the
proof of pages are in :mod:`sowctl.store.opening.proof.limits`.
"""

from __future__ import annotations

from msgspec import Struct


class StoreLimits(Struct):
    """The figures."""

    read_batch_records: int = 1000
    """Records read together by a scan of a whole source, unless the scan has its own figure."""
    max_run_bytes: int = 4 << 20
    """Maximum bytes of values that are verified in one run."""
    page_batch_bytes: int = 4 << 20
    """Bytes of pages that are copied together. A sum by group over 1,000,000 records of 260 bytes: 1 MiB: 0.75 s; 2:
    0.67; 4: 0.64; 8: 0.65."""
    plain_read_bytes: int = 8192
    """A file is mapped from one plain read per this many of its bytes on. ``tests.bench.run figures``, with a file of
    95 MB in the page cache, CPU time: 1,600 records took 1.1 ms by plain reads and 7.1 mapped, 6,400 5.4 and 8.5,
    25,600 21 and 15, 100,000 92 and 47: they break even between one read per 14,800 bytes and one per 3,700."""
    min_gate_wait_seconds: float = 10.0
    """Minimum time to wait for the gate; it is held while a store is opened, or for the duration of a rename."""
    max_idle_environments: int = 16
    """Environments kept open without a reader; if there are more, those opened first are closed."""
    max_checked_ranges: int = 4096
    """Maximum number of stretches; above it, neighbours are merged with the earlier of their times."""


STORE_LIMITS = StoreLimits()
