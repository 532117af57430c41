"""A snapshot's records by their places in the file, instead of one search for a key after the other.

Loaded when a :class:`sowctl.store.read.Reader` is asked for that. Whatever is not as it was thought to be is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import compress
from typing import Any

from sowctl.store.opening.environment import RECORDS
from sowctl.store.raw.offsets import DataFile, Spots, values_at
from sowctl.store.read import Found

LookUp = Callable[[Sequence[bytes]], dict[bytes, bytes]]
"""The values of those keys that have a record, verified."""


def read_at(file: DataFile | None, keys: Sequence[bytes], spots: Spots, look_up: LookUp) -> Found:
    """The records of ``keys``, whose values lay at ``spots``."""
    values: Sequence[bytes] = [b""] * len(keys)
    wrong = list(range(len(keys)))
    if file is not None:
        with suppress(OSError, OverflowError, ValueError):  # ValueError: there is nothing left to map
            values, wrong = values_at(file, keys, spots)
    if not wrong:
        return list(keys), values
    found = dict(zip(keys, values, strict=True))
    moved = [keys[place] for place in wrong]
    for key in moved:
        del found[key]
    found |= look_up(moved)
    present = [key for key in keys if key in found]
    return present, [found[key] for key in present]


def search(
    file: DataFile | None, txnid: int, keys: Sequence[bytes], look_up: LookUp
) -> tuple[list[bytes], Spots] | None:
    """Those of ``keys``, in order, that have a record after LMDB transaction ``txnid``, and where; None: not known."""
    from sowctl.store.raw.tree import Astray
    from sowctl.store.raw.tree import search as searched

    if file is None:
        return None
    try:
        there, starts, sizes, sums = searched(file.mapped(), txnid, RECORDS, keys)
    except (Astray, OSError, ValueError):
        return None
    spots = Spots(starts, sizes, sums.tobytes())
    if there.all():
        return list(keys), spots
    # A page that lies could hide a key: LMDB says whether they are absent.
    hidden = look_up(list(compress(keys, (~there).tolist())))
    return None if hidden else (list(compress(keys, there.tolist())), spots)


def locate_all(file: DataFile | None, txnid: int, keys: bytes) -> tuple[Any, Any, Any] | None:
    """Where the values of all records lie; ``keys`` are theirs, end to end. None: it is not known."""
    from sowctl.store.raw.tree import Astray, locate

    try:
        return None if file is None else locate(file.mapped(), txnid, RECORDS, keys)
    except (Astray, OSError, ValueError):
        return None


__all__ = ["locate_all", "read_at", "search"]
