"""Appending to a journal under its lock (``sow-journal(5)``, "Writing")."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sowctl.journal.block import Block, Position, TailReport, TopicState
from sowctl.journal.format import CODEC_ZSTD, Topic
from sowctl.journal.group import Group
from sowctl.seam import SEAM, Seam


class JournalWriter:
    """One appender. Nothing is opened for writing, cut or created before the first :meth:`lock`."""

    @classmethod
    def open(
        cls,
        directory: Path,
        instance: str,
        *,
        seam: Seam = SEAM,
        journal_size: int = 1 << 30,
        codec: int = CODEC_ZSTD,
        lock_wait: float = 10.0,
        now: int,
        random: bytes,
        first_txid_floor: int = 0,
        acknowledged: int = 0,
        holder: str = "sowctl",
    ) -> JournalWriter:
        """``now`` microseconds UTC, ``random`` 16 bytes for a new lineage, ``lock_wait`` seconds.

        ``first_txid_floor``: a new journal starts above it. ``acknowledged``: highest txid that any store applied.
        ``holder`` is what the lock file says is running.
        """
        raise NotImplementedError

    lineage: bytes
    last_txid: int
    synced_txid: int
    """Everything up to it is on disk."""

    tail_report: TailReport | None
    """What the last :meth:`lock` found torn or unfinished, and put right."""

    @contextmanager
    def lock(self) -> Iterator[JournalWriter]:
        """Hold the journal for one batch; on entry catches up with what others appended, on exit syncs what is not.

        Raises LockedError ``SOW-JRN-030``, StorageError, DamageError.
        """
        raise NotImplementedError

    def refresh(self) -> list[Block]:
        """The blocks that others appended since the last call (the first time: since the writer's first lock)."""
        raise NotImplementedError

    def append(self, group: Group, now: int, *, last: bool = True) -> tuple[int, int]:
        """Write a group; returns its first and last txid. Not acknowledged before :meth:`sync`.

        With ``last=False`` the group stays open and the next append goes on with it. Raises StorageError
        ``SOW-JRN-021`` (the writer is of no more use then), LimitError.
        """
        raise NotImplementedError

    def sync(self) -> None:
        """Put everything that was appended on disk: this acknowledges it. Raises StorageError ``SOW-JRN-021``."""
        raise NotImplementedError

    def abort(self) -> None:
        """End an open group so that it has not happened; its txids stay used."""
        raise NotImplementedError

    def end(self) -> Position:
        """The position behind the last complete group."""
        raise NotImplementedError

    def topic_state(self, topic: Topic) -> TopicState:
        """The last entry of a topic, as of the last lock and own appends."""
        raise NotImplementedError

    def highest_sequence(self, publisher: int) -> int:
        """Highest sequence of a publisher (hash of its client name), 0 for none."""
        raise NotImplementedError

    def close(self) -> None:
        """Write the topics file and close; nothing unsynced is left behind by a lock that was released."""
        raise NotImplementedError
