"""Sizes of what a bulk load decides, sorts and writes at once.

The figures, each with its reason or what was measured, are fields of :class:`BulkLimits`; tests set smaller ones.
"""

from __future__ import annotations

from msgspec import Struct


class BulkLimits(Struct):
    """The figures."""

    decided_keys_per_part: int = 10_000
    """Keys whose messages are decided at once, with their stored records."""
    update_bucket_bytes: int = 64 << 20
    """Payload bytes of one bucket, whose messages are finished together."""
    commit_fold_bytes: int = 128 << 20
    """Bytes of entries of a topic without a journal that are folded in memory, to be put into the store in key order;
    more go through temporary files."""


BULK_LIMITS = BulkLimits()
