"""What the kept state of a conflated topic says of itself, and its table of pending messages (``sow-view(5)``).

Written and read by :mod:`sowctl.engine.views.conflation.keeping` alone, which advances it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from xxhash import xxh3_128_hexdigest

from sowctl.config.derived import ConflatedTopic, View
from sowctl.config.model import TopicConfig
from sowctl.engine.views.conflation.conflating import PendingKey
from sowctl.engine.views.definition import query_of
from sowctl.engine.views.moment import entry_of, refs_of
from sowctl.errors import SowError

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.store.read import Reader
    from sowctl.store.write import WriteTxn

VERSION = 1
"""Of the tables and of what they hold; where a journal records the source, a state of another one is made anew."""
STATE, PENDING, ENDED, SEEN = "conflated:state", "conflated:pending", "conflated:ended", "conflated:seen"
TABLES = (STATE, PENDING, ENDED, SEEN)
_KEY = b"state"
_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(tuple[int, bytes | None])


class Kept(Struct, frozen=True):
    """What a kept state says of itself. Times in microseconds since 1970 UTC.

    ``definition``: digest of everything that what is shown depends on besides messages; ``lineage`` and ``applied``:
    the journal, and the txid up to which its entries are taken; both empty where none records the source; ``clock``:
    the instant up to which it is advanced; ``due``: the next instant at which something is shown, goes or expires
    though nothing is published, 0 for never; ``source``: digest of the source's store as it was seen last; ``block``:
    the last block of the journal then (number of its file, offset, header CRC, last txid): it tells copies apart.
    """

    version: int
    definition: str
    lineage: str
    applied: int
    clock: int
    due: int = 0
    source: str = ""
    block: tuple[int, int, int, int] | None = None


def read_kept(reader: Reader) -> Kept | None:
    """What a kept state says of itself; None for one of another version, or of nothing of use."""
    try:
        table = reader.table(STATE)
        raw = None if table is None else table.get(_KEY)
        kept = None if raw is None else msgspec.json.decode(raw, type=Kept)
    except (SowError, msgspec.MsgspecError):
        return None
    return kept if kept is not None and kept.version == VERSION else None


def is_recorded(instance: Instance, entry: ConflatedTopic) -> bool:
    """Whether a journal records every topic that a conflated topic is made of."""
    topics = [entry_of(instance, ref) for ref in refs_of(instance, entry)]
    return all(topic.journalled for topic in topics if isinstance(topic, TopicConfig))


def definition_digest(instance: Instance, entry: ConflatedTopic) -> str:
    """A digest of what a conflated topic shows besides the messages of its topics."""
    assert instance.config is not None
    config = instance.config
    parts: list[Any] = [VERSION, config.name, config.group, config.functions]
    waiting: list[Any] = [entry]
    while waiting:
        one = waiting.pop()
        if isinstance(one, TopicConfig):
            parts += [one.name, one.message_type, one.keys, one.key_domain, one.expiration, one.pattern]
        elif isinstance(one, ConflatedTopic):
            parts += [one.name, one.message_type, one.interval_us, one.filter, one.enrichment, one.topic_format]
            waiting.append(entry_of(instance, (one.message_type, one.underlying)))
        else:
            assert isinstance(one, View)
            query = query_of(instance, one)
            parts.append(query)
            waiting += [entry_of(instance, ref) for ref in query.sources]
    return xxh3_128_hexdigest(repr(parts).encode("utf-8", "surrogateescape"))


def pending_of(reader: Reader) -> dict[bytes, PendingKey]:
    """What is pending in a kept state."""
    table = reader.table(PENDING)
    return {} if table is None else {key: PendingKey(*_UNPACK.decode(value)) for key, value in table.walk()}


def ended_of(reader: Reader) -> dict[bytes, int]:
    """When the last intervals of keys ended, as far as it is kept."""
    table = reader.table(ENDED)
    return {} if table is None else {key: int.from_bytes(value, "big", signed=True) for key, value in table.walk()}


def put_ended(txn: WriteTxn, before: Mapping[bytes, int], after: Mapping[bytes, int]) -> None:
    """Write it where it is different from before."""
    table = txn.table(ENDED)
    table.delete(before.keys() - after.keys())
    changed = ((key, end) for key, end in after.items() if before.get(key) != end)
    table.put(sorted((key, end.to_bytes(8, "big", signed=True)) for key, end in changed))


def put_pending(txn: WriteTxn, before: Mapping[bytes, PendingKey], after: Mapping[bytes, PendingKey]) -> None:
    """Write what is pending where it is different from before."""
    table = txn.table(PENDING)
    table.delete(before.keys() - after.keys())
    table.put(sorted((key, _PACK.encode(one)) for key, one in after.items() if before.get(key) != one))


def write_kept(txn: WriteTxn, kept: Kept) -> None:
    """Say it, in the transaction that makes it true."""
    txn.table(STATE).put([(_KEY, msgspec.json.encode(kept))])
    txn.raise_last_time(kept.clock)
