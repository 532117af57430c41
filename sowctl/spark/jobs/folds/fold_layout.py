"""Layout of a fold: its map tasks, its shuffles, and its ranges of the key space.

A shuffle in Spark has a block for every pair of map task and reduce task, even if it is empty, so the driver's memory
and the requests between executors grow with the product. The layout is computed from numbers only, so that it can be
tested without data; :mod:`sowctl.spark.jobs.folds.distributed_fold` executes it.
"""

from __future__ import annotations

from msgspec import Struct

from sowctl.spark.jobs.limits import JOB_LIMITS

MAX_SHUFFLE_BLOCKS = 1_000_000
"""Maximum blocks (map tasks times reduce tasks) of all shuffles of a fold."""
MIN_REDUCE_TASKS = 256
"""Reduce tasks that a single shuffle must allow; otherwise, if the fold needs more, it uses two shuffles."""
MAX_REDUCE_TASKS = 1024
"""Maximum reduce tasks with two shuffles, before rounding up to a multiple of ``coarse``."""
MAX_MAP_TASKS = 50_000
"""Maximum map tasks; with more, too few blocks would remain for the first of two shuffles."""


class FoldLayout(Struct, frozen=True):
    """Layout with ``maps`` map tasks and ``buckets`` reduce tasks; each of these processes ``parts`` parts in sequence.

    With one shuffle, ``slices`` is 1. With two, consecutive map tasks are grouped into ``slices`` slices. The first
    shuffle is separate for each slice, and has ``coarse`` ranges, in which replaced entries are removed. The second
    shuffle combines the slices. ``coarse`` divides ``buckets``.
    """

    maps: int
    buckets: int
    parts: int = 1
    slices: int = 1
    coarse: int = 1

    @property
    def task_count(self) -> int:
        """Number of tasks of all stages."""
        return self.maps + self.buckets + (self.slices * self.coarse if self.slices > 1 else 0)

    @property
    def shuffle_blocks(self) -> int:
        """Number of blocks of all shuffles."""
        if self.slices == 1:
            return self.maps * self.buckets
        return self.maps * self.coarse + self.slices * self.coarse * self.buckets

    @property
    def coarse_parts(self) -> int:
        """Parts of a task after the first of two shuffles: those of its buckets, each small enough for memory."""
        return self.buckets // self.coarse * self.parts


def choose_layout(maps: int, size: int, parallel: int, blocks: int = MAX_SHUFFLE_BLOCKS) -> FoldLayout:
    """Choose the layout for ``maps`` map tasks and ``size`` bytes of values, on ``parallel`` processors.

    One shuffle if ``blocks``, the maximum of shuffle blocks, allows enough reduce tasks; otherwise two.
    """
    parts = max(1, -(-size // JOB_LIMITS.part_bytes))
    # For small data, a task per processor costs more than it saves.
    wanted = max(parts, parallel if size > JOB_LIMITS.part_bytes // 8 else 1)
    if maps == 1 or maps * min(wanted, MIN_REDUCE_TASKS) <= blocks:
        buckets = min(wanted, blocks // max(maps, 1))
        return FoldLayout(maps, buckets, -(-parts // buckets))
    # Half of the blocks for each of the two shuffles.
    coarse = max(1, blocks // 2 // maps)
    fine = -(-min(wanted, MAX_REDUCE_TASKS) // coarse)
    buckets = coarse * fine
    most = max(2, min(maps, blocks // 2 // (coarse * buckets)))
    # Slices of equal size, possibly fewer than allowed.
    slices = -(-maps // -(-maps // most))
    return FoldLayout(maps, buckets, -(-parts // buckets), slices, coarse)
