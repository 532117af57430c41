"""Messages that are grouped and added up at once.

The figures, each with its reason or what was measured, are fields of :class:`ColumnLimits`; tests set other ones.
"""

from __future__ import annotations

from msgspec import Struct


class ColumnLimits(Struct):
    """The figures."""

    min_messages_per_group: int = 2
    """Messages per group from which on inputs are added up. COUNT, SUM and MAX of 1,000,000 joined orders in 5,000
    groups, 13,000 rows at a time: 2.8 s of processor time in lists, 2.0 added up, which also takes less memory."""
    waiting_messages_per_group: int = 32
    max_waiting_messages: int = 1 << 17
    """Messages per group that are waited for, and messages that wait at most, a bound of memory. The same without
    waiting 2.2 s; with 16, 32 and 64 per group 1.2. Three groups take 0.6 either way."""
    waiting_growth: int = 4
    """Times as many messages that are waited for where nearly each was a group of its own. 1,000,000 joined orders in
    50,000 groups: 18.0 s of processor time without waiting, 7.2 so (the groups of a view then stay in memory); orders
    alone 12.2 and 7.5."""
    sum_block_messages: int = 1 << 15
    """Messages that are added at once, where groups are few: 256 KiB of numbers stay in the processor's caches."""


COLUMN_LIMITS = ColumnLimits()
