"""Layout of a fold: its map tasks, its shuffles, and its ranges of the key space.

Spark keeps a block for every map task and every reduce task of a shuffle, empty ones too; what the driver remembers of
them, and what executors ask each other for, grows with the product. A plan made of numbers alone, so that it can be
looked at without data; :mod:`sowctl.spark.jobs.folds.distributed_fold` carries it out.
"""

from __future__ import annotations

from msgspec import Struct

from sowctl.spark.jobs.limits import JOB_LIMITS

MAX_SHUFFLE_BLOCKS = 1_000_000
"""Map tasks times reduce tasks of all shuffles of a fold, at most."""
MIN_REDUCE_TASKS = 256
"""Reduce tasks that one shuffle should have left where it has to have fewer than there are parts."""
MAX_REDUCE_TASKS = 1024
"""Reduce tasks where there are two shuffles."""
MAX_MAP_TASKS = 50_000
"""Map tasks, at most: with more, no room would be left for the first of two shuffles."""


class FoldLayout(Struct, frozen=True):
    """``maps`` tasks read; ``buckets`` tasks end the fold, each in ``parts`` parts, one after the other.

    With one shuffle ``slices`` is 1. With two, the map tasks are cut into so many slices, rows of neighbours; each has
    a shuffle of its own into ``coarse`` ranges, in which entries that later ones replaced go; the second one brings the
    slices together. ``coarse`` divides ``buckets``.
    """

    maps: int
    buckets: int
    parts: int = 1
    slices: int = 1
    coarse: int = 1

    @property
    def task_count(self) -> int:
        """Tasks of all stages."""
        return self.maps + self.buckets + (self.slices * self.coarse if self.slices > 1 else 0)

    @property
    def shuffle_blocks(self) -> int:
        """Blocks of all shuffles."""
        if self.slices == 1:
            return self.maps * self.buckets
        return self.maps * self.coarse + self.slices * self.coarse * self.buckets

    @property
    def coarse_parts(self) -> int:
        """Parts of a task of the first of two shuffles: whole buckets, and few enough that each fits into memory."""
        return self.buckets // self.coarse * self.parts


def choose_layout(maps: int, size: int, parallel: int, blocks: int = MAX_SHUFFLE_BLOCKS) -> FoldLayout:
    """The layout for ``maps`` map tasks and ``size`` bytes of values, on ``parallel`` processors.

    One shuffle if that leaves enough reduce tasks, else two. ``blocks``: shuffle blocks at most.
    """
    parts = max(1, -(-size // JOB_LIMITS.part_bytes))
    # Small data is not worth a task for every processor.
    wanted = max(parts, parallel if size > JOB_LIMITS.part_bytes // 8 else 1)
    if maps == 1 or maps * min(wanted, MIN_REDUCE_TASKS) <= blocks:
        buckets = min(wanted, blocks // max(maps, 1))
        return FoldLayout(maps, buckets, -(-parts // buckets))
    # Half of the blocks for each of the two shuffles.
    coarse = max(1, blocks // 2 // maps)
    fine = -(-min(wanted, MAX_REDUCE_TASKS) // coarse)
    buckets = coarse * fine
    most = max(2, min(maps, blocks // 2 // (coarse * buckets)))
    # Slices of equal size: where that leaves fewer of them, so many there are.
    slices = -(-maps // -(-maps // most))
    return FoldLayout(maps, buckets, -(-parts // buckets), slices, coarse)
