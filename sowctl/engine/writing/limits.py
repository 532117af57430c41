"""Sizes of the batches in which messages are written.

The figures, each with its reason or what was measured, are fields of :class:`WritingLimits`; tests set smaller ones.
"""

from __future__ import annotations

from msgspec import Struct


class WritingLimits(Struct):
    """The figures."""

    default_batch_messages: int = 1000
    """Messages in a batch where the caller fixes no number. More do not fit into the processor's cache with their keys,
    records and values: the steps from keys to memtable, run by themselves, took 1.4 times as long for batches of 4,800
    (0.86 s for 300,000 messages, 0.61). Of the whole command the difference is 2 %."""
    max_batch_messages: int = 8192
    """The same where batches are decided by columns; bytes close a batch before, mostly. From input to store, a message
    of batches of 4,800 takes 4.1 us, of 1,000 4.6."""


WRITING_LIMITS = WritingLimits()
