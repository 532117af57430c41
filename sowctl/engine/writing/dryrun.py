"""A topic in a dry run: reads as a writer does, keeps new records in its memtable, and changes no file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from sowctl.engine.fold.memtable import Memtable
from sowctl.engine.sources.current import open_current_source
from sowctl.engine.topics.expiration import can_expire
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
        self.memtable = Memtable()
        self.ref = config.ref
        self.journalled = config.journalled
        self.expires = can_expire(config.expiration)
        self.last_txid = 0
        self.last_time = 0
        try:
            with closing(open_current_source(instance, config)) as source:
                self.last_txid = source.last_txid
                # A dry run refuses the same messages as a run, so it needs the topic's last time as a writer sees it.
                behind = source.memtable.last_time if source.memtable is not None else 0
                self.last_time = max(source.meta.last_time, behind)
        except MissingError:
            pass

    @property
    def is_volatile(self) -> bool:
        """Return whether a run would lose the written messages when its session ends."""
        return is_volatile(self.config)

    def refresh(self, instance: Instance, journal: JournalWriter) -> None:
        """Do nothing: a dry run takes no lock, and each read opens the current state of the topic."""

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def read_live_values(self, keys: Iterable[bytes], now: int) -> dict[bytes, bytes]:
        """Return the live values of ``keys``, as earlier batches of this run left them, otherwise the stored ones."""
        wanted = set(keys)
        fresh = {key: value for key in wanted if (value := self.memtable.current_changes.get(key)) is not None}
        # A source is opened for each read: a snapshot held by a dry run would prevent the reuse of pages.
        rest = [key for key in wanted if key not in self.memtable.current_changes]
        try:
            with closing(open_current_source(self.instance, self.config, now=now)) as source:
                return fresh | dict(zip(*source.find_records(rest), strict=True))
        except MissingError:
            return fresh

    is_columnar = False

    def get_column_writer(self, count: int) -> None:
        """Return None: a dry run keeps new records as values."""

    def scan(self, size: int, now: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """Yield all live records in key order, without those that the dry run would have written."""
        try:
            with closing(open_current_source(self.instance, self.config, now=now)) as source:
                yield from source.read_batches(size)
        except MissingError:
            return
