"""Another process that filters a part of the keys, for a scan that is large enough.

It is a fork. LMDB must not be used across one, so the first process closes the store before it, and both open it then;
what the second found counts only if both see the same state. What matches in its part goes through a temporary file, so
that neither waits for the other. Whatever goes wrong there, the first process reads that part, and so raises the first
error in key order, as it would alone. Called by :mod:`sowctl.engine.search.scan`.
"""

from __future__ import annotations

import gc
import marshal
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from sowctl.engine.reports import QueryStatistics
from sowctl.engine.search.filtering import DECODED, READ, filtered
from sowctl.engine.sources.opening import open_source
from sowctl.engine.sources.source import Pairs, StoredSource

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.search.matcher import Matcher
    from sowctl.engine.topics.targets import Target


def _state(source: StoredSource) -> tuple[Any, ...]:
    meta = source.meta
    return meta.lineage, meta.applied, meta.records, meta.digest.to_bytes(16, "big"), source.last_txid


class Second:
    """Another process, with the keys from ``start`` (inclusive) to ``stop`` (exclusive)."""

    def __init__(
        self, instance: Instance, target: Target, matcher: Matcher, size: int, start: bytes | None, stop: bytes | None
    ) -> None:
        self.start, self.stop = start, stop
        self._results = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()
        self._child = 0
        with suppress(OSError):
            self._child = os.fork()
            if self._child == 0:
                self._work(instance, target, matcher, size)

    def _work(self, instance: Instance, target: Target, matcher: Matcher, size: int) -> None:
        """What the second process does; it never returns."""
        status = 1
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
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)
        self._results.close()
