"""Deliveries that were produced but not consumed yet: in memory up to a limit, then in a temporary file.

A program that iterates over a subscription may publish to its topic between any two events. A store cannot be opened
twice in one process, so everything is read from it before the first event is delivered. Called by
:mod:`sowctl.engine.subscriptions.subscription`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from typing import IO

import msgspec

from sowctl.engine.subscriptions.events import Delivery, EventBatch

SPOOL_MEMORY_BYTES = 64 << 20
"""Maximum bytes of messages in memory."""
_EVENT_COLUMNS = "names", "txids", "times", "payloads", "publishers", "sequences", "correlations", "logical"


def spool_deliveries(deliveries: Iterable[Delivery], memory: int = SPOOL_MEMORY_BYTES) -> Iterator[Delivery]:
    """Yield the same deliveries, after reading all of them."""
    kept: list[Delivery] = []
    size = 0
    file: IO[bytes] | None = None
    sizes: list[int] = []
    try:
        for delivery in deliveries:
            size += sum(map(len, delivery.payloads)) if isinstance(delivery, EventBatch) else 0
            if size <= memory or not isinstance(delivery, EventBatch):
                kept.append(delivery)
                sizes.append(0)
                continue
            if file is None:
                file = tempfile.TemporaryFile()  # noqa: SIM115 - closed below
            # Only the columns are written; attributes of the whole batch stay in memory.
            sizes.append(file.write(msgspec.msgpack.encode([getattr(delivery, name) for name in _EVENT_COLUMNS])))
            kept.append(delivery.select(()))
        if file is not None:
            file.seek(0)
        # Released one by one: a consumed delivery needs no memory.
        kept.reverse()
        for stored in sizes:
            delivery = kept.pop()
            if stored:
                assert file is not None
                for name, column in zip(_EVENT_COLUMNS, msgspec.msgpack.decode(file.read(stored)), strict=True):
                    setattr(delivery, name, column)
            yield delivery
    finally:
        if file is not None:
            file.close()
