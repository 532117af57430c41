"""Batch sizes of work on keys.

The values, each with its reason or measurement, are fields of :class:`KeyLimits`; tests set smaller ones.
"""

from __future__ import annotations

from msgspec import Struct


class KeyLimits(Struct):
    """The limits."""

    check_batch_records: int = 1000
    """Records per batch of computed keys."""
    chain_rewrite_min_bytes: int = 1 << 16
    """A larger file is rewritten if that at least halves it."""


KEY_LIMITS = KeyLimits()
