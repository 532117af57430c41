"""Tables of the stored state of a conflated topic: meta record, pending messages, ended intervals (``sow-view(5)``).

Only :mod:`sowctl.engine.views.conflation.conflation_store` advances the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from xxhash import xxh3_128_hexdigest

from sowctl.config.derived_entries import ConflatedTopic, View
from sowctl.config.model import TopicConfig
from sowctl.engine.views.conflation.conflation_rule import PendingKey
from sowctl.engine.views.definition import build_query
from sowctl.engine.views.instant import find_entry, list_topic_refs
from sowctl.errors import SowError

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.store.read import Reader
    from sowctl.store.write import WriteTxn

STATE_VERSION = 1
"""Version of the tables and their content. With a journal, a state of another version is rebuilt."""
STATE_TABLE, PENDING_TABLE, ENDED_TABLE, SEEN_TABLE = (
    "conflated:state",
    "conflated:pending",
    "conflated:ended",
    "conflated:seen",
)
STATE_TABLES = (STATE_TABLE, PENDING_TABLE, ENDED_TABLE, SEEN_TABLE)
_KEY = b"state"
_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(tuple[int, bytes | None])


class ConflationState(Struct, frozen=True):
    """Stored state of a conflated topic. Times in microseconds since 1970 UTC.

    ``definition``: digest of everything except messages that the outputs depend on; ``lineage`` and ``applied``: the
    journal, and the txid up to which its entries are applied, empty and 0 without a journal; ``clock``: instant up to
    which the state is advanced; ``due``: next instant at which a message is output, removed or expires without a
    publish, 0 for never; ``source``: digest of the source's store at the last read; ``block``: the last block of the
    journal at that time (number of its file, offset, header CRC, last txid), which distinguishes copies.
    """

    version: int
    definition: str
    lineage: str
    applied: int
    clock: int
    due: int = 0
    source: str = ""
    block: tuple[int, int, int, int] | None = None


def read_state(reader: Reader) -> ConflationState | None:
    """Read the stored state; None if it is missing, unreadable or of another version."""
    try:
        table = reader.open_table(STATE_TABLE)
        raw = None if table is None else table.get(_KEY)
        kept = None if raw is None else msgspec.json.decode(raw, type=ConflationState)
    except (SowError, msgspec.MsgspecError):
        return None
    return kept if kept is not None and kept.version == STATE_VERSION else None


def is_recorded(instance: Instance, entry: ConflatedTopic) -> bool:
    """Return whether all topics underlying a conflated topic are journalled."""
    entries = [find_entry(instance, ref) for ref in list_topic_refs(instance, entry)]
    return all(topic.journalled for topic in entries if isinstance(topic, TopicConfig))


def definition_digest(instance: Instance, entry: ConflatedTopic) -> str:
    """Return a digest of everything except messages that the outputs of a conflated topic depend on."""
    assert instance.config is not None
    config = instance.config
    # Must contain every setting that affects outputs: otherwise a state computed with an old value remains in use.
    parts: list[Any] = [STATE_VERSION, config.name, config.group, config.functions]
    waiting: list[Any] = [entry]
    while waiting:
        one = waiting.pop()
        if isinstance(one, TopicConfig):
            parts += [one.name, one.message_type, one.keys, one.key_domain, one.expiration, one.pattern]
        elif isinstance(one, ConflatedTopic):
            parts += [one.name, one.message_type, one.interval_us, one.filter, one.enrichment, one.topic_format]
            waiting.append(find_entry(instance, one.source))
        else:
            assert isinstance(one, View)
            query = build_query(instance, one)
            parts.append(query)
            waiting += [find_entry(instance, ref) for ref in query.sources]
    return xxh3_128_hexdigest(repr(parts).encode("utf-8", "surrogateescape"))


def read_pending(reader: Reader) -> dict[bytes, PendingKey]:
    """Read the pending messages of a stored state."""
    table = reader.open_table(PENDING_TABLE)
    return {} if table is None else {key: PendingKey(*_UNPACK.decode(value)) for key, value in table.walk()}


def read_ended(reader: Reader) -> dict[bytes, int]:
    """Read when the last intervals of keys ended; empty if not stored."""
    table = reader.open_table(ENDED_TABLE)
    return {} if table is None else {key: int.from_bytes(value, "big", signed=True) for key, value in table.walk()}


def write_ended(txn: WriteTxn, before: Mapping[bytes, int], after: Mapping[bytes, int]) -> None:
    """Write the changed ends of intervals."""
    table = txn.open_table(ENDED_TABLE)
    table.delete(before.keys() - after.keys())
    changed = ((key, end) for key, end in after.items() if before.get(key) != end)
    table.put(sorted((key, end.to_bytes(8, "big", signed=True)) for key, end in changed))


def write_pending(txn: WriteTxn, before: Mapping[bytes, PendingKey], after: Mapping[bytes, PendingKey]) -> None:
    """Write the changed pending messages."""
    table = txn.open_table(PENDING_TABLE)
    table.delete(before.keys() - after.keys())
    table.put(sorted((key, _PACK.encode(one)) for key, one in after.items() if before.get(key) != one))


def write_state(txn: WriteTxn, kept: ConflationState) -> None:
    """Write the state of a conflated topic, in the transaction of the changes that it describes."""
    txn.open_table(STATE_TABLE).put([(_KEY, msgspec.json.encode(kept))])
    txn.raise_last_time(kept.clock)
