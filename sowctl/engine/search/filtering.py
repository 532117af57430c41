"""Records as they are read, by a filter: what cannot match is left out before anything is decoded.

Called by :mod:`sowctl.engine.search.scan` and :mod:`sowctl.engine.search.secondprocess` for a part of the keys each,
and for what is no scan of a store. Ruled by ``behaviour`` 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from sowctl.errors import SowError
from sowctl.store.integrity import refuse_short

if TYPE_CHECKING:
    from sowctl.engine.reports import QueryStatistics
    from sowctl.engine.search.matcher import Matcher
    from sowctl.engine.sources.source import Pairs
    from sowctl.store.read import Run

READ = 400
"""Records read at a time: so many are searched in one go, and what is made of them stays in the processor's caches."""
DECODED = 400
"""Records decoded at a time, where only some of those read may match."""


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
