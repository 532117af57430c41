"""The use of a store's file: pages with records, free pages, and pages kept for a reader.

LMDB reuses a page when no remaining reader may access it. A long-running reader makes the file grow; LMDB's lock file
identifies it. Called by ``info``, ``doctor`` and ``store compact``. Specified in ``sow-store(5)``, "Space".
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
    """A process that reads a store: ``transaction`` is the state that it reads.

    ``seconds``: how long that process has been running, which is the maximum age of its transaction; None if the
    process is dead, and its slot in the lock file will be cleared by the next writer.
    """

    pid: int
    transaction: int
    seconds: float | None


class SpaceUsage(Struct, frozen=True):
    """Sizes in pages of ``page_size`` bytes; ``file_bytes`` is the size of the whole file, ``map_bytes`` that of its
    last writer's map: the file may grow to this size before a writer enlarges the map.

    ``free_pages`` are unused; of these, ``retained_pages`` cannot be reused until the oldest reader ends. ``oldest`` is
    that reader, ``behind`` its distance from the newest state in transactions. ``readers`` excludes this process.
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
        """The size of the file without its free pages."""
        return (self.pages - self.free_pages) * self.page_size


def measure_space(store: Store, seam: Seam = SEAM) -> SpaceUsage | None:
    """Measure the use of an open store's file; None if writers are too fast or its free list is damaged.

    Raises StorageError, DamageError.
    """
    path = Path(store.path)
    readers = list_readers(store)
    for _ in range(_ATTEMPTS):
        # The snapshot keeps the pages of its state, free list included, from being reused while they are read.
        with store.open_snapshot() as snapshot:
            # The file is read without LMDB: meta page and snapshot must be of one transaction.
            meta = read_verified_meta(path, seam)
            if meta.txnid != snapshot.txnid:
                continue
            with translate_errors(path, "read the store"), PageFile(path, meta.page_size, seam) as file:
                free = read_free_list(file, meta)
            return None if free is None else _build_space_usage(meta, free, file.size, readers)
    return None


def _build_space_usage(meta: MetaPage, free: FreeList, size: int, readers: list[ReaderProcess]) -> SpaceUsage:
    others = [reader for reader in readers if reader.pid != os.getpid()]
    # The oldest state that is being read limits the reuse of pages, however many readers use newer ones.
    oldest = min(others, key=lambda reader: reader.transaction, default=None)
    retained = behind = 0
    if oldest is not None:
        behind = max(0, meta.txnid - oldest.transaction)
        # Pages freed by a transaction after the reader's state are part of that state. The newest two states are kept
        # in any case.
        retained = sum(len(pages) for txn, pages in free.freed.items() if txn > oldest.transaction)
    return SpaceUsage(
        meta.page_size, meta.last_page + 1, free.page_count, size, meta.map_size, len(others), oldest, behind, retained
    )


def list_readers(store: Store) -> list[ReaderProcess]:
    """List the readers of a store in LMDB's lock file, including this process. Readers without locks are unknown."""
    now = time.time()
    found = []
    for line in store.read_reader_table().splitlines()[1:]:
        # "pid thread txnid", the last one "-" for a slot without a transaction.
        pid, _, transaction = line.split()
        if transaction != "-":
            found.append(ReaderProcess(int(pid), int(transaction), read_process_age(int(pid), now)))
    return found


def read_process_age(pid: int, now: float) -> float | None:
    """Return for how many seconds a process has been running at ``now`` (seconds since 1970); None if it is dead."""
    with suppress(OSError, ValueError, IndexError):
        # The program's name, in parentheses, may contain blanks: fields are counted after it.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        if fields[0] == "Z":
            return None
        booted = time.clock_gettime(time.CLOCK_REALTIME) - time.clock_gettime(time.CLOCK_BOOTTIME)
        return max(0.0, now - booted - int(fields[19]) / _CLOCK_TICKS)
    return None


def measure_space_at(path: Path, seam: Seam = SEAM) -> SpaceUsage | None:
    """Return :func:`measure_space` of the store at ``path``; None also if it cannot be opened."""
    try:
        with Store.open(path, write=False, seam=seam) as store:
            return measure_space(store, seam)
    except SowError:
        return None


__all__ = ["ReaderProcess", "SpaceUsage", "list_readers", "measure_space", "measure_space_at", "read_process_age"]
