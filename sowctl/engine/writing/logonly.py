"""Topics that only the transaction log names: what is published to them goes into the journal and nowhere else.

They have no store, no keys and no records; an entry of theirs says so (``sow-journal(5)``, Columns). Publishing alone
comes here (``behaviour`` 11.32, C57); the verbs that read say that there is no SOW.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from sowctl.engine.fold.memtable import Memtable

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.block import TopicState
    from sowctl.journal.writer import JournalWriter


class LogWriter:
    """A topic that is nothing but its entries: it knows the last one's txid and time, and no record."""

    def __init__(self, config: TopicConfig, state: TopicState) -> None:
        self.config = config
        # Always empty: there are no records that anything could be laid over.
        self.memtable = Memtable()
        self.ref = config.ref
        self.journalled = True
        self.expires = False
        self.is_volatile = False
        self._set_last_entry(state)

    def _set_last_entry(self, state: TopicState) -> None:
        self.last_txid, self.last_time = state.last_txid, state.last_time

    def close(self) -> None:
        """Nothing is open."""

    def refresh(self, instance: Instance, journal: JournalWriter) -> None:
        """Take the txid and the time of the topic's last entry from the journal, whose lock was just taken."""
        self._set_last_entry(journal.find_topic_state(self.ref))

    def read_live_values(self, keys: Iterable[bytes], now: int) -> dict[bytes, bytes]:
        """No records."""
        return {}

    is_columnar = False

    def get_column_writer(self, count: int) -> None:
        """None: there are no records."""

    def scan(self, size: int, now: int) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """No records."""
        return iter(())
