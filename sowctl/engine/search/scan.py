"""The filter over all records of a target: by indexes, or in this process, or in several with a part of the keys each.

:func:`scanning` opens a target and a :class:`Scan` of it; :func:`filtered` is what each process does with its part of
the keys. A further process (:class:`Second`) is a fork. LMDB must not be used across one, so the first process closes
the store before it, and both open it then; what the second found counts only if both see the same state. What matches
in its part goes through a temporary file, so that neither waits for the other. Whatever goes wrong there, the first
process reads that part, and so raises the first error in key order, as it would alone.

Called by queries, deletes and plans. Ruled by ``behaviour`` 3.
"""

from __future__ import annotations

import marshal
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from sowctl.engine.options import INDEXED
from sowctl.engine.reports import QueryStatistics
from sowctl.engine.sources.opening import open_source
from sowctl.engine.sources.source import Matched, Pairs, Source, StoredSource, alone
from sowctl.engine.topics.targets import Target
from sowctl.errors import SowError
from sowctl.store.integrity import refuse_short

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.search.indexed import Found
    from sowctl.engine.search.keylookup import Named
    from sowctl.engine.search.matcher import Matcher
    from sowctl.expressions.syntax.actions import OrderKey
    from sowctl.store.read import Run
    from sowctl.values.fields import Slot

READ = 400
"""Records read at a time: so many are searched in one go, and what is made of them stays in the processor's caches."""
DECODED = 400
"""Records decoded at a time, where only some of those read may match."""
PICKED = 800
"""Records read at a time where indexes say which ones match."""
LARGE = 150_000
"""Records from which on a second process gains more than it costs."""
MOST_JOBS = 64


def filtered(runs: Iterable[Run], matcher: Matcher, counts: QueryStatistics, size: int = DECODED) -> Iterator[Pairs]:
    """Those records of ``runs`` that match, in batches that are not empty.

    What cannot match is left out as it is read; the rest is decoded ``size`` at a time, or as they are read.
    """
    keys: list[bytes] = []
    values: list[bytes] = []
    try:
        for some, others, run in runs:
            counts.examined += len(some)
            places = matcher.possible(others, run)
            if len(places) < len(some):
                some, others = [some[place] for place in places], [others[place] for place in places]
            if keys and len(keys) + len(some) > size:
                yield from _matching(keys, values, matcher, counts)
                keys, values = [], []
            keys, values = (keys + some, values + others) if keys else (some, others)
    except SowError:
        # What was read before it is sound and comes first.
        yield from _matching(keys, values, matcher, counts)
        raise
    yield from _matching(keys, values, matcher, counts)


def _matching(keys: list[bytes], values: list[bytes], matcher: Matcher, counts: QueryStatistics) -> Iterator[Pairs]:
    refuse_short(keys, values)
    places = matcher.decided(keys, values)
    counts.matched += len(places)
    if len(places) == len(keys) > 0:
        yield keys, values
    elif len(places):
        yield [keys[place] for place in places], [values[place] for place in places]


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


def _state(source: StoredSource) -> tuple[Any, ...]:
    meta = source.meta
    return meta.lineage, meta.applied, meta.records, meta.digest.to_bytes(16, "big"), source.last_txid


class Second:
    """Another process, with the keys from ``start`` (inclusive) to ``stop`` (exclusive)."""

    def __init__(
        self, instance: Instance, target: Target, matcher: Matcher, size: int, start: bytes | None, stop: bytes | None
    ) -> None:
        self.start, self.stop = start, stop
        import tempfile

        self._results = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()
        self._child = 0
        with suppress(OSError):
            self._child = os.fork()
            if self._child == 0:
                self._work(instance, target, matcher, size)

    def _work(self, instance: Instance, target: Target, matcher: Matcher, size: int) -> None:
        """What the second process does; it never returns."""
        status = 1
        import gc

        # It lives for one scan, and looking for cycles among everything that it inherited would copy those pages.
        gc.disable()
        try:
            with closing(open_source(instance, target, None)) as opened:
                source = opened.stored
                assert source is not None
                marshal.dump(_state(source), self._results)
                counts = QueryStatistics(source.topic, source.message_type)
                marks = matcher.marks(source.meta.records)
                runs = source.runs(min(size, READ), self.start, self.stop, marks)
                for pairs in filtered(runs, matcher, counts, min(size, DECODED)):
                    marshal.dump(pairs, self._results)
                marshal.dump((counts.examined, counts.matched, source.scanned), self._results)
            self._results.flush()
            status = 0
        finally:
            # Without a word, and without what Python does at the end: all of that is the first process's.
            os._exit(status)

    def succeeded(self, source: StoredSource) -> bool:
        """Wait for the end of the process: whether it saw what ``source`` shows, and read all of it."""
        if not self._child:
            return False
        child, self._child = self._child, 0
        if os.waitpid(child, 0)[1]:
            return False
        self._results.seek(0)
        return bool(marshal.load(self._results) == _state(source))

    def results(self, source: StoredSource, counts: QueryStatistics) -> Iterator[Pairs]:
        """What the process found; then its counts are added."""
        while len(item := marshal.load(self._results)) == 2:
            yield item
        counts.examined += item[0]
        counts.matched += item[1]
        source.scanned += item[2]

    def end(self) -> None:
        """End the process, should it still run, and forget its results."""
        child, self._child = self._child, 0
        if child:
            import signal

            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)
        self._results.close()
