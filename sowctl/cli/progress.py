"""Progress of a long reading: one line on standard error, written over itself and gone at the end.

Nothing is drawn in the first seconds, since most commands end within them, nor once records go to the terminal. With
``--progress always`` it is drawn at once, and again where another thing is counted; with ``--progress json`` it is an
object a second.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from sowctl.cli.streams import Streams
from sowctl.values.display import format_count, format_duration

INITIAL_DELAY_SECONDS = 2.0
"""Seconds before the first drawing."""
DRAW_INTERVAL_SECONDS = 0.2
"""Seconds between two drawings."""
JSON_INTERVAL_SECONDS = 1.0
"""Seconds between two objects."""


class ProgressMeter:
    """``mode`` is that of --progress, ``shown`` whether auto means yes; ``clock`` counts seconds.

    ``name`` is the command; one meter counts one thing after another, such as the journal and then a store.
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
        """``done`` of ``total`` ``what``, such as records; of 0, where the number is not known.

        Cheap where nothing is to be drawn yet.
        """
        if not self._on:
            return
        now = self._clock()
        if (what, total) != self._counted:
            # Another thing is counted from here: its rate is not that of the one before.
            self._counted, self._begin, self._from = (what, total), now, done
            # Who asked to see it always sees each thing that is counted, however soon it is done.
            self._next = now if self._always else self._next
        # The last word of a line that is there is written at once: nothing may be told for a while behind it.
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
        share = f"{100 * done // total} % of " if total else ""
        # What ends a phase, such as a sync, is not counted: no time is promised for it.
        rest = f", {format_duration(left, whole=True)} left" if left is not None and left >= 0.5 else ""
        rest = ", finishing" if total and done >= total else rest
        self._draw_line(f"{self._name}: {share}{_format_counted(total or done, what)}{rest}")
        self._drawn = True

    def erase(self) -> None:
        """Take the line away, before something else is written; it may be drawn again."""
        if self._drawn:
            self._drawn = False
            self._draw_line("")

    def end(self) -> None:
        """Take the line away for good: from here on, what is written tells how far it has come."""
        self.erase()
        self._on = self._on and self._json

    def _draw_line(self, text: str) -> None:
        self._on = self._streams.draw_line(text) and self._on


def _format_counted(count: int, what: str) -> str:
    """A count of ``what``, a plural noun that words may follow: ``1 entry``, ``2 records to index``."""
    noun, *rest = re.split(r"(?= (?:of|to) )", what, maxsplit=1)
    one = noun.removesuffix("ies") + "y" if noun.endswith("ies") else noun.removesuffix("s")
    return format_count(count, "".join([one, *rest]), what)
