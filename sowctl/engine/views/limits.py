"""Limits of views: thresholds for refreshing caches, and memory bounds.

Each states its reason or measurement; tests set other values.
"""

from __future__ import annotations

from msgspec import Struct


class ViewLimits(Struct):
    """The limits."""

    # Refreshing a cache.

    max_refresh_changes: int = 500_000
    """Maximum number of changed records in an incremental refresh, which holds them in memory."""
    max_changed_divisor: int = 4
    """If more than one record in N has changed, the view is recomputed from the messages: reading a record by key takes
    several times as long as reading it in a scan."""
    max_stale_divisor: int = 4
    """If rows of more than one record in N of the first source may differ, the view is recomputed from the columns."""
    max_affected_divisor: int = 2
    """If more than one record in N of the first source is in affected groups, all groups are computed: selecting
    records takes about as long as grouping them."""
    waiting_rows: int = 1 << 19
    """Rows of affected groups that are grouped in one batch: a batch has a cost in Python for each of its groups. A
    memory bound: some 60 bytes per row. 500,000 rows of 5,000 groups, one in 100 changed: 285 ms of processor time in
    batches of half this size, 260 with this size."""
    max_replaced_messages: int = 100_000
    """Number of cached messages above which a refresh of all groups rebuilds the cache, in bounded memory."""
    min_kept_changes: int = 4_096
    max_kept_divisor: int = 16
    """A column file is rewritten if its changed records are more than this number and more than one in N of its
    records. Every refresh reads and writes all of them. 500,000 orders: 34,000 changed ones take 11 ms of processor
    time in each refresh, rewriting the file takes 65."""

    column_part_records: int = 1 << 17
    """Records per part of a column file. A memory bound while writing; fewer, larger parts make a refresh cheaper."""

    # Computing messages.

    read_batch_records: int = 1000
    """Records of a source read at a time."""
    min_column_records: int = 5_000
    """Minimum number of records of the sources for grouping by columns, which loads numpy, and for storing columns.

    5,000 orders joined with 50 customers, 5 changed: 66 ms of processor time by rows, 13 by columns, and some 80 to
    load numpy, once per process; 20,000 orders: 300 and 13.
    """
    max_joined_rows: int = 1 << 19
    """Maximum number of joined rows in a batch, unless all are of a single record. 40,000 records with 200 partners
    each: in one batch 613 MB of RssAnon and 1.9 s of processor time, with this limit 128 MB and 0.6 s."""


VIEW_LIMITS = ViewLimits()
