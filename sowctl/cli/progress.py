"""Progress of a long operation: one line on standard error, which is overwritten and erased at the end.

Nothing is drawn in the first seconds, since most commands end within them, nor after records are written to the
terminal. With ``--progress always`` it is drawn at once, and again whenever another item is counted; with
``--progress json`` it is an object per second.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from sowctl.cli.streams import Streams
from sowctl.values.display import format_count, format_duration

INITIAL_DELAY_SECONDS = 2.0
"""Seconds before the first update."""
DRAW_INTERVAL_SECONDS = 0.2
"""Seconds between two updates."""
JSON_INTERVAL_SECONDS = 1.0
"""Seconds between two objects."""


class ProgressMeter:
    """``mode`` is that of --progress, ``shown`` is whether auto means yes; ``clock`` counts seconds.

    ``name`` is the command; one meter counts several items in turn, such as the journal and then a store.
    """

    def __init__(
        self, streams: Streams, name: str, mode: str, *, shown: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._streams, self._name, self._clock = streams, name, clock
        self._json = mode == "json"
        self._always = mode == "always"
        self._on = shown or self._json
        self._next = clock() + (0.0 if self._always else JSON_INTERVAL_SECONDS if self._json else INITIAL_DELAY_SECONDS)
        self._counted: tuple[str, int] | None = None
        self._begin = 0.0
        self._from = 0
        self._drawn = False
        if self._on and not self._json:
            streams.under = self.erase

    def show_progress(self, what: str, done: int, total: int) -> None:
        """Show ``done`` of ``total`` ``what``, such as records; ``total`` is 0 if it is unknown.

        Cheap if nothing is to be drawn yet.
        """
        if not self._on:
            return
        now = self._clock()
        if (what, total) != self._counted:
            # Another item is counted from here: it has a new rate.
            self._counted, self._begin, self._from = (what, total), now, done
            # With --progress always, each counted item is shown, however soon it is finished.
            self._next = now if self._always else self._next
        # The final state of a drawn line is written at once: nothing else may be written for a while.
        if now < self._next and not (self._drawn and total and done >= total):
            return
        seconds = now - self._begin
        left = seconds * (total - done) / (done - self._from) if total and done > self._from else None
        if self._json:
            self._next = now + JSON_INTERVAL_SECONDS
            row = {"command": self._name, "counted": what, "done": done, "total": total}
            self._streams.write_stderr_json(row | {"seconds_left": None if left is None else round(left, 1)})
            return
        self._next = now + DRAW_INTERVAL_SECONDS
        # The end of a phase, such as a sync, is not counted: its duration is unknown.
        rest = f", {format_duration(left, whole=True)} left" if left is not None and left >= 0.5 else ""
        rest = ", finishing" if total and done >= total else rest
        self._draw_line(f"{self._name}: {format_share(what, done, total)}{rest}")
        self._drawn = True

    def erase(self) -> None:
        """Erase the line before other output; it may be drawn again."""
        if self._drawn:
            self._drawn = False
            self._draw_line("")

    def end(self) -> None:
        """Erase the line permanently: from here on, the output itself shows the progress."""
        self.erase()
        self._on = self._on and self._json

    def _draw_line(self, text: str) -> None:
        self._on = self._streams.draw_line(text) and self._on


def format_share(what: str, done: int, total: int) -> str:
    """``done`` of ``total`` ``what``, a plural noun: ``40 % of 3,000 records to index``; of 0, where the number is not
    known: ``1,200 records to index``.
    """
    share = f"{100 * done // total} % of " if total else ""
    return share + _format_counted(total or done, what)


def _format_counted(count: int, what: str) -> str:
    """A count of ``what``, a plural noun that may be followed by words: ``1 entry``, ``2 records to index``."""
    noun, *rest = re.split(r"(?= (?:of|to) )", what, maxsplit=1)
    one = noun.removesuffix("ies") + "y" if noun.endswith("ies") else noun.removesuffix("s")
    return format_count(count, "".join([one, *rest]), what)
