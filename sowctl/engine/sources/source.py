"""The protocols of all readable states of a topic, whatever they are made of (principles 2 and 5).

:class:`Source` is what verbs ask. :class:`StoredSource` is the present state as a store has it, for what needs more
than records: indexes, counts, marked runs, further processes. Implemented by the modules of this room alone; no caller
asks for the class of a source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from sowctl.store.read import LineBatch, Run
from sowctl.values.topicref import TopicRef

if TYPE_CHECKING:
    from pathlib import Path

    from sowctl.config.model import TopicConfig
    from sowctl.engine.fold.memtable import Memtable
    from sowctl.store.codec import Offsets
    from sowctl.store.integrity import Marks
    from sowctl.store.meta import Definition, StoreMeta
    from sowctl.store.snapshot import Snapshot

Pairs = tuple[list[bytes], list[bytes]]
"""Keys and stored values, in parallel."""
MatchedPairs = tuple[list[bytes], Sequence[bytes]]
"""Keys and stored values; these may be cut out of larger pieces only when they are asked for (``codec.LazyValues``)."""


class Source(Protocol):
    """A readable state of one topic at one instant, without what has expired. Close it after use.

    ``topic`` is the name that records are shown under: of a narrowed Pattern topic, that of its logical topic.
    """

    topic: str
    message_type: str

    @property
    def ref(self) -> TopicRef:
        """``topic`` and message type."""
        return TopicRef(self.topic, self.message_type)

    @property
    def definition(self) -> Definition:
        """Message type and keys, as the store has them that the records are of."""
        ...

    @property
    def stored_source(self) -> StoredSource | None:
        """Itself where it is the present state of a whole store; None where records can only be read one after the
        other or by key: the past, and a part of the logical topics of a store."""
        return None

    @property
    def base_source(self) -> Source:
        """The source that is read for this one: that of the whole topic for some of its logical topics, else itself."""
        return self

    def read_batches(self, size: int) -> Iterator[Pairs]:
        """All visible records in key order."""
        return self.read_part(size)

    def read_part(self, size: int, start: bytes | None = None, stop: bytes | None = None) -> Iterator[Pairs]:
        """The visible records from ``start`` (inclusive) to ``stop`` (exclusive), in key order."""
        ...

    def find_records(self, keys: Sequence[bytes]) -> Pairs:
        """The visible records of ``keys``, in key order."""
        ...

    def find_many_records(self, keys: Sequence[bytes]) -> MatchedPairs:
        """As :meth:`find_records`, for many keys in order, where numpy is loaded."""
        return self.find_records(keys)

    def close(self) -> None:
        """Let go of the snapshot."""
        ...


class StoredSource(Source, Protocol):
    """The present state of a whole store: what indexes, counts and further processes ask besides.

    ``path`` is that of the store, None if it lives only as long as this source; ``hides``: records may have expired;
    ``scanned`` counts the store's records that :meth:`Source.read_part` and :meth:`read_runs` have passed;
    ``processes`` is how many read a part of its keys each.
    """

    config: TopicConfig | None
    path: Path | None
    meta: StoreMeta
    memtable: Memtable | None
    hides: bool
    scanned: int
    processes: int

    @property
    def snapshot(self) -> Snapshot:
        """The store's snapshot, without what the journal holds behind it."""
        ...

    @property
    def last_txid(self) -> int:
        """The highest txid that this state contains."""
        ...

    def read_runs(
        self, size: int, start: bytes | None = None, stop: bytes | None = None, marks: Marks | None = None
    ) -> Iterator[Run]:
        """Yield the visible records, with the marked bytes in which a batch's values stand, if there are.

        The caller asks :func:`~sowctl.store.integrity.require_full_length` of the values that it takes apart.
        """
        ...

    def read_lines(self, size: int) -> Iterator[LineBatch] | None:
        """Yield all visible records, as lines of text wherever the store's file shows them so.

        None where a scan is the way.
        """
        ...

    def count_visible(self) -> int:
        """Count the visible records."""
        ...

    def read_at_offsets(self, keys: Sequence[bytes], locations: Offsets) -> MatchedPairs:
        """As :meth:`Source.find_records`, for keys in order that no memtable holds and whose values lay at
        ``locations``.
        """
        ...


def build_bare_runs(pairs: Iterable[Pairs]) -> Iterator[Run]:
    """Yield batches whose values are not in one run of bytes."""
    return ((keys, values, None) for keys, values in pairs)
