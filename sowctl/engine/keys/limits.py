"""Sizes of what is done with keys at once.

The figures, each with its reason or what was measured, are fields of :class:`KeyLimits`; tests set smaller ones.
"""

from __future__ import annotations

from msgspec import Struct


class KeyLimits(Struct):
    """The figures."""

    check_batch_records: int = 1000
    """Records whose keys are made at once."""
    chain_rewrite_min_bytes: int = 1 << 16
    """A file is written anew when it is larger than this and holds less than half as much as it could."""


KEY_LIMITS = KeyLimits()
