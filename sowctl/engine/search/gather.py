"""The values of some fields of all records of a store, gathered for memo indexes. Loads numpy.

By places where the store's file shows them (:meth:`sowctl.store.read.Reader.whole`): that needs nothing of LMDB, so a
fork can read the second half of the keys beside this process. Else by a scan. Indexes of two fields of 1,056,000 orders
of 290 bytes took 2.7 s of CPU time by a scan in one process; by places it is 1.4 s in this process, while the fork
takes 0.85 s.

Called by :mod:`~sowctl.engine.search.memos`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sowctl.engine.search import figures
from sowctl.engine.search.forked import Forked, processors
from sowctl.memo.build import ColumnBuilder
from sowctl.store.codec import KEY_SIZE, payloads, raw_stamps

if TYPE_CHECKING:
    from sowctl.messages.base import ColumnExtractor
    from sowctl.store.read import AllRecords
    from sowctl.store.snapshot import Snapshot


class Gathered(NamedTuple):
    """Keys of all records end to end, txids and times, where they lie if that is known, and their values."""

    keys: bytes
    txids: Any
    times: Any
    spots: tuple[Any, Any, Any] | None
    columns: list[ColumnBuilder]


def gathered(
    snapshot: Snapshot, read: ColumnExtractor, names: Sequence[str], on_read: Callable[[int, int], None]
) -> Gathered:
    """All records; ``read`` gives a column for each of ``names``. Raises DamageError.

    ``on_read`` is told how many of how many this process has read.
    """
    whole = snapshot.whole()
    columns = None if whole is None else _by_places(whole, read, names, on_read)
    if whole is None or columns is None:
        return _scanned(snapshot, read, names, on_read)
    return Gathered(whole.keys, *whole.stamps(), whole.spots(), columns)


def _by_places(
    whole: AllRecords, read: ColumnExtractor, names: Sequence[str], on_read: Callable[[int, int], None]
) -> list[ColumnBuilder] | None:
    """The values of all records, by their places; None where some record is not what was expected there."""
    count = len(whole)
    if count < figures.LARGE or processors() < figures.PROCESSES:
        return _part(whole, read, names, 0, count, on_read)
    middle = count // 2
    # The snapshot of this process holds the pages that both read; the other never asks LMDB, which no fork may.
    other = Forked(lambda results: pickle.dump(_part(whole, read, names, middle, count), results))
    try:
        columns = _part(whole, read, names, 0, middle, on_read)
        results = other.results()
        # The bytes come from a fork of this very process.
        more = _part(whole, read, names, middle, count) if results is None else pickle.load(results)
    finally:
        other.end()
    if columns is None or more is None:
        return None
    for column, behind in zip(columns, more, strict=True):
        column.extend(behind)
    return columns


def _part(
    whole: AllRecords,
    read: ColumnExtractor,
    names: Sequence[str],
    start: int,
    stop: int,
    on_read: Callable[[int, int], None] | None = None,
) -> list[ColumnBuilder] | None:
    columns = [ColumnBuilder(name) for name in names]
    for at in range(start, stop, figures.BUILT):
        values = whole.values(at, min(at + figures.BUILT, stop))
        if values is None:
            return None
        _add(columns, read, payloads(values))
        if on_read is not None:
            on_read(min(at + figures.BUILT, stop) - start, stop - start)
    return columns


def _scanned(
    snapshot: Snapshot, read: ColumnExtractor, names: Sequence[str], on_read: Callable[[int, int], None]
) -> Gathered:
    columns = [ColumnBuilder(name) for name in names]
    keys, stamped = bytearray(), bytearray()
    for batch, values in snapshot.scan(batch=figures.BUILT):
        keys += b"".join(batch)
        stamped += raw_stamps(values)
        on_read(len(keys) // KEY_SIZE, snapshot.meta.records)
        _add(columns, read, payloads(values))
    stamps = np.frombuffer(bytes(stamped), np.dtype([("txid", "<u8"), ("time", "<i8")]))
    return Gathered(bytes(keys), stamps["txid"], stamps["time"], snapshot.located(bytes(keys)), columns)


def _add(columns: Sequence[ColumnBuilder], read: ColumnExtractor, batch: Sequence[bytes]) -> None:
    found, refused = read(batch)
    for column, values in zip(columns, found, strict=True):
        column.add(values)
        if refused:
            # A column that lacks a value must not answer: a condition on it would leave a record out.
            column.spoil()


__all__ = ["Gathered", "gathered"]
