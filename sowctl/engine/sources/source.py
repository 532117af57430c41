"""What all readable states of a topic have in common, whatever they are made of (principles 2 and 5).

:class:`Source` is what verbs ask. :class:`StoredSource` is the present state as a store has it, for what needs more
than records: indexes, counts, marked runs, further processes. Implemented by the modules of this room alone; no caller
asks for the class of a source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from sowctl.store.read import LinedBatch, Run

if TYPE_CHECKING:
    from pathlib import Path

    from sowctl.config.model import TopicConfig
    from sowctl.engine.fold.overlay import Overlay
    from sowctl.store.codec import Offsets
    from sowctl.store.integrity import Marks
    from sowctl.store.meta import Definition, StoreMeta
    from sowctl.store.snapshot import Snapshot

Pairs = tuple[list[bytes], list[bytes]]
"""Keys and stored values, in parallel."""
Matched = tuple[list[bytes], Sequence[bytes]]
"""Keys and stored values; these may be cut out of larger pieces only when they are asked for (``codec.Uncut``)."""


class Source(Protocol):
    """A readable state of one topic at one instant, without what has expired. Close it after use.

    ``topic`` is the name that records are shown under: of a narrowed Pattern topic, that of its logical topic.
    """

    topic: str
    message_type: str

    @property
    def definition(self) -> Definition:
        """Message type and keys, as the store has them that the records are of."""
        ...

    @property
    def stored(self) -> StoredSource | None:
        """Itself where it is the present state of a whole store; None where records can only be read one after the
        other or by key: the past, and a part of the logical topics of a store."""
        return None

    @property
    def base(self) -> Source:
        """The source that is read for this one: that of the whole topic for some of its logical topics, else itself."""
        return self

    def batches(self, size: int) -> Iterator[Pairs]:
        """All visible records in key order."""
        return self.part(size)

    def part(self, size: int, start: bytes | None = None, stop: bytes | None = None) -> Iterator[Pairs]:
        """The visible records from ``start`` (inclusive) to ``stop`` (exclusive), in key order."""
        ...

    def lookup(self, keys: Sequence[bytes]) -> Pairs:
        """The visible records of ``keys``, in key order."""
        ...

    def close(self) -> None:
        """Let go of the snapshot."""
        ...


class StoredSource(Source, Protocol):
    """The present state of a whole store: what indexes, counts and further processes ask besides.

    ``path`` is that of the store, None if it lives only as long as this source; ``hides``: records may have expired;
    ``scanned`` counts the store's records that :meth:`Source.part` and :meth:`runs` have passed;
    ``processes`` is how many read a part of its keys each.
    """

    config: TopicConfig | None
    path: Path | None
    meta: StoreMeta
    overlay: Overlay | None
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

    def runs(
        self, size: int, start: bytes | None = None, stop: bytes | None = None, marks: Marks | None = None
    ) -> Iterator[Run]:
        """What :meth:`Source.part` yields, with the marked bytes in which all values of a batch stand, if there are.

        The caller asks :func:`~sowctl.store.integrity.refuse_short` of the values that it takes apart.
        """
        ...

    def lined(self, size: int) -> Iterator[LinedBatch] | None:
        """What :meth:`Source.part` yields of all records, as lines of text wherever the store's file shows them so.

        None where a scan is the way. Raises ImportError without numpy.
        """
        ...

    def visible_records(self) -> int:
        """How many records there are to see."""
        ...

    def at_spots(self, keys: Sequence[bytes], spots: Offsets) -> Matched:
        """As :meth:`Source.lookup`, for keys in order that no overlay holds and whose values lay at ``spots``."""
        ...


def alone(pairs: Iterable[Pairs]) -> Iterator[Run]:
    """Batches whose values stand in no run of bytes."""
    return ((keys, values, None) for keys, values in pairs)
