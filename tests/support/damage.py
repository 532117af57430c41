"""Tools that damage a file deliberately: flip a bit, truncate it, overwrite a range."""

from __future__ import annotations

import faulthandler
import gc
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from sowctl.errors import SowError

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
