"""Reading a journal without a lock and without changing a byte (``sow-journal(5)``, "Reading")."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from sowctl.journal.block import Block, Damage, FileInfo, Position, TailReport, TopicState
from sowctl.journal.format import Topic
from sowctl.seam import SEAM, Seam


class Journal:
    """An instance's journal as it is when asked; many may read while one writes."""

    @classmethod
    def exists(cls, directory: Path, instance: str) -> bool:
        """Whether there is at least one journal file."""
        raise NotImplementedError

    @classmethod
    def open(cls, directory: Path, instance: str, *, seam: Seam = SEAM, acknowledged: int = 0) -> Journal:
        """Open for reading. ``acknowledged`` is the highest txid that any store has applied (0: not known).

        Raises MissingError ``SOW-JRN-001`` where there is no file, and what the header of the last file deserves.
        """
        raise NotImplementedError

    lineage: bytes
    """16 bytes."""

    first_txid: int
    """The first txid that the files can hold (after pruning: above that of the lineage)."""

    tail_report: TailReport | None
    """What the last complete read skipped at the end; None before one, and where nothing was skipped."""

    def files(self) -> list[FileInfo]:
        """The files in order, headers checked. Raises DamageError for gaps and bad headers."""
        raise NotImplementedError

    def last_txid(self) -> int:
        """Last txid of the last complete (or aborted) group; ``first_txid - 1`` in an empty journal."""
        raise NotImplementedError

    def end(self) -> Position:
        """The position behind the last complete group."""
        raise NotImplementedError

    def topic_state(self, topic: Topic) -> TopicState:
        """The last entry of a topic, from the topics file and a scan of only what is behind it."""
        raise NotImplementedError

    def topics(self) -> dict[Topic, TopicState]:
        """The states of all topics that the journal knows."""
        raise NotImplementedError

    def highest_sequence(self, publisher: int) -> int:
        """Highest sequence of a publisher (hash of its client name), 0 for none."""
        raise NotImplementedError

    def blocks(
        self,
        after: int = 0,
        until: int | None = None,
        topic: Topic | None = None,
        start: Position | None = None,
    ) -> Iterator[Block]:
        """The blocks of complete groups with a txid above ``after`` and not above ``until``, in order.

        A block that straddles a bound is yielded whole. With ``topic``, blocks without it are passed over by their map
        alone. ``start`` is where to begin if it is a place between groups of this journal, else it only serves as
        ``after``. Raises DamageError (exit 5) with file, offset and txids.
        """
        raise NotImplementedError

    def salvage(self, after: int = 0, until: int | None = None, topic: Topic | None = None) -> Iterator[Block | Damage]:
        """As :meth:`blocks`, but yields a :class:`Damage` in the place of what is damaged and goes on behind it."""
        raise NotImplementedError

    def close(self) -> None:
        """Close files."""

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
