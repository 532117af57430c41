"""Sizes of the partitions in which stores and journals are read.

The figures, each with its reason, are fields of :class:`PartitionLimits`; tests set smaller ones. The driver reads them
where it plans.
"""

from __future__ import annotations

from msgspec import Struct


class PartitionLimits(Struct):
    """The figures."""

    partition_bytes: int = 64 << 20
    max_partition_bytes: int = 256 << 20
    """Bytes of a partition of a journal as stored, two to nine seconds of one core: the former, or up to the latter so
    that there are at most ``max_partitions`` of them."""
    max_partitions: int = 20_000
    """Partitions from which on they grow. What the driver holds of each, and sends with its task, is about a kilobyte.
    """
    min_partition_bytes: int = 4 << 20
    """Bytes of a journal, as stored, that take several times as long to read as a task takes to begin."""
    records_per_partition: int = 100_000
    """Records of a partition of a store."""


PARTITION_LIMITS = PartitionLimits()
