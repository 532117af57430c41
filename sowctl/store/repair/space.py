"""The use of a store's file: pages that hold records, free ones, and those kept for a reader.

LMDB reuses a page when no reader is left that may look at it. A reader that stays makes the file grow; who it is
stands in LMDB's lock file. Called by ``info``, ``doctor`` and ``store compact``. Ruled by ``sow-store(5)``, "Space".
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from sowctl.errors import SowError
from sowctl.seam import SEAM, Seam
from sowctl.store.env import Store
from sowctl.store.lmdberrors import translate_errors
from sowctl.store.lmdbfile.meta_page import MetaPage
from sowctl.store.lmdbfile.walk import FreeList, read_free_list
from sowctl.store.opening.meta_pages import read_verified_meta
from sowctl.store.repair.pagefile import PageFile

_ATTEMPTS = 3
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class ReaderProcess(Struct, frozen=True):
    """A process that reads a store: ``transaction`` is the state that it looks at.

    ``seconds``: how long that process has been running, which is the most that its transaction can be old; None where
    the process is gone, and its place in the lock file is only waiting to be cleared by the next writer.
    """

    pid: int
    transaction: int
    seconds: float | None


class SpaceUsage(Struct, frozen=True):
    """Sizes in pages of ``page_size`` bytes; ``file_bytes`` of the whole file, ``map_bytes`` of the map that its last
    writer had: the file may grow so far before a writer raises it.

    ``free_pages`` hold nothing; of them, ``retained_pages`` cannot be used again until the oldest reader ends.
    ``oldest`` is that reader, ``behind`` so many transactions behind the newest state. ``readers`` counts all but
    those of this process.
    """

    page_size: int
    pages: int
    free_pages: int
    file_bytes: int
    map_bytes: int = 0
    readers: int = 0
    oldest: ReaderProcess | None = None
    behind: int = 0
    retained_pages: int = 0

    @property
    def used_bytes(self) -> int:
        """The size of the file if it had no free pages."""
        return (self.pages - self.free_pages) * self.page_size


def measure_space(store: Store, seam: Seam = SEAM) -> SpaceUsage | None:
    """Measure how the file of an open store is used; None if writers are too fast or its free list is damaged.

    Raises StorageError, DamageError.
    """
    path = Path(store.path)
    readers = list_readers(store)
    for _ in range(_ATTEMPTS):
        # The snapshot keeps the pages of its state, free list included, from being used again while they are read.
        with store.open_snapshot() as snapshot:
            # The file is read beside LMDB: page and snapshot have to be of one transaction.
            meta = read_verified_meta(path, seam)
            if meta.txnid != snapshot.txnid:
                continue
            with translate_errors(path, "read the store"), PageFile(path, meta.page_size, seam) as file:
                free = read_free_list(file, meta)
            return None if free is None else _build_space_usage(meta, free, file.size, readers)
    return None


def _build_space_usage(meta: MetaPage, free: FreeList, size: int, readers: list[ReaderProcess]) -> SpaceUsage:
    others = [reader for reader in readers if reader.pid != os.getpid()]
    # The oldest state that is looked at bounds what may be used again, however many look at newer ones.
    oldest = min(others, key=lambda reader: reader.transaction, default=None)
    retained = behind = 0
    if oldest is not None:
        behind = max(0, meta.txnid - oldest.transaction)
        # What a transaction freed that came after the reader's state is part of that state. The newest two are kept in
        # any case.
        retained = sum(len(pages) for txn, pages in free.freed.items() if txn > oldest.transaction)
    return SpaceUsage(
        meta.page_size, meta.last_page + 1, free.page_count, size, meta.map_size, len(others), oldest, behind, retained
    )


def list_readers(store: Store) -> list[ReaderProcess]:
    """List the readers of a store by LMDB's lock file, this process among them. None are known of a store read
    without locks.
    """
    now = time.time()
    found = []
    for line in store.read_reader_table().splitlines()[1:]:
        # "pid thread txnid", the last one "-" for a place that is taken and has no transaction.
        pid, _, transaction = line.split()
        if transaction != "-":
            found.append(ReaderProcess(int(pid), int(transaction), read_process_age(int(pid), now)))
    return found


def read_process_age(pid: int, now: float) -> float | None:
    """For how many seconds a process has been running at ``now`` (seconds since 1970); None where there is none."""
    with suppress(OSError, ValueError, IndexError):
        # The name of the program, in parentheses, may hold blanks: fields are counted behind it.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        if fields[0] == "Z":
            return None
        booted = time.clock_gettime(time.CLOCK_REALTIME) - time.clock_gettime(time.CLOCK_BOOTTIME)
        return max(0.0, now - booted - int(fields[19]) / _CLOCK_TICKS)
    return None


def measure_space_at(path: Path, seam: Seam = SEAM) -> SpaceUsage | None:
    """:func:`measure_space` of the store at ``path``; None also where it cannot be opened."""
    try:
        with Store.open(path, write=False, seam=seam) as store:
            return measure_space(store, seam)
    except SowError:
        return None


__all__ = ["ReaderProcess", "SpaceUsage", "list_readers", "measure_space", "measure_space_at", "read_process_age"]
