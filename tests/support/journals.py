"""Small journals: groups with known payloads, a seam that does not sync, and the whole content as a list."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sowctl.journal.entries import EntryBatch, Numbers
from sowctl.journal.format import INSERTED_FLAG
from sowctl.journal.logend import NewJournal
from sowctl.journal.reader import Journal
from sowctl.journal.writer import JournalWriter
from sowctl.seam import SEAM, Seam

R = TypeVar("R")
LINEAGE = bytes(range(16))
INSTANCE = "inst"
ORDERS = ("orders", "json")
TRADES = ("trades", "fix")


class NoSync(Seam):
    """Skips fsync and fdatasync: a test without power cuts does not need them."""

    def call(self, point: str, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:  # type: ignore[override]
        if point in ("file.sync", "dir.sync"):
            return None  # type: ignore[return-value]
        return function(*args, **kwargs)


NO_SYNC = NoSync()


def group(payloads: Sequence[bytes], topic: Numbers = 0, time: int = 1000, **columns: Any) -> EntryBatch:
    """Return plain publishes to one of two topics; keys and checks are consecutive numbers."""
    count = len(payloads)
    values: dict[str, Any] = {
        "topic_refs": [ORDERS, TRADES],
        "topic_indexes": topic,
        "keys": b"".join(number.to_bytes(8, "big") for number in range(count)),
        "checks": b"".join((number + 7).to_bytes(8, "big") for number in range(count)),
        "times": time,
        "flags": INSERTED_FLAG,
        "payloads": list(payloads),
    }
    return EntryBatch(**(values | columns))


def texts(count: int, *, size: int = 20, tag: str = "p") -> list[bytes]:
    """Return distinct payloads that remain large when compressed."""
    return [(f"{tag}{number}:" + os.urandom(size // 2 + 1).hex())[: size + 8].encode() for number in range(count)]


def open_writer(
    directory: Path, seam: Seam = SEAM, *, lineage: bytes = LINEAGE, floor: int = 0, **options: Any
) -> JournalWriter:
    """Open a writer with the defaults of these tests."""
    new = NewJournal(lineage, floor)
    return JournalWriter.open(
        directory, INSTANCE, **({"seam": seam, "now": 1000, "new": new, "lock_wait": 5.0} | options)
    )


def publish(writer: JournalWriter, *groups: EntryBatch, now: int = 1000) -> list[tuple[int, int]]:
    """Append groups under one lock with one sync."""
    with writer.hold_lock():
        spans = [writer.append_group(one, now) for one in groups]
        writer.sync()
    return spans


def contents(directory: Path, acknowledged: int = 0) -> list[tuple[int, bytes]]:
    """Return (txid, payload) of every entry that a reader sees."""
    with Journal.open(directory, INSTANCE, acknowledged=acknowledged) as journal:
        return [(entry.txid, entry.payload) for block in journal.iter_blocks() for entry in block.iter_entries()]


def sequences(start: int, count: int) -> array[int]:
    """A column of sequence numbers."""
    return array("Q", range(start, start + count))
