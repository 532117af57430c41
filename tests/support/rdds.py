"""The part of Spark's RDDs that the jobs use, in this process: laws about many histories need no JVM.

Items are pickled between stages, as on a cluster, and a shuffle returns its values in another order than it received
them.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any


class Partitions:
    """A list of partitions that is computed on demand, and once."""

    def __init__(self, context: Context, make: Callable[[], list[list[Any]]]) -> None:
        self.context = context
        self._make = make
        self._made: list[list[Any]] | None = None

    def parts(self) -> list[list[Any]]:
        if self._made is None:
            self._made = self._make()
        return pickle.loads(pickle.dumps(self._made))  # type: ignore[no-any-return]

    def mapPartitionsWithIndex(self, work: Callable[[int, Iterable[Any]], Iterable[Any]]) -> Partitions:
        def make() -> list[list[Any]]:
            made = []
            for index, part in enumerate(self.parts()):
                self.context.tasks += 1
                made.append(list(work(index, iter(part))))
            return made

        return Partitions(self.context, make)

    def mapPartitions(self, work: Callable[[Iterable[Any]], Iterable[Any]]) -> Partitions:
        return self.mapPartitionsWithIndex(lambda _, items: work(items))

    def map(self, work: Callable[[Any], Any]) -> Partitions:
        return self.mapPartitions(lambda items: map(work, items))

    def partitionBy(self, count: int, number: Callable[[Any], int]) -> Partitions:
        def make() -> list[list[Any]]:
            made: list[list[Any]] = [[] for _ in range(count)]
            parts = self.parts()
            self.context.shuffle_blocks += len(parts) * count
            for part in parts:
                for key, value in part:
                    made[number(key) % count].append((key, value))
            for part in made:
                self.context.order.shuffle(part)
            return made

        return Partitions(self.context, make)

    def collect(self) -> list[Any]:
        return [item for part in self.parts() for item in part]


class _Sum:
    def __init__(self, value: Any, add: Any) -> None:
        self.value, self._add = value, add

    def add(self, value: Any) -> None:
        self.value = self._add.addInPlace(self.value, value)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("tasks run in this process, and so it need not travel")


class Context:
    """A SparkContext; ``tasks`` and ``shuffle_blocks`` count what ran."""

    master = "local[1]"

    def __init__(self, parallel: int = 2, seed: int = 0) -> None:
        self.defaultParallelism = parallel
        self.order = random.Random(seed)
        self.tasks = self.shuffle_blocks = 0

    def setJobDescription(self, words: str) -> None:
        """Ignored: nothing shows it."""

    def parallelize(self, items: Sequence[Any], count: int) -> Partitions:
        held = list(items)
        size = -(-len(held) // count)
        return Partitions(self, lambda: [held[size * part : size * (part + 1)] for part in range(count)])

    def union(self, several: Sequence[Partitions]) -> Partitions:
        assert several, "of nothing Spark makes no union"
        return Partitions(self, lambda: [part for one in several for part in one.parts()])

    def accumulator(self, value: Any, add: Any) -> _Sum:
        return _Sum(value, add)


class Session:
    """A SparkSession with nothing but its context."""

    def __init__(self, parallel: int = 2, seed: int = 0) -> None:
        self.sparkContext = Context(parallel, seed)


def numbers() -> Iterator[str]:
    """Names of attempts."""
    count = 0
    while True:
        count += 1
        yield f"0-0-{count}"
