"""Reading the payloads of messages from the blocks of the journal."""

from __future__ import annotations

from collections import OrderedDict
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

from sowctl.journal.block import Position
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sowctl.journal.block import Block
    from sowctl.journal.reader import Journal

_MAX_CACHED_BLOCKS = 16
"""Maximum number of blocks in memory: messages are leased in order, and a few priorities use a few blocks at a time."""


MessageBody: TypeAlias = tuple[str, int, int, bytes, str | None]
"""The content of a message in the journal: its topic (or logical topic), time, expiration (0 for none), payload,
correlation id."""


class _CachedBlock(DescribedStruct, frozen=True):
    """A decoded block: its columns are looked up once."""

    first: int
    raw: bytes
    ends: list[int]
    names: list[str]
    topic_indexes: Sequence[int]
    times: Sequence[int]
    expirations: Sequence[int]
    texts: tuple[Sequence[bytes | None] | None, Sequence[bytes | None] | None] | None


class MessageReader:
    """Reads messages by their places; caches the most recently used blocks."""

    def __init__(self, log: Journal) -> None:
        self._log = log
        self._held: OrderedDict[tuple[int, int], _CachedBlock] = OrderedDict()
        self._at = (-1, -1)
        self._last: _CachedBlock | None = None

    def read_message(self, txid: int, place: tuple[int, int, int]) -> MessageBody | None:
        """Return the message with this txid in the block at ``place``; None if its file was pruned.

        Raises DamageError ``SOW-JRN-010``.
        """
        held = self._last if place[:2] == self._at else self._read_block(place)
        if held is None:
            return None
        index = txid - held.first
        ends = held.ends
        topic = held.names[held.topic_indexes[index]]
        correlation = None
        if held.texts is not None:
            logicals, correlations = held.texts
            if logicals is not None and (raw := logicals[index]) is not None:
                topic = raw.decode("utf-8", "replace")
            if correlations is not None and (raw := correlations[index]) is not None:
                correlation = raw.decode("utf-8", "replace")
        payload = held.raw[ends[index - 1] if index else 0 : ends[index]]
        return topic, held.times[index], held.expirations[index], payload, correlation

    def _read_block(self, place: tuple[int, int, int]) -> _CachedBlock | None:
        at = place[:2]
        held = self._held.get(at)
        if held is None:
            block = self._log.find_block_at(Position(*place))
            if block is None:
                return None
            held = self._held[at] = _decode_block(block)
            while len(self._held) > _MAX_CACHED_BLOCKS:
                self._held.popitem(last=False)
        else:
            self._held.move_to_end(at)
        self._at, self._last = at, held
        return held


def _decode_block(block: Block) -> _CachedBlock:
    columns = block.decode_columns()
    logicals, correlations = columns.logical_topics, columns.correlation_ids
    return _CachedBlock(
        block.first_txid,
        bytes(block.decompress_payloads()),
        list(accumulate(columns.lengths)),
        [name for name, _ in block.topic_refs],
        columns.topic_indexes,
        columns.times,
        columns.expirations,
        None if logicals is None and correlations is None else (logicals, correlations),
    )
