"""Tools that damage a file deliberately: flip a bit, truncate it, overwrite a range."""

from __future__ import annotations

import faulthandler
import gc
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from sowctl.errors import SowError
from sowctl.seam import SEAM
from sowctl.store.lmdbfile.walk import read_named_trees
from sowctl.store.opening.meta_pages import read_verified_meta
from sowctl.store.repair.pagefile import PageFile

EQUAL, REPORTED, WRONG, BROKEN = 0, 10, 20, 30
"""The result of a job: a right answer, an error with a code of damage, a wrong answer, another error."""


def flip_bit(path: Path, bit: int) -> None:
    """Flip bit number ``bit`` of the file (bit 0 is the lowest of byte 0), in place."""
    with path.open("r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ (1 << (bit % 8))]))


def truncate(path: Path, size: int) -> None:
    """Keep the first ``size`` bytes."""
    with path.open("r+b") as file:
        file.truncate(size)


def overwrite(path: Path, offset: int, data: bytes) -> None:
    """Write ``data`` at ``offset``, in place."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def flipped(content: bytes, bit: int) -> bytes:
    """Return ``content`` with one bit flipped."""
    data = bytearray(content)
    data[bit // 8] ^= 1 << (bit % 8)
    return bytes(data)


Job = Callable[[], int]


def in_children(jobs: Sequence[Job]) -> list[int]:
    """Run ``jobs`` one after the other in a forked child and return the status of each; a signal is a negative number.

    If a child dies in a job, another one continues with the next. So a fork, which costs more than most of the jobs, is
    needed only after the death of a child.
    """
    statuses: list[int] = []
    while len(statuses) < len(jobs):
        inlet, outlet = os.pipe()
        pid = os.fork()
        if pid == 0:
            gc.freeze()
            faulthandler.disable()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            for job in jobs[len(statuses) :]:
                os.write(outlet, bytes([status_of(job)]))
            os._exit(0)
        os.close(outlet)
        with os.fdopen(inlet, "rb") as told:
            statuses += told.read()
        ending = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert ending < 0 or len(statuses) == len(jobs)
        statuses += [ending] * (ending < 0)
    return statuses


def status_of(job: Job) -> int:
    try:
        return job()
    except SowError as error:
        return REPORTED if error.exit_status in (5, 9) else BROKEN
    except BaseException:
        return BROKEN


def find_root(path: Path, database: bytes = b"records") -> int:
    """The number of the root page of a sub-database, in the state in use."""
    meta = read_verified_meta(path, SEAM)
    with PageFile(path, meta.page_size, SEAM) as file:
        trees = read_named_trees(file, meta)
    assert trees is not None
    return trees[database].root


def lose_write(path: Path, before: Path) -> None:
    """Put the only page of the records as an earlier copy of the file has it in the place of the present one.

    It is sound by itself, so that only the digest of all records tells, as after a write that a disk has lost.
    """
    number = find_root(path)
    with before.open("rb") as file:
        file.seek(4096 * find_root(before))
        page = file.read(4096)
    overwrite(path, 4096 * number, number.to_bytes(8, sys.byteorder) + page[8:])
