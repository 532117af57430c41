"""Waiting for possible changes: by notification of the kernel if available, else by polling.

A file event only means "check again"; reading finds out what has changed. Events come from one inotify watch per
directory. Some file systems send none (network shares, mounted folders of other systems), so there is a poll every
second in addition; if such a poll finds a change that no event announced, the waker only polls from then on. Called by
:mod:`sowctl.engine.subscriptions.subscription`.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from sowctl.engine.subscriptions.limits import SUBSCRIPTION_LIMITS

POLL_INTERVAL_SECONDS = 0.025
"""Seconds between two polls without events: a change is noticed within 50 ms, and a poll takes about 0.1 ms."""
_INOTIFY_EVENTS = 0x002 | 0x080 | 0x040 | 0x100 | 0x200
"""inotify(7): IN_MODIFY, IN_MOVED_TO, IN_MOVED_FROM, IN_CREATE, IN_DELETE."""
_CLOEXEC_NONBLOCK = os.O_CLOEXEC | os.O_NONBLOCK


class Waker:
    """Watches directories from construction on.

    ``inputs`` are further descriptors that may end a wait, ``output`` is one whose reader may close it meanwhile.
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
            # No event is requested; closing of the other end is reported in any case.
            self._poll.register(output, 0)
        # Whether a parent directory is watched instead of a missing directory.
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
        """End a wait, from another thread; without system support, the wait ends at the next poll."""
        if self._woken is not None:
            os.eventfd_write(self._woken, 1)

    @property
    def has_events(self) -> bool:
        """True if changes are announced by events."""
        return self._events is not None

    def wait(self, longest: float | None) -> frozenset[int]:
        """Wait for an event, an input, or the time of the next poll, at most ``longest`` seconds.

        Returns the inputs that are readable, or whose other end was closed. Raises BrokenPipeError if the reader of the
        output has closed it.
        """
        pause = POLL_INTERVAL_SECONDS if self._events is None else SUBSCRIPTION_LIMITS.event_recheck_seconds
        if longest is not None:
            pause = max(0.0, min(pause, longest))
        ready = {number for number, _ in self._poll.poll(pause * 1000)}
        if self._output in ready:
            raise BrokenPipeError
        # Several events cause one check: they are drained together.
        if self._events in ready:
            self._drain_events()
            self.looked = False
            if self._standins:
                # Before the check: later changes are announced by the directory that exists now.
                self._watch_directories()
        else:
            self.looked = True
        return self._inputs & ready

    def note_change_found(self) -> bool:
        """Note that the check after the last wait found a change; return whether that shows that no events are sent."""
        if not self.looked or self._events is None:
            return False
        # The event may have come between the end of the wait and the check.
        if select.select([self._events], [], [], 0)[0]:
            return False
        self._close_descriptors()
        return True

    def forget_input(self, number: int) -> None:
        """Stop waiting for an input."""
        if number in self._inputs:
            self._inputs -= {number}
            self._poll.unregister(number)

    def _watch_directories(self) -> None:
        """Watch the directories; for a missing one, its nearest existing parent, in which it will be created."""
        places = None
        # A directory created between the search and the watch of its parent would be missed: then repeat.
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
        # Drop the descriptor first: an interrupt may come between any two lines, and closing twice may close a
        # descriptor that has been reused. It may also come before the descriptor was registered.
        events, self._events = self._events, None
        if events is not None:
            with suppress(KeyError):
                self._poll.unregister(events)
            os.close(events)

    def close(self) -> None:
        """Close the watches."""
        self._close_descriptors()
        woken, self._woken = self._woken, None
        if woken is not None:
            os.close(woken)

    def __del__(self) -> None:
        # A subscription that was iterated and dropped: a user may have few inotify instances, 128 by default.
        if hasattr(self, "_woken"):
            self.close()


def _find_existing_directory(directory: Path) -> Path:
    """Return a directory, or its nearest existing parent."""
    while not directory.is_dir() and directory.parent != directory:
        directory = directory.parent
    return directory


def _watch_with_inotify(directories: Iterable[Path]) -> int | None:
    """Return an inotify(7) descriptor that watches all of the directories; None if one of them cannot be watched."""
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
        # A directory that was just removed, or a watch beyond the user's limit: polling works without.
        if add(descriptor, os.fsencode(directory), _INOTIFY_EVENTS) < 0:
            os.close(descriptor)
            return None
    return int(descriptor)
