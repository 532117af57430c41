"""Counts of the matching records of a topic as of any txid: each state is computed from an earlier one.

A state has the keys of the matching records and their expirations, not the records. The next state needs only the
entries between the two: the last one of each key decides, and only its payload is tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sowctl.engine.fold.blocks import build_entry_mask
from sowctl.engine.topics.expiration import can_expire
from sowctl.journal.format import PUBLISH
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    import numpy

    from sowctl.config.model import TopicConfig
    from sowctl.engine.maintenance.journal_search.payloads import PayloadTest
    from sowctl.journal.block import Block
    from sowctl.journal.reader import Journal
    from sowctl.values.topicref import TopicRef

    Array = numpy.ndarray[Any, Any]


class MatchState(DescribedStruct, frozen=True):
    """The matching records after the entry ``txid``: their keys, ascending, and their expirations, in parallel.

    ``time`` is that of the topic's last entry up to there, 0 without one; ``count`` is the number of matches at that
    time.
    """

    txid: int
    time: int
    keys: Array
    expirations: Array
    count: int


class MatchCounter:
    """Counts the matching records of ``topic`` (of a Pattern topic: of its logical topic, if it names one).

    ``keys``: only records with one of these count. ``entries`` is the number of entries folded so far.
    """

    def __init__(
        self, log: Journal, topic: TopicConfig, test: PayloadTest, keys: frozenset[bytes] | None = None
    ) -> None:
        self.entries = 0
        self._log = log
        self._ref: TopicRef = topic.ref
        self._logical = topic.logical_name.encode() if topic.pattern is not None and topic.logical_name else None
        self._expires = can_expire(topic.expiration)
        self._test = test
        self._keys = keys

    def build_empty_state(self, txid: int) -> MatchState:
        """Return the state of a topic without records."""
        import numpy as np

        return MatchState(txid, 0, np.empty(0, "u8"), np.empty(0, "i8"), 0)

    def advance_state(self, state: MatchState, until: int) -> MatchState:
        """Return the state after the entry ``until``, which must not be before that of ``state``."""
        import numpy as np

        touched, txids, time = self._find_last_entries(state.txid, until)
        matched, expirations = self._select_matching(state.txid, until, np.sort(txids))
        # The new state is the old one, without all keys that the entries change, plus those of them that match at the
        # end.
        kept = ~np.isin(state.keys, touched)
        keys = np.concatenate((state.keys[kept], matched))
        ends = np.concatenate((state.expirations[kept], expirations))
        # Expiration is evaluated at the time of the last entry, which never decreases.
        time = max(time, state.time)
        gone = ((ends != 0) & (ends <= time)).sum() if self._expires else 0
        order = keys.argsort()
        return MatchState(until, time, keys[order], ends[order], len(keys) - int(gone))

    def _find_last_entries(self, after: int, until: int) -> tuple[Array, Array, int]:
        """Return the keys of the entries in a range, each with the txid of its last one; and the time of the last
        entry."""
        import numpy as np

        found: list[tuple[Array, Array]] = []
        time = 0
        for block, places in self._find_places(after, until):
            columns = block.decode_numpy_columns()
            found.append((columns.keys[places].astype("u8"), places + block.first_txid))
            self.entries += len(places)
            time = max(time, int(columns.times[places].max()))
        if not found:
            return np.empty(0, "u8"), np.empty(0, "i8"), time
        keys = np.concatenate([some for some, _ in found])[::-1]
        txids = np.concatenate([some for _, some in found])[::-1]
        # The first one in reversed order is the last entry of its key.
        distinct, first = np.unique(keys, return_index=True)
        return distinct, txids[first], time

    def _select_matching(self, after: int, until: int, winners: Array) -> tuple[Array, Array]:
        """Return keys and expirations of the entries ``winners``, ascending txids, that are matching records."""
        import numpy as np

        found: list[tuple[Array, Array]] = []
        for block, places in self._find_places(after, until) if len(winners) else ():
            low, high = winners.searchsorted(block.first_txid), winners.searchsorted(block.last_txid, side="right")
            columns = block.decode_numpy_columns()
            chosen = np.intersect1d(places, winners[low:high] - block.first_txid, assume_unique=True)
            chosen = chosen[columns.operations[chosen] == PUBLISH]
            if self._test.is_needed and len(chosen):
                chosen = np.array(self._test.select_places(block, chosen.tolist()), "i8")
            if len(chosen):
                found.append((columns.keys[chosen].astype("u8"), columns.expirations[chosen]))
        if not found:
            return np.empty(0, "u8"), np.empty(0, "i8")
        return np.concatenate([keys for keys, _ in found]), np.concatenate([ends for _, ends in found])

    def _find_places(self, after: int, until: int) -> Iterator[tuple[Block, Array]]:
        """Yield the blocks in a range of txids that have entries of the topic, with their indexes."""
        import numpy as np

        wanted = None if self._keys is None else np.frombuffer(b"".join(sorted(self._keys)), ">u8").astype("u8")
        for block in self._log.iter_blocks(after=after, until=until, topic=self._ref):
            mask = build_entry_mask(block, (self._ref,), after=after, until=until)
            places = np.arange(len(block)) if mask is None else mask.nonzero()[0]
            columns = block.decode_numpy_columns()
            if self._logical is not None:
                texts = columns.logical_topics
                places = np.array([at for at in places if texts is not None and texts[at] == self._logical], "i8")
            if wanted is not None and len(places):
                places = places[np.isin(columns.keys[places].astype("u8"), wanted)]
            if len(places):
                yield block, places
