"""Sizes of the parts in which a bulk load decides, sorts and writes messages.

The values and their reasons are in :class:`BulkLimits`; tests set smaller ones.
"""

from __future__ import annotations

from msgspec import Struct


class BulkLimits(Struct):
    """Limits that bound the memory of a bulk load."""

    decided_keys_per_part: int = 10_000
    """Keys whose messages are decided together, with their stored records."""
    update_bucket_bytes: int = 64 << 20
    """Payload bytes of a bucket, whose messages are finished together."""
    commit_fold_bytes: int = 128 << 20
    """Bytes up to which entries of a topic without a journal are sorted by key in memory; more are sorted with
    temporary files."""


BULK_LIMITS = BulkLimits()
