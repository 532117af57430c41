"""Pauses of subscriptions, and sizes of what they hold.

The figures are fields of :class:`SubscriptionLimits`; tests set smaller ones.
"""

from __future__ import annotations

from msgspec import Struct


class SubscriptionLimits(Struct):
    """The figures."""

    min_recheck_seconds: float = 1.0
    """Seconds between two looks at rows that may change without any entry."""
    refresh_rest_factor: int = 4
    """Pause before a view is recomputed, relative to the time that takes: most of a processor is left to others.
    """
    event_recheck_seconds: float = 1.0
    """Seconds between two looks beside events."""
    copy_part_bytes: int = 1 << 20
    """Bytes of values that are copied at once into a new file."""
    bucket_items: int = 512
    """Items of a list when it is made; at twice as many it becomes two. A million items are about 2,000 lists."""
    rewrite_min_bytes: int = 64 << 10
    """Bytes above which a file is written anew if it would then have less than half of its size."""


SUBSCRIPTION_LIMITS = SubscriptionLimits()
