"""Lines with records of Kafka or change events of Debezium, read as envelopes (``sowctl-publish(1)``, ENVELOPES).

``kafka``: an object per line, with the names of ``kcat -J``, Kafka Connect and the REST proxy: ``topic partition
offset``, ``key``, ``ts`` or ``timestamp`` (milliseconds since 1970), and ``payload`` or ``value``. A string is a
message as text, any other JSON is the message itself, null deletes the record of the key.

``debezium``: ``before after op source ts_ms``; create, update and read publish ``after``, delete deletes the record of
``before`` or, if that is null, as for MongoDB, the record of the key. Such an event may be inside a record of Kafka,
which has the key.

Messages may have the wrapper ``{"schema": ..., "payload": ...}`` of Kafka Connect's JSON converter. Other members are
ignored: brokers, headers and schema ids are no part of a message.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from sowctl.messages.base import PayloadRefused
from sowctl.messages.framing.envelope import (
    NO_DATA,
    NOT_AN_ENVELOPE,
    WRONG_KIND,
    Envelope,
    EnvelopeFormat,
    EnvelopeRefused,
    format_epoch,
)
from sowctl.messages.json.exact_reader import parse_members
from sowctl.messages.json.text import quote_string
from sowctl.values.depth import MAX_DEPTH
from sowctl.values.rawmembers import read_raw_members

UNSUPPORTED_EVENT = "SOW-INP-016"
DELETE_COMMAND = "sow_delete"
_MAX_WRAPPERS = 4
"""A record of Kafka, its value as a string, the wrapper of the converter, and the event."""
_NULL = b"null"
_UNKNOWN_TIME = "unknown"
_OPERATIONS = {"c": "after", "r": "after", "u": "after", "d": "before"}
_UNSUPPORTED = {
    "t": "it empties a table: sowctl delete TOPIC --filter '1 = 1'",
    "m": "it is a message of the database's log, not a row",
}
_FLAT_HINT = "flattened events (ExtractNewRecordState) are published without --envelope debezium"


class ForeignEnvelope(Envelope, gc=False):
    """Metadata of another system's record. A time before the latest of its topic is raised to that.

    ``record_key``: the key of a record without a message, as its text or as JSON: the record to delete.
    ``is_numbered``: client and sequence are partition and offset, so that each partition is a publisher of its own.
    """

    record_key: str | None = None
    is_numbered: bool = False


class _KafkaRecord(msgspec.Struct, gc=False):
    """A record of Kafka, as its tools print it."""

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    ts: int | None = None
    timestamp: int | str | None = None
    tstype: str | None = None
    key: msgspec.Raw = msgspec.Raw(b"")
    payload: msgspec.Raw = msgspec.Raw(b"")
    value: msgspec.Raw = msgspec.Raw(b"")
    payload_error: str | None = None


class _Source(msgspec.Struct, gc=False):
    """The part of a change event that describes the origin of the row."""

    table: str | None = None
    collection: str | None = None
    ts_ms: int | None = None
    ts_us: int | None = None


class _ChangeEvent(msgspec.Struct, gc=False):
    """A change event of Debezium."""

    op: str | None = None
    before: msgspec.Raw = msgspec.Raw(b"")
    after: msgspec.Raw = msgspec.Raw(b"")
    source: _Source | None = None
    ts_ms: int | None = None
    ts_us: int | None = None


class _Wrapper(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The wrapper of Kafka Connect's JSON converter."""

    schema: msgspec.Raw
    payload: msgspec.Raw


class _Record(NamedTuple):
    """A parsed line: the message, None if it is null, and the metadata of its record."""

    data: bytes | None
    envelope: ForeignEnvelope
    has_value: bool


_decode_record = msgspec.json.Decoder(_KafkaRecord).decode
_decode_event = msgspec.json.Decoder(_ChangeEvent).decode
_decode_wrapper = msgspec.json.Decoder(_Wrapper).decode
_decode_string = msgspec.json.Decoder(str).decode


