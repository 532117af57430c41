"""The protocols of all readable states of a topic (principles 2 and 5).

:class:`Source` is the interface for verbs. :class:`StoredSource` is the current state of a store, for callers that need
more than records: indexes, counts, marked runs, further processes. Only modules of this package implement them; no
caller checks the class of a source.
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
"""Keys and stored values; the values may be decoded from larger pieces only when accessed (``codec.LazyValues``)."""


class Source(Protocol):
    """A readable state of one topic at one instant, without expired records. Close it after use.

    ``topic`` is the displayed name of the records: of a narrowed Pattern topic, that of its logical topic.
    """

    topic: str
    message_type: str

    @property
    def ref(self) -> TopicRef:
        """Topic name and message type."""
        return TopicRef(self.topic, self.message_type)

    @property
    def definition(self) -> Definition:
        """Message type and keys of the records, as the store defines them."""
        ...

    @property
    def stored_source(self) -> StoredSource | None:
        """This source if it is the current state of a whole store; None if records can only be scanned or read by key:
        past states, and a part of the logical topics of a store."""
        return None

    @property
    def base_source(self) -> Source:
        """The source that this one reads: that of the whole topic for some of its logical topics, else itself."""
        return self

    def read_batches(self, size: int) -> Iterator[Pairs]:
        """Yield all visible records in key order."""
        return self.read_part(size)

    def read_part(self, size: int, start: bytes | None = None, stop: bytes | None = None) -> Iterator[Pairs]:
        """Yield the visible records from ``start`` (inclusive) to ``stop`` (exclusive), in key order."""
        ...

    def find_records(self, keys: Sequence[bytes]) -> Pairs:
        """Return the visible records of ``keys``, in key order."""
        ...

    def find_many_records(self, keys: Sequence[bytes]) -> MatchedPairs:
        """As :meth:`find_records`, for many keys in order, if numpy is loaded."""
        return self.find_records(keys)

    def close(self) -> None:
        """Close the snapshot."""
        ...


class StoredSource(Source, Protocol):
    """The current state of a whole store, with the attributes that indexes, counts and further processes need.

    ``path`` is that of the store, None for a temporary store of this source; ``hides``: records may have expired;
    ``scanned`` counts the store's records that :meth:`Source.read_part` and :meth:`read_runs` have passed;
    ``processes``: the number of processes that each read a part of its keys.
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
        """The store's snapshot, without later changes in the journal."""
        ...

    @property
    def last_txid(self) -> int:
        """The highest txid that this state includes."""
        ...

    def read_runs(
        self, size: int, start: bytes | None = None, stop: bytes | None = None, marks: Marks | None = None
    ) -> Iterator[Run]:
        """Yield the visible records, with the marked bytes of a batch's values if available.

        The caller checks the values that it decodes with :func:`~sowctl.store.integrity.require_full_length`.
        """
        ...

    def read_lines(self, size: int) -> Iterator[LineBatch] | None:
        """Yield all visible records, as lines of text where the store's file has them in this form.

        None if a scan is required.
        """
        ...

    def count_visible(self) -> int:
        """Return the number of visible records."""
        ...

    def read_at_offsets(self, keys: Sequence[bytes], locations: Offsets) -> MatchedPairs:
        """As :meth:`Source.find_records`, for ordered keys that no memtable has and whose values were at
        ``locations``."""
        ...


def build_bare_runs(pairs: Iterable[Pairs]) -> Iterator[Run]:
    """Yield batches whose values are not in one run of bytes."""
    return ((keys, values, None) for keys, values in pairs)
