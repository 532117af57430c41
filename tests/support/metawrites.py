"""The result of a failed write of one of LMDB's meta pages, and a way to make that write fail.

After a failed write of a meta page LMDB writes the page once more with the old transaction number and the old last
page, so the page keeps the new roots. :func:`mixed` builds such a page; :class:`FailsAtMeta` is a seam that leaves it
after the n-th commit. :class:`LmdbWrites` makes LMDB's own ``pwrite`` fail: it replaces it in the table through which
the loaded library calls it, so no compiler is needed. It works for 64-bit ELF files.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb

from tests.support.faults import CountingSeam

PAGE = 4096
START, SIZE = 32, 120
"""LMDB writes these bytes of a meta page: map size, two trees, and in the last 16 the last page and the number."""
OLD = 16


def meta_page(data: bytes, number: int) -> bytes:
    """Return the bytes of a meta page that a transaction writes."""
    start = number * PAGE + START
    return data[start : start + SIZE]


def mixed(before: bytes, after: bytes) -> bytes:
    """Return the bytes that LMDB leaves after a failed write: the new roots with the old number and last page."""
    return after[:-OLD] + before[-OLD:]


def newest(data: bytes) -> int:
    """Return which meta page is in use."""
    numbers = [int.from_bytes(meta_page(data, page)[-8:], sys.byteorder) for page in (0, 1)]
    return int(numbers[1] > numbers[0])


def failed_write(before: bytes, after: bytes, write: Callable[[bytes, bytes], bytes] = mixed) -> bytes:
    """Return a file as ``after`` a commit whose meta page could not be written; ``before`` is the previous file."""
    page = newest(after)
    start = page * PAGE + START
    left = write(meta_page(before, page), meta_page(after, page))
    return after[:start] + left + after[start + SIZE :]


class FailsAtMeta(CountingSeam):
    """The ``n``-th commit fails at its meta page: its write is undone in the store below ``root``."""

    def __init__(self, n: int, root: Path) -> None:
        super().__init__(("lmdb.commit",))
        self.n = n
        self.root = root

    def reached(
        self, number: int, point: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if number != self.n:
            return function(*args, **kwargs)
        before = {path: path.read_bytes() for path in self.root.rglob("*.sow*") if path.stat().st_size >= 2 * PAGE}
        function(*args, **kwargs)
        for path, old in before.items():
            new = path.read_bytes()
            if new[: 2 * PAGE] != old[: 2 * PAGE]:
                with path.open("r+b") as file:
                    file.write(failed_write(old, new)[: 2 * PAGE])
        raise OSError(errno.EIO, os.strerror(errno.EIO))


Fault = tuple[int, int]
"""How many bytes of a meta page a call writes, and the error number that it reports; 0: it reports these bytes."""
FAULTS: dict[str, tuple[Fault, ...]] = {
    "EIO": ((0, errno.EIO),),
    "short": ((40, 0),),
    "nothing written": ((0, 0),),
    "EIO after the write": ((SIZE, errno.EIO),),
    "EIO, and again": ((0, errno.EIO),) * 2,
    "short, and EIO": ((60, 0), (0, errno.EIO)),
    "EIO after the write, and again": ((SIZE, errno.EIO), (0, errno.EIO)),
    "ENOSPC, and short": ((0, errno.ENOSPC), (20, 0)),
}
"""The write, and if there are two, LMDB's attempt to undo it."""


class LmdbWrites:
    """Replaces LMDB's ``pwrite``: counts its writes of meta pages, and makes them fail from the ``n``-th on."""

    def __init__(self, n: int = 0, faults: Sequence[Fault] = ()) -> None:
        self.faults = dict(enumerate(faults, n))
        self.count = 0

    def __call__(self, fd: int, data: int, size: int, offset: int) -> int:
        wanted = ctypes.string_at(data, size)
        fault = None
        if size == SIZE and offset in (START, PAGE + START):
            self.count += 1
            fault = self.faults.get(self.count)
        try:
            written = os.pwrite(fd, wanted if fault is None else wanted[: fault[0]], offset)
        except OSError as problem:
            fault, written = (0, problem.errno or errno.EIO), 0
        if fault is not None and fault[1]:
            ctypes.set_errno(fault[1])
            return -1
        return written

    @contextmanager
    def in_place(self) -> Iterator[LmdbWrites]:
        """Receive LMDB's writes of this process within a with statement."""
        slot = _slot()
        assert slot is not None
        kind = ctypes.CFUNCTYPE(
            ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, use_errno=True
        )
        function = kind(self)
        before, slot.value = slot.value, ctypes.cast(function, ctypes.c_void_p).value
        try:
            yield self
        finally:
            slot.value = before


def can_fail() -> bool:
    """Return whether LMDB's writes can be made to fail here."""
    return _slot() is not None


def _library() -> tuple[Path, int] | None:
    """Return the file of the loaded LMDB library and its address in memory."""
    with Path("/proc/self/maps").open() as maps:
        for line in maps:
            parts = line.split()
            if len(parts) == 6 and "/lmdb/cpython" in parts[5] and parts[2] == "00000000":
                return Path(parts[5]), int(parts[0].split("-")[0], 16)
    return None


def _slot() -> ctypes.c_void_p | None:
    """Return where the library keeps the address of ``pwrite``; None if that is unknown."""
    lmdb.version()
    try:
        found = _library()
        if found is None or sys.maxsize < 1 << 32 or sys.byteorder != "little":
            return None
        offset = _offset(found[0].read_bytes())
    except (OSError, struct.error, ValueError):
        return None
    if offset is None:
        return None
    address = found[1] + offset
    start = address // mmap.PAGESIZE * mmap.PAGESIZE
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(start), ctypes.c_size_t(mmap.PAGESIZE), 3):
        return None
    return ctypes.c_void_p.from_address(address)


def _offset(data: bytes) -> int | None:
    """Return the address in an ELF file's memory at which the relocation of ``pwrite`` stores its target."""
    if data[:5] != b"\x7fELF\x02":
        return None
    (sections_at,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, sections_at + index * size) for index in range(count)]
    for _, kind, _, _, at, length, link, _, _, entry in sections:
        if kind != 4:  # SHT_RELA
            continue
        symbols = sections[link]
        names = sections[symbols[6]]
        for place in range(at, at + length, entry):
            target, info, _ = struct.unpack_from("<QQq", data, place)
            (name,) = struct.unpack_from("<I", data, symbols[4] + (info >> 32) * 24)
            start = names[4] + name
            if data[start : data.index(b"\0", start)] in (b"pwrite", b"pwrite64"):
                return int(target)
    return None