def open_foreign_envelope(line: bytes, form: EnvelopeFormat) -> tuple[bytes, Envelope] | None:
    """The message in ``line`` and its metadata; None for a line without effect, such as a tombstone without a key.

    Raises :class:`~sowctl.messages.framing.envelope.EnvelopeRefused`.
    """
    try:
        # msgspec does not check the encoding of raw values.
        line.decode()
        return _open_kafka_record(line, form) if form.name == "kafka" else _open_change_event(line, form)
    except msgspec.ValidationError as problem:
        raise EnvelopeRefused(WRONG_KIND, f"invalid {form.name} envelope: {problem}") from None
    except (ValueError, RecursionError) as problem:
        if isinstance(problem, EnvelopeRefused):
            raise
        raise EnvelopeRefused(NOT_AN_ENVELOPE, f"invalid envelope: {problem}") from None


def _open_kafka_record(line: bytes, form: EnvelopeFormat) -> tuple[bytes, Envelope]:
    data, envelope, has_value = _read_record(line, form)
    if not has_value:
        raise EnvelopeRefused(NO_DATA, "the record has neither payload nor value")
    if data is not None:
        return data, envelope
    if envelope.record_key is None:
        raise EnvelopeRefused(NO_DATA, "the record has neither a message nor a key of a record to delete")
    envelope.command = DELETE_COMMAND
    return b"", envelope


def _read_record(line: bytes, form: EnvelopeFormat) -> _Record:
    record = _decode_record(_keep_first_members(line))
    if record.payload_error is not None:
        raise EnvelopeRefused(NO_DATA, f"the record has no message: {record.payload_error}")
    value, other = bytes(record.payload), bytes(record.value)
    if value and other:
        raise EnvelopeRefused(NO_DATA, "a record has either payload or value, not both")
    value = value or other
    key = _read_text(bytes(record.key))
    at = record.ts if record.timestamp is None else record.timestamp
    # A record without a time has -1, or a type of time for unknown times.
    if isinstance(at, int):
        at = None if at < 0 or record.tstype == _UNKNOWN_TIME else format_epoch(str(at), "ms")
    chosen = None if key is None else find_key_text(key)
    envelope = ForeignEnvelope(topic=record.topic, sow_key=chosen, timestamp=at, record_key=key)
    if form.client is not None and record.offset is not None and record.offset >= 0:
        envelope.client = f"{form.client}/{record.topic or ''}-{record.partition or 0}"
        # Offsets begin at 0, sequence numbers at 1.
        envelope.sequence, envelope.is_numbered = record.offset + 1, True
    return _Record(_unwrap(value), envelope, bool(value))


def _open_change_event(line: bytes, form: EnvelopeFormat) -> tuple[bytes, Envelope] | None:
    outer = ForeignEnvelope()
    data = _unwrap(line)
    for _ in range(_MAX_WRAPPERS):
        # The tombstone after the event of a deletion, which has already deleted the record.
        if data is None:
            return None
        event = _decode_event(_keep_first_members(data))
        if event.op is not None:
            return _read_change(event, outer)
        record = _read_record(data, form)
        if not record.has_value:
            break
        data, outer = record.data, record.envelope
    raise EnvelopeRefused(NOT_AN_ENVELOPE, f"the line is no change event: it has no op; {_FLAT_HINT}")


def _read_change(event: _ChangeEvent, outer: ForeignEnvelope) -> tuple[bytes, Envelope]:
    side = _OPERATIONS.get(event.op or "")
    if side is None:
        words = _UNSUPPORTED.get(event.op or "", "it is unknown")
        raise EnvelopeRefused(UNSUPPORTED_EVENT, f"unsupported op {event.op!r} of a change event: {words}")
    data = _unwrap(bytes(event.after if side == "after" else event.before))
    key = outer.record_key if data is None and side == "before" else None
    if data is None and key is None:
        words = f"the change event with op {event.op!r} has no {side}"
        if side == "before":
            words += ", and no record of Kafka with a key around it that names the record to delete"
        raise EnvelopeRefused(NO_DATA, words)
    source = event.source or _Source()
    envelope = ForeignEnvelope(
        topic=source.table or source.collection or outer.topic,
        sow_key=outer.sow_key,
        timestamp=_find_event_time(event, source) or outer.timestamp,
        client=outer.client,
        sequence=outer.sequence,
        command=DELETE_COMMAND if side == "before" else None,
        record_key=key,
        is_numbered=outer.is_numbered,
    )
    return data or b"", envelope


