"""The payloads of messages, from the blocks of the journal in which they lie."""

from __future__ import annotations

from collections import OrderedDict
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.described import DescribedStruct
from sowctl.journal.block import Position

if TYPE_CHECKING:
    from sowctl.journal.block import Block
    from sowctl.journal.reader import Journal

_KEPT = 16
"""Blocks that stay in memory: messages are leased in rows, and a few priorities go through a few blocks at a time."""


class Body(Struct, frozen=True):
    """What the journal has of a message: its topic (or logical topic), time, lifetime (0 for none) and payload."""

    topic: str
    time: int
    expiration: int
    payload: bytes
    correlation_id: bytes | None
    key: bytes
    unkeyed: bool


class _Held(DescribedStruct, frozen=True):
    block: Block
    raw: bytes
    ends: list[int]


class Bodies:
    """Reads messages by their places; keeps the blocks that were read last."""

    def __init__(self, log: Journal) -> None:
        self._log = log
        self._held: OrderedDict[tuple[int, int], _Held] = OrderedDict()

    def of(self, txid: int, place: tuple[int, int, int]) -> Body | None:
        """The message with this txid in the block at ``place``; None where its file was pruned.

        Raises DamageError ``SOW-JRN-010``.
        """
        from sowctl.journal.format import UNKEYED

        held = self._block(place)
        if held is None:
            return None
        block = held.block
        index = txid - block.first_txid
        columns = block.columns()
        topic = block.topics[columns.topics[index]][0]
        if columns.logical_topics is not None and (logical := columns.logical_topics[index]) is not None:
            topic = logical.decode("utf-8", "replace")
        start = held.ends[index - 1] if index else 0
        return Body(
            topic,
            columns.times[index],
            columns.expirations[index],
            held.raw[start : held.ends[index]],
            None if columns.correlation_ids is None else columns.correlation_ids[index],
            bytes(columns.keys[8 * index : 8 * index + 8]),
            bool(columns.flags[index] & UNKEYED),
        )

    def _block(self, place: tuple[int, int, int]) -> _Held | None:
        at = place[:2]
        held = self._held.get(at)
        if held is None:
            block = self._log.block_at(Position(*place))
            if block is None:
                return None
            held = self._held[at] = _Held(
                block, bytes(block.payload_bytes()), list(accumulate(block.columns().lengths))
            )
            while len(self._held) > _KEPT:
                self._held.popitem(last=False)
        else:
            self._held.move_to_end(at)
        return held
