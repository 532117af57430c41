"""Limits for grouping and adding up messages in columns.

The values, each with its reason or measurement, are fields of :class:`ColumnLimits`; tests set other values.
"""

from __future__ import annotations

from msgspec import Struct


class ColumnLimits(Struct):
    """The limits."""

    min_messages_per_group: int = 2
    """Messages per group from which inputs are added up. COUNT, SUM and MAX of 1,000,000 joined orders in 5,000 groups,
    13,000 rows at a time: 2.8 s of processor time in lists, 2.0 added up, which also takes less memory."""
    waiting_messages_per_group: int = 32
    max_waiting_messages: int = 1 << 17
    """Messages per group to wait for, and the maximum number of waiting messages, a bound of memory. The same without
    waiting takes 2.2 s; with 16, 32 and 64 per group 1.2. With three groups it takes 0.6 either way."""
    waiting_growth: int = 4
    """Factor for the number of messages to wait for if nearly each message had its own group. 1,000,000 joined orders
    in 50,000 groups: 18.0 s of processor time without waiting, 7.2 with this factor (the groups of a view then stay in
    memory); orders alone 12.2 and 7.5."""
    sum_block_messages: int = 1 << 15
    """Messages that are added at once, if groups are few: 256 KiB of numbers stay in the processor's caches."""


COLUMN_LIMITS = ColumnLimits()