def _find_event_time(event: _ChangeEvent, source: _Source) -> str | None:
    """The time of the change in its database, else that of the event; 0 means none."""
    for number, unit in ((source.ts_us, "us"), (source.ts_ms, "ms"), (event.ts_us, "us"), (event.ts_ms, "ms")):
        if number:
            return format_epoch(str(number), unit)
    return None


def _keep_first_members(text: bytes) -> bytes:
    """A JSON object without repeated members, of which the decoders would use the last.

    Values keep their bytes.
    """
    if read_raw_members(text) is not None:
        return text
    try:
        root, repeated = parse_members(text, MAX_DEPTH + _MAX_WRAPPERS)
    except PayloadRefused:
        return text
    if not repeated or not isinstance(root.value, dict):
        return text
    members = [quote_string(name) + b":" + text[one.start : one.end] for name, one in root.value.items()]
    return b"{%b}" % b",".join(members)


def _read_text(raw: bytes) -> str | None:
    """The content of a string, other JSON as written; None for null and for an absent value."""
    if not raw or raw == _NULL:
        return None
    return _decode_string(raw) if raw.startswith(b'"') else raw.decode()


def _unwrap(raw: bytes) -> bytes | None:
    """The message in a value: the content of a string, and of the wrapper of the JSON converter; None for null."""
    text = _read_text(raw.strip())
    if text is None:
        return None
    data = text.encode()
    # The converter writes the schema first; most messages need not be decoded to check for it.
    if data.startswith(b'{"schema"'):
        try:
            return _unwrap(bytes(_decode_wrapper(_keep_first_members(data)).payload))
        except ValueError:
            return data
    return data


def find_key_members(text: str) -> bytes | None:
    """The key of a record as a JSON object, without the wrapper of the converter; None if it is a single value.

    The key of a MongoDB document, whose ``id`` is the JSON of the field ``_id`` as text, also gets that field.
    """
    try:
        data = _unwrap(text.encode())
        members = None if data is None else msgspec.json.decode(data)
    except ValueError:
        return None
    if not isinstance(members, dict):
        return None
    if members.keys() == {"id"} and isinstance(members["id"], str):
        try:
            own = msgspec.json.decode(members["id"])
        except ValueError:
            own = members["id"]
        return msgspec.json.encode(members | {"_id": own})
    return data


def find_key_text(text: str) -> str:
    """The single value of a key: the content of a JSON string, otherwise the text itself."""
    if not text.startswith(('"', '{"schema"')):
        return text
    try:
        found = _unwrap(text.encode())
    except ValueError:
        return text
    return text if found is None else found.decode()


def guess_envelope_form(data: bytes) -> str | None:
    """The name of the form of a line's envelope; None for other lines. For hints, as far as names show."""
    try:
        found = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    members = found.keys()
    inner = found.get("payload")
    event = inner if isinstance(inner, dict) else found
    if "op" in event and not {"before", "after"}.isdisjoint(event):
        return "debezium"
    if not {"payload", "value"}.isdisjoint(members) and len({"topic", "partition", "offset", "key"} & members) > 1:
        return "kafka"
    own = {"sow_key", "command", "operation", "message_type"}
    return "sowctl" if {"topic", "data"} <= members and not own.isdisjoint(members) else None


def has_change_type(data: bytes) -> bool:
    """Return whether a line is an envelope of a change feed. For hints, by the names alone."""
    try:
        found = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and {"topic", "message_type", "sow_key", "change_type"} <= found.keys()
