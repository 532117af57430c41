"""A bookmark store in a SOW topic with the Keys /clientName and /subId: a row for each subscription (``behaviour`` 9).

A row is a message of three fields. Rows are published and deleted like other messages, with functions that the caller
passes, because the verbs are in a higher layer. Only the position is kept, so messages acknowledged after it are
delivered again after a restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, ClassVar, Protocol

from sowctl.engine.sources.opener import open_present_source
from sowctl.engine.subscriptions.bookmark_stores.protocol import (
    NOTHING_ACKNOWLEDGED,
    AcknowledgedMessages,
    BookmarkStore,
    PlaceAdvance,
    StoredPlace,
    Subscriber,
    build_lock_path,
)
from sowctl.engine.topics.positions import NO_STORE_CODE
from sowctl.engine.topics.targets import Target
from sowctl.errors import MissingError, UsageError
from sowctl.store.codec import decode_record, read_stamps
from sowctl.store.limits import STORE_LIMITS
from sowctl.values.fields import Slot
from sowctl.values.paths import Path, Step
from sowctl.values.scalars import to_text

if TYPE_CHECKING:
    from pathlib import Path as FilePath

    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance

ROW_FIELDS = ("clientName", "subId", "bookmark")
_REQUIRED_KEYS = {"/clientName", "/subId"}


class RowWriter(Protocol):
    """Writes rows: one message into a topic, durable on return."""

    def publish(self, instance: Instance, topic: TopicConfig, payload: bytes) -> None:
        """Publish a message."""
        ...

    def delete(self, instance: Instance, topic: TopicConfig, payload: bytes) -> None:
        """Delete the record with the key of a message."""
        ...


class TopicStore(BookmarkStore):
    """The store in ``topic`` of ``instance``, which may differ from the instance of the subscription.

    Raises UsageError ``SOW-BKM-005`` if the topic is not a bookmark store.
    """

    remembers: ClassVar[bool] = False

    def __init__(self, instance: Instance, topic: TopicConfig, verbs: RowWriter) -> None:
        self.instance = instance
        self.topic = topic
        self._verbs = verbs
        self._kind = instance.find_message_type(topic.message_type)
        keyed = topic.key_mode == "fields" and {str(path) for path in topic.keys} == _REQUIRED_KEYS
        if not keyed or not self._kind.constructible or self._kind.rooted:
            raise UsageError(
                "SOW-BKM-005",
                f"topic {topic.label!r} is not a bookmark store",
                hint="it requires the Keys /clientName and /subId, and a message type with fields, such as json",
                topic=topic.label,
            )

    def list_places(self) -> list[StoredPlace]:
        """Return all positions, without rows that lack a field."""
        return sorted(self._read_rows(), key=lambda row: row.who)

    def read_place(self, who: Subscriber) -> StoredPlace | None:
        """Return the position of one subscription."""
        return next((row for row in self._read_rows() if row.who == who), None)

    def read_acknowledged(self, who: Subscriber) -> AcknowledgedMessages:
        """Return no messages."""
        return NOTHING_ACKNOWLEDGED

    def set_place(self, who: Subscriber, bookmark: str) -> None:
        """Set a position."""
        self._verbs.publish(self.instance, self.topic, self._make_row_message(who, bookmark))

    def advance_place(self, who: Subscriber, step: PlaceAdvance) -> None:
        """Advance a position."""
        if step.bookmark is not None:
            self.set_place(who, step.bookmark)

    def remove_place(self, who: Subscriber) -> bool:
        """Delete a row."""
        if self.read_place(who) is None:
            return False
        self._verbs.delete(self.instance, self.topic, self._make_row_message(who, "0"))
        return True

    def find_lock_file(self, who: Subscriber) -> FilePath | None:
        """Return the path of the lock file: next to the topic's store, or in the journal's directory for a topic
        without a store file."""
        if self.topic.file is not None:
            return build_lock_path(self.topic.file, who)
        log = self.instance.log
        return None if log is None else build_lock_path(log.directory / "bookmarks", who, self.topic.label)

    @property
    def file(self) -> FilePath | None:
        """None: the store is in a topic."""
        return None

    def close(self) -> None:
        """Do nothing: no file is open between two calls."""

    def _make_row_message(self, who: Subscriber, bookmark: str) -> bytes:
        values = (who.client, who.sub_id, bookmark)
        return self._kind.build_message([((name,), value) for name, value in zip(ROW_FIELDS, values, strict=True)])

    def _read_rows(self) -> Iterator[StoredPlace]:
        extract = self._kind.build_extractor([Slot(Path((Step(name),)), text=True) for name in ROW_FIELDS])
        try:
            source = open_present_source(self.instance, Target(topic=self.topic))
        except MissingError as error:
            if error.code != NO_STORE_CODE:
                raise
            # Nothing has been published to the topic yet: an empty store.
            return
        with closing(source):
            for keys, values in source.read_batches(STORE_LIMITS.read_batch_records):
                read, _ = extract([decode_record(key, value).payload for key, value in zip(keys, values, strict=True)])
                for found, value in zip(read, values, strict=True):
                    client, sub_id, bookmark = ((to_text(value) or b"").decode("utf-8", "replace") for value in found)
                    if client and sub_id and bookmark:
                        yield StoredPlace(Subscriber(client, sub_id), bookmark, read_stamps(value)[1])
