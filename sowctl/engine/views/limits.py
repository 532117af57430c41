"""Figures of views: what decides how a cache is refreshed, and what is held at a time.

Each has its reason or what was measured; tests set other ones.
"""

from __future__ import annotations

from msgspec import Struct


class ViewLimits(Struct):
    """The figures."""

    # Refreshing a cache.

    max_refresh_changes: int = 500_000
    """Changed records that are held in memory at once, and no more."""
    max_changed_divisor: int = 4
    """Above one changed record in N, everything is computed anew from the messages: reading a record by its key takes
    several times as long as reading it in a scan."""
    max_stale_divisor: int = 4
    """Above one record in N of the first source whose rows may differ, all is computed anew, from the columns."""
    max_affected_divisor: int = 2
    """Above one record in N of the first source in affected groups, all groups are computed: choosing records takes
    about as long as grouping them."""
    waiting_rows: int = 1 << 19
    """Rows of affected groups that are grouped together: a batch costs a step of Python for each of its groups. A bound
    of memory: some 60 bytes for each row. 500,000 rows of 5,000 groups, one in 100 changed: 285 ms of processor time in
    batches of half as many, 260 so."""
    max_replaced_messages: int = 100_000
    """Messages of a cache above which all of them are written into a new one, in bounded memory."""
    min_kept_changes: int = 4_096
    max_kept_divisor: int = 16
    """Changed records beside a file of columns above which it is rewritten: more than this number, and more than one in
    N of the records in the file. Every refresh reads and writes all of them. 500,000 orders: 34,000 changed ones take
    11 ms of processor time in each refresh, rewriting the file takes 65."""

    column_part_records: int = 1 << 17
    """Records of a part of a file of columns. A bound of memory while it is written; the larger the parts, the less
    their number costs a refresh."""

    # Computing messages.

    read_batch_records: int = 1000
    """Records of a source that are read at a time."""
    min_column_records: int = 5_000
    """Records of the sources from which on rows are grouped as columns, which loads numpy, and columns are kept.

    5,000 orders joined with 50 customers, 5 changed: 66 ms of processor time by rows, 13 by columns, and some 80 to
    load numpy, once in a process; 20,000 orders: 300 and 13.
    """
    max_joined_rows: int = 1 << 19
    """Joined rows that are made at once, where they are not all of one record. 40,000 records that meet 200 each, all
    of them at once: 613 MB of RssAnon and 1.9 s of processor time; so cut 128 MB and 0.6 s."""


VIEW_LIMITS = ViewLimits()
