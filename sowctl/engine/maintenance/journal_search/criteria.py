"""Criteria of a search, tested on a block's header, its map, its columns, and then its payloads.

Each test costs more than the previous one, so a block that fails one test is not tested further.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from sowctl.journal.columns import may_match_entries
from sowctl.journal.entries import LOGICAL_TOPICS_FLAG
from sowctl.journal.format import UNKEYED_FLAG
from sowctl.journal.limits import JOURNAL_LIMITS
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from sowctl.journal.block import Block
    from sowctl.journal.blockcodec import BlockHeader, BlockMap
    from sowctl.journal.files import BlockRef
    from sowctl.values.topicref import TopicRef


class Criteria(DescribedStruct, frozen=True):
    """The criteria of entries; None accepts all. Times in microseconds UTC, all bounds inclusive.

    ``names`` are topics, including logical ones. ``keys`` are SOW keys (8 bytes) in any topic, ``named`` those in one
    topic; an entry must have a key of either. ``client`` is the hash of a client name, ``operations`` codes.
    """

    names: frozenset[str] | None = None
    message_type: str | None = None
    keys: frozenset[bytes] | None = None
    named: Mapping[TopicRef, frozenset[bytes]] = {}
    client: int | None = None
    operations: bytes | None = None
    from_time: int | None = None
    to_time: int | None = None
    from_txid: int | None = None
    to_txid: int | None = None

    @property
    def all_keys(self) -> Sequence[bytes] | AbstractSet[bytes] | None:
        """All wanted keys, whatever their topic; None without a criterion. A set if they are looked up together."""
        if self.keys is None:
            return None
        keys = self.keys.union(*self.named.values())
        return keys if len(keys) > JOURNAL_LIMITS.max_single_lookups else sorted(keys)

    def matches_header(self, header: BlockHeader) -> bool:
        """Return whether a block with this header may have such entries. The reader applies bounds of txids."""
        return not (
            (self.from_time is not None and header.latest < self.from_time)
            or (self.to_time is not None and header.earliest > self.to_time)
        )

    def matches_map(self, header: BlockHeader, names: BlockMap) -> bool:
        """Return whether a block with this map may have such entries."""
        if self.client is not None and all(row.hash != self.client for row in names.publishers):
            return False
        # Logical topics are in the entries, not in the map.
        if self.names is not None and not header.flags & LOGICAL_TOPICS_FLAG:
            return any(self._matches_topic(row.topic) for row in names.topic_rows)
        return self.message_type is None or any(row.topic.message_type == self.message_type for row in names.topic_rows)

    @property
    def needs_columns(self) -> bool:
        """Return whether it pays to test the columns before the whole block is read."""
        return self.keys is not None or self.operations is not None

    def matches_columns(self, ref: BlockRef, keys: Sequence[bytes] | AbstractSet[bytes] | None) -> bool:
        """Return whether the columns of a block may be those of such entries; ``keys``: the wanted keys that it may
        have.

        Raises DamageError ``SOW-JRN-010``.
        """
        try:
            return may_match_entries(ref.read_raw_columns(), ref.header.count, keys, self.operations)
        except ValueError as error:
            raise ref.damage_error() from error

    def _matches_topic(self, topic: TopicRef) -> bool:
        return topic.name in (self.names or ()) and self.message_type in (None, topic.message_type)

    def find_places(self, block: Block) -> list[int]:
        """Return the indexes of the matching entries of a block, ascending."""
        import numpy as np

        columns = block.decode_numpy_columns()
        count, first = len(block), block.first_txid
        low = 0 if self.from_txid is None else min(max(0, self.from_txid - first), count)
        high = count if self.to_txid is None else min(max(0, self.to_txid + 1 - first), count)
        found = np.zeros(count, dtype=bool)
        found[low:high] = True
        if self.names is not None or self.message_type is not None:
            found &= self._mask_topics(block, columns)
        if self.client is not None:
            whom = [index for index, (who, _) in enumerate(block.publishers) if who == self.client]
            found &= np.isin(columns.publisher_indexes, whom)
        if self.operations is not None:
            found &= np.isin(columns.operations, list(self.operations))
        if self.from_time is not None:
            found &= columns.times >= self.from_time
        if self.to_time is not None:
            found &= columns.times <= self.to_time
        if self.keys is not None:
            found &= self._mask_keys(block, columns)
        places: list[int] = found.nonzero()[0].tolist()
        return places

    def _mask_topics(self, block: Block, columns: Any) -> Any:
        import numpy as np

        kinds = [self.message_type in (None, kind) for _, kind in block.topic_refs]
        if self.names is None:
            return np.array(kinds)[columns.topic_indexes]
        # Matched by its topic or by its logical topic; the type must match in both cases.
        found = np.array([self._matches_topic(topic) for topic in block.topic_refs])[columns.topic_indexes]
        if columns.logical_topics is not None:
            named = {name.encode() for name in self.names}
            found = found | np.array([text in named for text in columns.logical_topics])
        return found & np.array(kinds)[columns.topic_indexes]

    def _mask_keys(self, block: Block, columns: Any) -> Any:
        import numpy as np

        assert self.keys is not None
        # Keys are compared in their byte order in memory: numpy's search rejects numbers of another byte order.
        keys = columns.keys.view("=u8")
        found = np.isin(keys, _encode_key_numbers(self.keys))
        for index, topic in enumerate(block.topic_refs):
            if topic in self.named:
                found |= (columns.topic_indexes == index) & np.isin(keys, _encode_key_numbers(self.named[topic]))
        # The key field of an entry without a SOW key is not a key.
        return found & ((columns.flags & UNKEYED_FLAG) == 0)


def _encode_key_numbers(keys: frozenset[bytes]) -> Any:
    import numpy as np

    return np.frombuffer(b"".join(keys), dtype="=u8")
