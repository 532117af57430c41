"""Waiting until something new may exist: by notification of the kernel where available, else by polling.

A file event says "look again" and nothing else; what has changed is found out by reading. Events come from one inotify
watch for each directory. They do not come from every file system (network shares, mounted folders of other systems),
so a look is taken every second beside them; where such a look finds what no event announced, this waker relies on
looking alone from then on. Called by :mod:`sowctl.engine.subscriptions.subscription`.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from sowctl.engine.subscriptions.limits import SUBSCRIPTION_LIMITS

POLL_INTERVAL_SECONDS = 0.025
"""Seconds between two looks where no events come: a change is noticed within 50 ms, and a look takes about 0.1 ms."""
_INOTIFY_EVENTS = 0x002 | 0x080 | 0x040 | 0x100 | 0x200
"""inotify(7): IN_MODIFY, IN_MOVED_TO, IN_MOVED_FROM, IN_CREATE, IN_DELETE."""
_CLOEXEC_NONBLOCK = os.O_CLOEXEC | os.O_NONBLOCK


class Waker:
    """Watches directories from when it is made.

    ``inputs`` are further descriptors that may end a wait, ``output`` is one whose reader may go away meanwhile.
    """

    def __init__(
        self,
        directories: Iterable[Path],
        inputs: Iterable[int] = (),
        output: int | None = None,
        *,
        events: bool = True,
    ) -> None:
        self._directories = tuple(dict.fromkeys(directories))
        self._poll = select.poll()
        self._inputs = frozenset(inputs)
        for number in self._inputs:
            self._poll.register(number, select.POLLIN)
        self._output = output
        if output is not None:
            # Nothing is asked for; that the other end was closed is reported in any case.
            self._poll.register(output, 0)
        # Whether a directory is watched in the place of one that is not there yet.
        self._standins = False
        self._events: int | None = None
        if events:
            self._watch_directories()
        self.looked = False
        """Whether the last wait ended without an event."""
        self._woken = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK) if hasattr(os, "eventfd") else None
        if self._woken is not None:
            self._poll.register(self._woken, select.POLLIN)

    def wake(self) -> None:
        """End a wait, from another thread; where the system has no way to, it ends at the next look."""
        if self._woken is not None:
            os.eventfd_write(self._woken, 1)

    @property
    def has_events(self) -> bool:
        """True if changes are announced by events."""
        return self._events is not None

    def wait(self, longest: float | None) -> frozenset[int]:
        """Wait for an event, an input, or the time for the next look, at most ``longest`` seconds.

        Gives the inputs that can be read, or whose other end has gone. Raises BrokenPipeError where nobody reads the
        output any more.
        """
        pause = POLL_INTERVAL_SECONDS if self._events is None else SUBSCRIPTION_LIMITS.event_recheck_seconds
        if longest is not None:
            pause = max(0.0, min(pause, longest))
        ready = {number for number, _ in self._poll.poll(pause * 1000)}
        if self._output in ready:
            raise BrokenPipeError
        # Of many events one look is made: they are read away together.
        if self._events in ready:
            self._drain_events()
            self.looked = False
            if self._standins:
                # Before the look: what comes behind it is announced by the directory that has been made since.
                self._watch_directories()
        else:
            self.looked = True
        return self._inputs & ready

    def note_change_found(self) -> bool:
        """Say that the look behind the last wait found something; whether that shows that events do not come."""
        if not self.looked or self._events is None:
            return False
        # The event may have come between the end of the wait and the look.
        if select.select([self._events], [], [], 0)[0]:
            return False
        self._close_descriptors()
        return True

    def forget_input(self, number: int) -> None:
        """An input has come to its end."""
        if number in self._inputs:
            self._inputs -= {number}
            self._poll.unregister(number)

    def _watch_directories(self) -> None:
        """Watch the directories; of one that is not there, the nearest one above it, in which it will be made."""
        places = None
        # One that is made between looking for it and watching the one above would be missed: then once more.
        while places != (places := [_find_existing_directory(directory) for directory in self._directories]):
            self._close_descriptors()
            self._events = _watch_with_inotify(places)
        self._standins = places != list(self._directories)
        if self._events is not None:
            self._poll.register(self._events, select.POLLIN)

    def _drain_events(self) -> None:
        assert self._events is not None
        with suppress(BlockingIOError):
            while len(os.read(self._events, 1 << 16)) > 1 << 15:
                pass

    def _close_descriptors(self) -> None:
        # The waker forgets the descriptor first: an interrupt may come between any two lines, and what is closed twice
        # may be somebody else's descriptor by then. It may also have come before the descriptor was registered.
        events, self._events = self._events, None
        if events is not None:
            with suppress(KeyError):
                self._poll.unregister(events)
            os.close(events)

    def close(self) -> None:
        """End the watches."""
        self._close_descriptors()
        woken, self._woken = self._woken, None
        if woken is not None:
            os.close(woken)

    def __del__(self) -> None:
        # A subscription that was iterated and forgotten: a user may have few inotify instances, 128 by default.
        if hasattr(self, "_woken"):
            self.close()


def _find_existing_directory(directory: Path) -> Path:
    """A directory, or the nearest one above it that is there."""
    while not directory.is_dir() and directory.parent != directory:
        directory = directory.parent
    return directory


def _watch_with_inotify(directories: Iterable[Path]) -> int | None:
    """A descriptor of inotify(7) that watches all of the directories; None where one of them cannot be watched."""
    try:
        import ctypes

        library = ctypes.CDLL(None, use_errno=True)
        begin, add = library.inotify_init1, library.inotify_add_watch
    except (ImportError, OSError, AttributeError):
        return None
    descriptor = begin(_CLOEXEC_NONBLOCK)
    if descriptor < 0:
        return None
    for directory in directories:
        # A directory that has just gone, or one watch too many for the user's limit: looking does without.
        if add(descriptor, os.fsencode(directory), _INOTIFY_EVENTS) < 0:
            os.close(descriptor)
            return None
    return int(descriptor)
