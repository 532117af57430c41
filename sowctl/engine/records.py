"""Records as the verbs return them: batches of stored values, decoded when they are accessed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from struct import unpack
from typing import TYPE_CHECKING, Any

from sowctl.messages.base import find_exact_view, is_own_view, replaces_bytes, select_all
from sowctl.store.codec import (
    CORRELATION_FLAG,
    CRC_SIZE,
    HEADER_SIZE,
    LOGICAL_TOPIC_FLAG,
    USER_KEY_FLAG,
    count_optional_bytes,
    decode_record,
    extract_payloads,
    read_expiration,
    read_logical_topic,
    read_plain_stamps,
    read_stamps,
)
from sowctl.values.display import format_count
from sowctl.values.times import to_datetime, to_expiry_datetime
from sowctl.values.topicref import TopicRef

if TYPE_CHECKING:
    from datetime import datetime

    from sowctl.messages.base import MessageType, SelectList


class StoredRecord:
    """One record: an 8-byte key and its stored value. ``payload`` may be the result of a select list."""

    __slots__ = ("key", "payload", "value")

    def __init__(self, key: bytes, value: bytes, payload: bytes | None = None) -> None:
        self.key = key
        self.value = value
        self.payload = value[HEADER_SIZE + count_optional_bytes(value) : -CRC_SIZE] if payload is None else payload

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.sow_key}, {self.payload!r})"

    @property
    def has_data(self) -> bool:
        """True: every record has a message to show."""
        return True

    @property
    def sow_key(self) -> int:
        """The SOW key as a number."""
        return int.from_bytes(self.key, "big")

    @property
    def txid(self) -> int:
        """The txid of the entry that wrote it."""
        return read_stamps(self.value)[0]

    @property
    def timestamp(self) -> int:
        """Time of publication, microseconds UTC."""
        return read_stamps(self.value)[1]

    @property
    def published_at(self) -> datetime:
        """``timestamp`` as a datetime in UTC."""
        return to_datetime(self.timestamp)

    @property
    def expiration(self) -> int:
        """Time of expiration, microseconds UTC; 0 is never."""
        return read_expiration(self.value)

    @property
    def expires_at(self) -> datetime | None:
        """``expiration`` as a datetime in UTC; None is never."""
        return to_expiry_datetime(self.expiration)

    @property
    def bookmark(self) -> str | None:
        """None: a record of a SOW query has no bookmark."""
        return None

    @property
    def user_key(self) -> str | None:
        """The key that its publisher chose, if any."""
        return self._read_text(USER_KEY_FLAG)

    @property
    def correlation_id(self) -> str | None:
        """The publisher's correlation id."""
        return self._read_text(CORRELATION_FLAG)

    @property
    def logical_topic(self) -> str | None:
        """The logical topic that it was published to, None if its topic has none."""
        name = read_logical_topic(self.value) if self.value[0] & LOGICAL_TOPIC_FLAG else None
        return None if name is None else name.decode("utf-8", "replace")

    @property
    def extra(self) -> Mapping[str, Any] | None:
        """The publisher's key and the logical topic, if the record has any."""
        if not self.value[0] & (USER_KEY_FLAG | LOGICAL_TOPIC_FLAG):
            return None
        return {"user_key": self.user_key, "topic": self.logical_topic}

    def _read_text(self, flag: int) -> str | None:
        if not self.value[0] & flag:
            return None
        record = decode_record(self.key, self.value)
        raw = record.user_key if flag == USER_KEY_FLAG else record.correlation_id
        return None if raw is None else raw.decode("utf-8", "replace")


class RecordBatch:
    """Records of one topic, in the order of the result: ``keys``, stored ``values`` and ``payloads`` in parallel.

    ``view`` renders a payload as one line of JSON, ``members_view`` as an object with the members that columns show
    (``sowctl.output.columns``). A caller that needs only payloads creates no record objects.
    """

    __slots__ = ("_kind", "_records", "keys", "payloads", "topic", "values")
    shown = None

    def __init__(
        self,
        topic: str,
        kind: MessageType,
        keys: Sequence[bytes],
        values: Sequence[bytes],
        payloads: Sequence[bytes],
    ) -> None:
        self.topic = topic
        self.keys = keys
        self.values = values
        self.payloads = payloads
        self._kind = kind
        self._records: Sequence[StoredRecord] | None = None

    def __repr__(self) -> str:
        return f"<{format_count(len(self), 'record')} of {self.topic!r}>"

    @property
    def message_type(self) -> str:
        """The name of the message type."""
        return self._kind.name

    @property
    def ref(self) -> TopicRef:
        """Topic name and message type."""
        return TopicRef(self.topic, self._kind.name)

    @property
    def view(self) -> Callable[[bytes], bytes]:
        """The function that renders a payload as one line of JSON."""
        return self._kind.view

    @property
    def members_view(self) -> Callable[[bytes], bytes]:
        """The function that renders a payload as an object with the members that columns show."""
        return self._kind.members_view

    @property
    def repeatable(self) -> bool:
        """True if a field with one value may be a list of one (:attr:`MessageType.repeatable`)."""
        return self._kind.repeatable

    @property
    def is_own_view(self) -> bool:
        """True if payloads are their own JSON views."""
        return is_own_view(self._kind)

    @property
    def replaces_bytes(self) -> bool:
        """True if views may have U+FFFD instead of bytes that are not UTF-8."""
        return replaces_bytes(self._kind)

    @property
    def exact_view(self) -> Callable[[bytes], bytes] | None:
        """The function that renders a payload as an object, with words for NaN and infinities; None if the type has
        none."""
        return find_exact_view(self._kind)

    @property
    def records(self) -> Sequence[StoredRecord]:
        """The records as objects."""
        if self._records is None:
            self._records = list(map(StoredRecord, self.keys, self.values, self.payloads))
        return self._records

    def read_metadata_columns(self) -> tuple[Sequence[int], ...] | None:
        """Return SOW keys, times, expirations and txids as columns; None if a record has optional parts."""
        found = read_plain_stamps(self.values)
        if found is None:
            return None
        txids, times, expirations = found
        return unpack(f">{len(self.keys)}Q", b"".join(self.keys)), times, expirations, txids

    def select_fields(self, select_list: SelectList) -> RecordBatch:
        """Return a batch of these records with a select list applied to their payloads. Raises InputError."""
        kept = select_all(self._kind, self.payloads, select_list)
        return RecordBatch(self.topic, self._kind, self.keys, self.values, kept)

    def __len__(self) -> int:
        return len(self.keys)


def build_record_batch(topic: str, kind: MessageType, keys: Sequence[bytes], values: Sequence[bytes]) -> RecordBatch:
    """Return a batch of stored records, unchanged."""
    return RecordBatch(topic, kind, keys, values, extract_payloads(values))
