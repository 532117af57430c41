"""Sizes of the partitions of stores and journals.

The values and their reasons are in :class:`PartitionLimits`; tests set smaller ones. The driver reads them when it
plans.
"""

from __future__ import annotations

from msgspec import Struct


class PartitionLimits(Struct):
    """Limits of the number and size of partitions."""

    partition_bytes: int = 64 << 20
    max_partition_bytes: int = 256 << 20
    """Stored bytes of a journal partition, two to nine seconds of one core: ``partition_bytes``, or up to
    ``max_partition_bytes`` so that there are at most ``max_partitions``."""
    max_partitions: int = 20_000
    """Number of partitions above which they grow. The driver stores and sends about a kilobyte per partition."""
    min_partition_bytes: int = 4 << 20
    """Stored bytes of a journal whose reading takes several times as long as starting a task."""
    records_per_partition: int = 100_000
    """Records of a store partition."""


PARTITION_LIMITS = PartitionLimits()
