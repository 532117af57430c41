"""A topic for a dry run: reads as a writer would, keeps what would be written in its overlay, and touches no file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from sowctl.engine.fold.overlay import Overlay
from sowctl.engine.sources.current import open_current
from sowctl.engine.topics.expiration import expires
from sowctl.engine.writing.topicwriter import is_volatile
from sowctl.errors import MissingError

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.writer import JournalWriter


class DryRunWriter:
    """Looks records up through read-only sources; a topic without a store is empty."""

    def __init__(self, instance: Instance, config: TopicConfig) -> None:
        self.config = config
        self.instance = instance
        self.overlay = Overlay()
        self.ref = config.name, config.message_type
        self.journalled = config.journalled
        self.expires = expires(config.expiration)
        self.last_txid = 0
        self.last_time = 0
        try:
            with closing(open_current(instance, config)) as source:
                self.last_txid = source.last_txid
                # A dry run refuses what a run would refuse, so it needs the topic's last time as a writer would see it.
                behind = source.overlay.last_time if source.overlay is not None else 0
                self.last_time = max(source.meta.last_time, behind)
        except MissingError:
            pass

    @property
    def volatile(self) -> bool:
        """Whether nothing would keep what is written."""
        return is_volatile(self.config)

    def renew(self, instance: Instance, journal: JournalWriter) -> None:
        """A dry run takes no lock: it sees the topic as each look finds it."""

    def close(self) -> None:
        """Nothing stays open."""

    def stored(self, keys: Iterable[bytes], now: int) -> dict[bytes, bytes]:
        """The live values of ``keys``: those of this run's earlier batches first, else the present ones."""
        wanted = set(keys)
        fresh = {key: value for key in wanted if (value := self.overlay.current.get(key)) is not None}
        # A source is opened for each look, not held: a dry run keeps no snapshot that would stop pages from being used
        # again.
        rest = [key for key in wanted if key not in self.overlay.current]
        try:
            with closing(open_current(self.instance, self.config, now=now)) as source:
                return fresh | dict(zip(*source.lookup(rest), strict=True))
        except MissingError:
            return fresh

    columned = False

    def by_columns(self, count: int) -> None:
        """None: what a dry run would write is held as values."""

    def scan(self, size: int, now: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """All live records in key order; what the dry run would have written is not in it."""
        try:
            with closing(open_current(self.instance, self.config, now=now)) as source:
                yield from source.batches(size)
        except MissingError:
            return
