"""conflate: advances the saved states of conflated topics to the present (``behaviour`` 5.3, 11.45).

If a journal records the source, this only saves work for the next reader. Otherwise the state depends on when this
runs: all changes between two runs count as one change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.config.derived_entries import ConflatedTopic
from sowctl.engine.topics.targets import make_missing_error, split_target
from sowctl.engine.views.cache import find_cache_path
from sowctl.engine.views.conflation.conflation_store import AdvanceReport, ConflationStore
from sowctl.engine.views.conflation.state_tables import is_recorded
from sowctl.engine.views.instant import run_at_instant
from sowctl.engine.views.openers import open_derived_entry
from sowctl.errors import UsageError
from sowctl.values.times import MICROS_PER_SECOND

if TYPE_CHECKING:
    from pathlib import Path

    from sowctl.engine.instance import Instance
    from sowctl.engine.views.instant import ViewInstant


MAX_PAUSE_MICROS = MICROS_PER_SECOND
"""Maximum microseconds between two steps of following."""


class ConflateReport(Struct, frozen=True):
    """The result of one advance: number of messages shown, removed and pending; ``way``: advanced, computed, as it was.
    ``interval_us`` in microseconds; ``path`` is None if the state cannot be saved, and readers compute it."""

    topic: str
    message_type: str
    shown: int
    gone: int
    pending: int
    way: str
    interval_us: int
    path: str | None


def advance_conflated(instance: Instance, names: Sequence[str] = ()) -> Iterator[ConflateReport]:
    """Advance the conflated topics ``names``, or all, in the order of the configuration: sources first.

    Raises MissingError ``SOW-ENG-012`` and UsageError ``SOW-VIW-003`` for names, ``SOW-VIW-002`` if the source has
    neither a journal nor a file, and what opening raises.
    """
    for entry in select_conflated(instance, names):
        path = find_cache_path(instance, entry)
        if path is None:
            if not is_recorded(instance, entry):
                raise UsageError(
                    "SOW-VIW-002",
                    f"the state of {entry.name!r} cannot be saved: its source has neither a journal nor a file",
                    hint="give the source a FileName, or add it to the TransactionLog",
                    topic=entry.name,
                )
            done = AdvanceReport(0, 0, 0, "computed by readers")
        else:
            done = run_at_instant(instance, entry, None, open_derived_entry, partial(_advance_topic, entry, path))
        yield ConflateReport(
            entry.name,
            entry.message_type,
            done.shown,
            done.gone,
            done.pending,
            done.way,
            entry.interval_us,
            None if path is None else str(path),
        )


def follow_conflated(
    instance: Instance, names: Sequence[str], sleep: Callable[[float], None]
) -> Iterator[list[ConflateReport]]:
    """Call :func:`advance_conflated` repeatedly, without end; ``sleep`` is called with the seconds until the next
    time."""
    # Often enough to miss no interval, and for people who watch the output.
    shortest = min((entry.interval_us for entry in select_conflated(instance, names)), default=MAX_PAUSE_MICROS)
    while True:
        yield list(advance_conflated(instance, names))
        sleep(min(shortest / 2, MAX_PAUSE_MICROS) / MICROS_PER_SECOND)


def _advance_topic(entry: ConflatedTopic, path: Path, moment: ViewInstant) -> AdvanceReport:
    return ConflationStore(moment, entry, path).advance()


def select_conflated(instance: Instance, names: Sequence[str] = ()) -> list[ConflatedTopic]:
    """Return the conflated topics with these names, or all. Raises MissingError ``SOW-ENG-012``, UsageError
    ``SOW-VIW-003``."""
    entries = instance.config.sow if instance.config is not None else ()
    if not names:
        return [entry for entry in entries if isinstance(entry, ConflatedTopic)]
    wanted = [split_target(name) for name in names]
    for name, kind in wanted:
        found = [entry for entry in entries if entry.name == name and kind in (None, entry.message_type)]
        if not found:
            raise make_missing_error(instance, name, kind)
        if not any(isinstance(entry, ConflatedTopic) for entry in found):
            all_names = ", ".join(entry.name for entry in entries if isinstance(entry, ConflatedTopic))
            hint = f"the conflated topics are {all_names}" if all_names else "the configuration has no conflated topics"
            raise UsageError(
                "SOW-VIW-003", f"{name!r} is a {found[0].kind}, not a conflated topic", hint=hint, topic=name
            )
    return [
        entry
        for entry in entries
        if isinstance(entry, ConflatedTopic)
        and any(entry.name == name and kind in (None, entry.message_type) for name, kind in wanted)
    ]
