"""Sizes of the batches in which messages are written.

The limits, each with its reason or a measurement, are fields of :class:`WritingLimits`; tests set smaller ones.
"""

from __future__ import annotations

from msgspec import Struct


class WritingLimits(Struct):
    """Limits of batches."""

    default_batch_messages: int = 1000
    """Default number of messages in a batch. Larger batches do not fit into the processor's cache with their keys,
    records and values: the steps from keys to memtable, run separately, took 1.4 times as long with batches of 4,800
    (300,000 messages: 0.86 s instead of 0.61 s). For the complete command the difference is 2 %."""
    max_batch_messages: int = 8192
    """The same for batches that are decided by columns; usually the byte limit ends a batch earlier. From input to
    store, a message takes 4.1 us in batches of 4,800, and 4.6 us in batches of 1,000."""


WRITING_LIMITS = WritingLimits()
