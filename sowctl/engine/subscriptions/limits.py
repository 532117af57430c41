"""Intervals and buffer sizes of subscriptions.

The values are fields of :class:`SubscriptionLimits`; tests set smaller ones.
"""

from __future__ import annotations

from msgspec import Struct


class SubscriptionLimits(Struct):
    """The limits."""

    min_recheck_seconds: float = 1.0
    """Seconds between two checks of rows that may change without an entry."""
    refresh_rest_factor: int = 4
    """Pause before a view is recomputed, as a multiple of the time that the last computation took: leaves most of a
    processor to others."""
    event_recheck_seconds: float = 1.0
    """Seconds between two polls in addition to file events."""
    copy_part_bytes: int = 1 << 20
    """Bytes of values that are copied to a new file at once."""
    bucket_items: int = 512
    """Items of a new list; a list with more than twice as many is split. A million items are about 2,000 lists."""
    rewrite_min_bytes: int = 64 << 10
    """Bytes above which a file is rewritten if that at least halves its size."""


SUBSCRIPTION_LIMITS = SubscriptionLimits()
