"""The filter over all records of a target: by indexes, or in this process, or in several with a part of the keys each.

What indexes say is of :mod:`sowctl.engine.search.indexed`, what one process does of
:mod:`sowctl.engine.search.filtering`, another process of :mod:`sowctl.engine.search.secondprocess`. Called by queries,
deletes and plans.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sowctl.engine.options import INDEXED
from sowctl.engine.reports import QueryStatistics
from sowctl.engine.search.filtering import DECODED, READ, filtered
from sowctl.engine.sources.opening import open_source
from sowctl.engine.sources.source import Matched, Pairs, Source, StoredSource, alone
from sowctl.engine.topics.targets import Target

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.search.indexed import Found
    from sowctl.engine.search.keylookup import Named
    from sowctl.engine.search.matcher import Matcher
    from sowctl.engine.search.secondprocess import Second
    from sowctl.expressions.syntax.actions import OrderKey
    from sowctl.values.fields import Slot

PICKED = 800
"""Records read at a time where indexes say which ones match."""
LARGE = 150_000
"""Records from which on a second process gains more than it costs."""
MOST_JOBS = 64


class Scan:
    """A source, open, and how to filter all of it. Made by :func:`scanning`. ``found``: what indexes say of it."""

    def __init__(self, source: Source, others: Sequence[Second] = (), found: Found | Named | None = None) -> None:
        self.source = source
        self.found = found
        self.jobs = len(others) + 1
        self._others = others

    def count(self, matcher: Matcher) -> int | None:
        """How many records match, where that can be told without reading all of them."""
        stored = self.source.stored
        if stored is None:
            return None
        if not matcher.selective:
            return stored.visible_records()
        return self.found.count() if self.found is not None else None

    def first(self, key: OrderKey, wanted: int, counts: QueryStatistics) -> Iterator[Pairs] | None:
        """Records among which are the first ``wanted`` by ``key``; None where that needs all that match."""
        if self.found is None:
            return None
        matched = self.found.count()
        pairs = self.found.first(key, wanted) if matched is not None else None
        if matched is None or pairs is None:
            return None
        counts.examined += self.found.source.visible_records()
        counts.matched += matched
        return iter((pairs,))

    def matching(self, matcher: Matcher, size: int, counts: QueryStatistics) -> Iterator[Matched]:
        """Keys and values of the records that match, in key order, at most ``size`` at a time; ``counts`` are kept.

        Raises what reading and :meth:`Matcher.places` raise.
        """
        source, read, decoded = self.source.stored, min(size, READ), min(size, DECODED)
        if self.found is not None:
            counts.examined += self.found.source.visible_records()
            for keys, values in self.found.matching(decoded if self.found.residual else min(size, PICKED)):
                counts.matched += len(keys)
                yield keys, values
            return
        if source is None:
            yield from filtered(alone(self.source.batches(read)), matcher, counts, decoded)
            return
        marks = matcher.marks(source.meta.records)
        first = self._others[0].start if self._others else None
        yield from filtered(source.runs(read, stop=first, marks=marks), matcher, counts, decoded)
        if not self._others:
            return
        for other in self._others:
            if other.succeeded(source):
                yield from other.results(source, counts)
            else:
                yield from filtered(source.runs(read, other.start, other.stop, marks), matcher, counts, decoded)
        if source.scanned != source.meta.records:
            # Each part looked right by itself; the scan of the whole says what is wrong.
            for _ in source.snapshot.scan():
                pass


@contextmanager
def scanning(
    instance: Instance,
    target: Target,
    at: int | None,
    matcher_of: Callable[[Source], Matcher],
    size: int,
    index_from: int | None = INDEXED,
    order: OrderKey | None = None,
    jobs: int | None = None,
    fields: Sequence[Slot] = (),
) -> Iterator[tuple[Scan, Matcher]]:
    """Open a target to filter all its records, with its matcher. Raises as ``open_source``.

    ``index_from``: records from which on memo indexes are used and built; None: never. ``order``: the result will be
    asked for :meth:`Scan.first`. ``jobs``: processes that may read; None: two, where that pays. ``fields``: it
    will be asked for the rows of these.
    """
    now = instance.now
    instance = replace(instance, clock=lambda: now)
    with ExitStack() as held:
        source = open_source(instance, target, at)
        opened = held.enter_context(closing(source))
        matcher = matcher_of(source)
        found = None
        if source.stored is not None:
            found = way_of(instance, source.stored, matcher, index_from, order, fields)
        if found is not None:
            yield Scan(source, (), found), matcher
            return
        others: list[Second] = []
        count = _jobs(source, matcher, jobs) if at is None and _stays(target) else 1
        if count > 1:
            from sowctl.engine.search.secondprocess import Second

            opened.close()
            for start, stop in _parts(count)[1:]:
                others.append(Second(instance, target, matcher, size, start, stop))
                held.callback(others[-1].end)
            source = held.enter_context(closing(open_source(instance, target, at)))
        yield Scan(source, others), matcher


def way_of(
    instance: Instance,
    source: StoredSource,
    matcher: Matcher,
    index_from: int | None = INDEXED,
    order: OrderKey | None = None,
    fields: Sequence[Slot] = (),
) -> Found | Named | None:
    """The way to the records that a filter can match: by keys, by memo indexes; None for a scan."""
    if matcher.filter is not None and source.meta.records:
        from sowctl.engine.search.keylookup import named

        by_keys = named(source, matcher)
        if by_keys is not None:
            return by_keys
    if index_from is None or source.meta.records < index_from:
        return None
    from sowctl.engine.search.indexed import find

    return find(instance, source, matcher, order, fields, least=index_from)


def _jobs(source: Source, matcher: Matcher, wanted: int | None) -> int:
    """How many processes read: more than one where there is much to read, and no thread that a fork would cut off."""
    stored = source.stored
    if stored is None or stored.meta.records < LARGE or not matcher.selective:
        return 1
    if wanted is not None and wanted < 2:
        return 1
    import threading

    if threading.active_count() > 1 or not hasattr(os, "sched_getaffinity"):
        return 1
    return min(2, len(os.sched_getaffinity(0))) if wanted is None else max(1, min(wanted, MOST_JOBS))


def _parts(count: int) -> list[tuple[bytes | None, bytes | None]]:
    """Where the keys of each of ``count`` processes start and stop: equal parts, since keys are hashes."""
    bounds = [None, *((number << 64) // count for number in range(1, count)), None]
    keys = [None if bound is None else bound.to_bytes(8, "big") for bound in bounds]
    return list(pairwise(keys))


def _stays(target: Target) -> bool:
    """Whether there is a file that can be opened once more (a missing store was rebuilt for this reading alone)."""
    path = target.topic.file if target.topic is not None else target.path
    return path is not None and path.exists()
