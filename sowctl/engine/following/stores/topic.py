"""A bookmark store in a SOW topic with the Keys /clientName and /subId: a row for each subscription (``behaviour`` 9).

A row is a message of three fields, published and deleted as any other, by the functions that the caller hands in: the
verbs stand above this room. Nothing but the place is kept, so after a restart what was acknowledged behind it comes
again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, ClassVar, Protocol

from sowctl.engine.following.stores.protocol import (
    NOTHING_ACKNOWLEDGED,
    Advance,
    BookmarkStore,
    Memory,
    StoredPlace,
    Subscriber,
    lock_beside,
)
from sowctl.engine.sources.opening import open_now
from sowctl.engine.topics.targets import Target
from sowctl.errors import MissingError, UsageError
from sowctl.store.codec import decode, stamps
from sowctl.values.compare import text_of
from sowctl.values.fields import Slot
from sowctl.values.paths import Path, Step

if TYPE_CHECKING:
    from pathlib import Path as FilePath

    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance

ROW_FIELDS = ("clientName", "subId", "bookmark")
_REQUIRED_KEYS = {"/clientName", "/subId"}
_BATCH_RECORDS = 1000


class Verbs(Protocol):
    """How rows are written: one message into a topic, durable when it returns."""

    def publish(self, instance: Instance, topic: TopicConfig, payload: bytes) -> None:
        """Publish a message."""
        ...

    def delete(self, instance: Instance, topic: TopicConfig, payload: bytes) -> None:
        """Delete the record whose key a message has."""
        ...


class TopicStore(BookmarkStore):
    """The store in ``topic`` of ``instance``, which need not be the instance of the subscription.

    Raises UsageError ``SOW-BKM-005`` for a topic that is none.
    """

    remembers: ClassVar[bool] = False

    def __init__(self, instance: Instance, topic: TopicConfig, verbs: Verbs) -> None:
        self.instance = instance
        self.topic = topic
        self._verbs = verbs
        self._kind = instance.type_of(topic.message_type)
        keyed = topic.key_mode == "fields" and {str(path) for path in topic.keys} == _REQUIRED_KEYS
        if not keyed or not self._kind.constructible or self._kind.rooted:
            raise UsageError(
                "SOW-BKM-005",
                f"topic {topic.label!r} is not a bookmark store",
                hint="it requires the Keys /clientName and /subId, and a message type with fields, such as json",
                topic=topic.label,
            )

    def rows(self) -> list[StoredPlace]:
        """All places; rows in which something is missing are left out."""
        return sorted(self._read_rows(), key=lambda row: row.who)

    def get(self, who: Subscriber) -> StoredPlace | None:
        """One place."""
        return next((row for row in self._read_rows() if row.who == who), None)

    def memory(self, who: Subscriber) -> Memory:
        """Nothing."""
        return NOTHING_ACKNOWLEDGED

    def put(self, who: Subscriber, bookmark: str) -> None:
        """Set a place."""
        self._verbs.publish(self.instance, self.topic, self._make_row_message(who, bookmark))

    def advance(self, who: Subscriber, step: Advance) -> None:
        """Move a place on."""
        if step.bookmark is not None:
            self.put(who, step.bookmark)

    def purge(self, who: Subscriber) -> bool:
        """Delete a row."""
        if self.get(who) is None:
            return False
        self._verbs.delete(self.instance, self.topic, self._make_row_message(who, "0"))
        return True

    def lock_file(self, who: Subscriber) -> FilePath | None:
        """Beside the topic's store, else in the directory of the journal: one of both keeps the rows."""
        if self.topic.file is not None:
            return lock_beside(self.topic.file, who)
        log = self.instance.log
        return None if log is None else lock_beside(log.directory / "bookmarks", who, self.topic.label)

    @property
    def file(self) -> FilePath | None:
        """None: it is in a topic."""
        return None

    def close(self) -> None:
        """Nothing is open between two calls."""

    def _make_row_message(self, who: Subscriber, bookmark: str) -> bytes:
        values = (who.client, who.sub_id, bookmark)
        return self._kind.build([((name,), value) for name, value in zip(ROW_FIELDS, values, strict=True)])

    def _read_rows(self) -> Iterator[StoredPlace]:
        extract = self._kind.extractor([Slot(Path((Step(name),)), text=True) for name in ROW_FIELDS])
        try:
            source = open_now(self.instance, Target(topic=self.topic))
        except MissingError as error:
            if error.code != "SOW-ENG-010":
                raise
            # Nothing was published to it yet: an empty store.
            return
        with closing(source):
            for keys, values in source.batches(_BATCH_RECORDS):
                read, _ = extract([decode(key, value).payload for key, value in zip(keys, values, strict=True)])
                for found, value in zip(read, values, strict=True):
                    client, sub_id, bookmark = ((text_of(value) or b"").decode("utf-8", "replace") for value in found)
                    if client and sub_id and bookmark:
                        yield StoredPlace(Subscriber(client, sub_id), bookmark, stamps(value)[1])
