"""Delay signals that end a run while locks and files are between two states.

A signal handler raises between any two steps of Python, so also between taking a lock and recording that it is held.
Inside :func:`without_interrupts` such a signal is recorded and raised at the end by the previous handler; a second one
is raised at once, so that a user can end a long wait. During long waits in which nothing is half done,
:func:`allow_interrupts` enables signals again. Only the main thread has handlers; in others both do nothing.

Called by code that holds locks or waits for them. Independent of what it protects.
"""

from __future__ import annotations

import signal
from _thread import get_ident
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["allow_interrupts", "without_interrupts"]

_ENDING_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM") if hasattr(signal, name)
)
_regions: list[without_interrupts] = []


class without_interrupts:  # noqa: N801 - used as a function
    """A region that raises a recorded signal at its end, unless another error is being raised. Regions may be
    nested."""

    def __init__(self) -> None:
        self.thread = get_ident()
        self.open = False
        self._pending: int | None = None
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}

    def __enter__(self) -> None:
        if _current_region() is not None:
            return
        for number in _ENDING_SIGNALS:
            handler = signal.getsignal(number)
            if not callable(handler):
                continue
            try:
                signal.signal(number, self._note_signal)
            except ValueError:
                return  # not the main thread
            self._handlers[number] = handler
        if self._handlers:
            _regions.append(self)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self._handlers:
            return
        _regions.remove(self)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if kind is None:
            self.deliver_signal()

    def _note_signal(self, number: int, frame: FrameType | None) -> None:
        if self.open or self._pending is not None:
            self._handlers[number](number, frame)
        else:
            self._pending = number

    def deliver_signal(self) -> None:
        """Raise the recorded signal."""
        number, self._pending = self._pending, None
        if number is not None:
            self._handlers[number](number, None)


class allow_interrupts:  # noqa: N801 - used as a function
    """A part of a :class:`without_interrupts` region in which signals are raised immediately."""

    def __enter__(self) -> None:
        self._region = _current_region()
        if self._region is not None:
            self._region.open = True
            self._region.deliver_signal()

    def __exit__(self, *_: object) -> None:
        if self._region is not None:
            self._region.open = False


def _current_region() -> without_interrupts | None:
    """The region of this thread."""
    return _regions[-1] if _regions and _regions[-1].thread == get_ident() else None
