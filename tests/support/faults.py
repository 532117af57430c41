"""Seams that count, fail, cut short or kill: the same code runs, only the n-th system call is affected.

A test first runs with a :class:`CountingSeam` to count the calls, then once per call number. Calls are counted from 1.
``points`` restricts the count to some kinds of call (exact names or prefixes ending in a dot, ``"file."``). No test
here ever changes product code: a seam is an argument.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sowctl.seam import Seam

R = TypeVar("R")


def _matches(point: str, points: Sequence[str]) -> bool:
    return not points or any(point == name or (name.endswith(".") and point.startswith(name)) for name in points)


class CountingSeam(Seam):
    """Forwards every call and records the names of the points, in order."""

    def __init__(self, points: Sequence[str] = ()) -> None:
        self.only = tuple(points)
        self.points: list[str] = []

    @property
    def count(self) -> int:
        """The number of calls counted so far."""
        return len(self.points)

    def call(self, point: str, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> R:  # type: ignore[override]
        if _matches(point, self.only):
            self.points.append(point)
            return self.reached(len(self.points), point, function, args, kwargs)
        return function(*args, **kwargs)

    def reached(
        self, number: int, point: str, function: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> R:
        """Perform the counted call ``number``; subclasses fail or kill here."""
        return function(*args, **kwargs)


class FailAt(CountingSeam):
    """Raises ``OSError(errno)`` instead of the ``n``-th call; with ``forever`` instead of every later call, too.

    ``after=True`` makes the call first and then reports failure, as a sync with a late error does.
    """

    def __init__(
        self, n: int, errno: int, forever: bool = False, *, after: bool = False, points: Sequence[str] = ()
    ) -> None:
        super().__init__(points)
        self.n = n
        self.errno = errno
        self.forever = forever
        self.after = after
        self.failed = 0

    def reached(
        self, number: int, point: str, function: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> R:
        if number == self.n or (self.forever and number > self.n):
            self.failed += 1
            if self.after:
                function(*args, **kwargs)
            raise OSError(self.errno, f"{os.strerror(self.errno)} (injected at {point}, call {number})")
        return function(*args, **kwargs)


class KillAt(CountingSeam):
    """Ends the process with SIGKILL before the ``n``-th call, or directly after it with ``after=True``.

    Use it in a child process only.
    """

    def __init__(self, n: int, *, after: bool = False, points: Sequence[str] = ()) -> None:
        super().__init__(points)
        self.n = n
        self.after = after

    def reached(
        self, number: int, point: str, function: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> R:
        if number != self.n:
            return function(*args, **kwargs)
        try:
            if self.after:
                function(*args, **kwargs)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("SIGKILL came back")


def choose_kills(count: int, *, after: bool) -> list[int]:
    """Return the calls, of ``count``, before or after which a process is to be killed.

    A kill after a call is a kill before the next one: together the calls of both forms cover each state between two
    calls once.
    """
    return sorted({*range(1, count + 1, 2), *([count] if after else [])})


def died_at_call(n: int, work: Callable[[Seam], object], *, after: bool) -> bool:
    """Return whether ``work``, run in a separate process, was killed at its ``n``-th call; False: it makes fewer."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work(KillAt(n, after=after))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0, f"call {n}: the work failed"
    return False


class ShortWriteAt(CountingSeam):
    """Writes only the first ``keep`` bytes (default: half) at the ``n``-th ``file.write`` or ``file.pwrite``.

    The call returns the short count, as ``write(2)`` may. With ``then`` (an errno) every later write fails with it, as
    on a full disk.
    """

    def __init__(self, n: int, *, keep: int | None = None, then: int | None = None) -> None:
        super().__init__(("file.write", "file.pwrite"))
        self.n = n
        self.keep = keep
        self.then = then

    def reached(
        self, number: int, point: str, function: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> R:
        if number > self.n and self.then is not None:
            raise OSError(self.then, os.strerror(self.then))
        if number != self.n:
            return function(*args, **kwargs)
        return function(*(self._cut(argument) for argument in args), **kwargs)

    def _cut(self, argument: Any) -> Any:
        if not isinstance(argument, (bytes, bytearray, memoryview)):
            return argument
        return bytes(argument)[: len(argument) // 2 if self.keep is None else self.keep]
