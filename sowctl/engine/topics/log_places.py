"""Positions in the log as instants: bookmarks and txids that name a past state of a topic (``behaviour`` 3.6, 4.6).

The command line and the data sources of Spark resolve instants here; ``values.times`` parses times. EPOCH is instant 0
and means the oldest available state (``sources.past``); NOW is not an instant but the current state. Modules that a
plain time does not need are imported only when used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sowctl.engine.topics.histories import find_undoing_history, make_maybe_undone_error, make_undone_place_error
from sowctl.errors import MissingError
from sowctl.structs import DescribedStruct
from sowctl.values.display import format_count
from sowctl.values.times import EntryInstant, format_time, parse_instant
from sowctl.values.units import parse_whole_number

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.identity.bookmarks import Bookmark
    from sowctl.journal.reader import Journal
    from sowctl.remote.place import Place
    from sowctl.values.times import Clock, Micros


class LogPlace(DescribedStruct, frozen=True):
    """An entry of the log: its txid, and its time in microseconds UTC."""

    txid: int
    time: Micros


LOG_BEGINNING = LogPlace(0, 0)
"""The position before every entry: the bookmark EPOCH."""


class Moment(DescribedStruct, frozen=True):
    """The value of ``at``: an instant, an entry to look up, or neither: now."""

    time: Micros | None = None
    entry: str | None = None

    def resolve_time(self, instance: Instance) -> Micros | None:
        """Return the instant, None for the present; for an entry, the instant of the state after it.

        Raises MissingError ``SOW-ENG-070`` for an entry that does not exist.
        """
        if self.entry is None:
            return self.time
        place = find_log_place(instance, self.entry)
        if place is None or place == LOG_BEGINNING:
            return None if place is None else place.time
        return EntryInstant(place.time, place.txid)


def parse_moment(text: str | None, clock: Clock) -> Moment:
    """Parse ``at``: a time, a bookmark, or the txid of an entry: a bare number or ``txid:N``. Raises UsageError."""
    if text is None:
        return Moment()
    if "|" in text:
        from sowctl.identity.bookmarks import parse_bookmark

        parse_bookmark(text)
        return Moment(entry=text)
    if (txid := parse_txid(text)) is not None:
        return Moment(entry=str(txid))
    return Moment(parse_instant(text, clock))


def parse_txid(text: str) -> int | None:
    """Return the txid that a bare number or ``txid:N`` names; None for any other text."""
    word = text.strip()
    return parse_whole_number(word[5:].strip() if word[:5].lower() == "txid:" else word)


def find_log_place(instance: Instance, text: str, directory: Place | None = None) -> LogPlace | None:
    """Return the entry that a bookmark or a txid names; :data:`LOG_BEGINNING` for EPOCH, None for NOW, the present.

    ``directory`` is another directory of the journals than the configured one. Of several entries with one bookmark,
    such as those of a Spark commit, returns the last. Every bookmark that a dump prints is found. Raises UsageError
    ``SOW-IDN-001`` if the text is neither, MissingError ``SOW-ENG-070`` for an entry that is not in the journals, and
    what opening them raises.
    """
    from sowctl.engine.topics.positions import open_whole_log
    from sowctl.identity.bookmarks import EPOCH, NOW, parse_bookmark

    word = text.strip()
    if word.upper() == "EPOCH":
        return LOG_BEGINNING
    if (txid := parse_whole_number(word)) is not None:
        return _require_entry_at_txid(instance, txid, directory) if txid else LOG_BEGINNING
    bookmark = parse_bookmark(word)
    if bookmark == NOW:
        return None
    if bookmark == EPOCH:
        return LOG_BEGINNING
    with open_whole_log(instance, directory) as log:
        found = find_last_entry(log, bookmark, instance)
    if found is None:
        raise make_maybe_undone_error(f"bookmark {bookmark}", log) or MissingError(
            "SOW-ENG-070",
            f"bookmark {bookmark} is not in the journals",
            hint="sowctl journal dump shows the bookmarks of all entries",
        )
    return found


def note_later_entries(instance: Instance, name: str, place: LogPlace) -> None:
    """Report that ``name`` is shown as of the time of an entry, if entries before it have later times."""
    from sowctl.engine.topics.positions import open_log

    later = 0
    with open_log(instance) as log:
        for block in log.iter_blocks(until=place.txid):
            if block.header.latest > place.time:
                count = place.txid + 1 - block.first_txid
                later += sum(time > place.time for time in list(block.decode_columns().times)[:count])
    if later:
        words = f"{name} is shown as of the time of txid {place.txid}, {format_time(place.time)}"
        verb = "is" if later == 1 else "are"
        instance.notify_once(
            f"times before txid {place.txid}",
            f"{words}; {format_count(later, 'entry', 'entries')} with a lower txid {verb} later than that",
        )


def find_last_entry(log: Journal, bookmark: Bookmark, instance: Instance) -> LogPlace | None:
    """Return the last entry with a bookmark, None without one; an atomic group may have several.

    A bookmark of the instance itself names an entry without a publisher's number by its txid. A client with the
    instance's name takes precedence: its sequence numbers are its own.
    """
    found = None
    # The bookmark of an entry without a client's number is the instance's hash and the txid (decision 54).
    if bookmark.publisher == instance.publisher_id:
        # No client has the instance's name, so no block needs to be searched for its numbers.
        if not log.find_highest_sequence(bookmark.publisher):
            return _find_entry_at_txid(log, bookmark.sequence, own=True)
        found = _find_entry_at_txid(log, bookmark.sequence, own=True)
    for block in log.iter_blocks():
        # The block's map lists its publishers: blocks without this one are not decompressed.
        if all(row.hash != bookmark.publisher for row in block.map.publishers):
            continue
        for entry in block.iter_entries():
            if (entry.publisher, entry.sequence) == (bookmark.publisher, bookmark.sequence):
                # No return here: of several entries with one bookmark, the last one is returned.
                found = LogPlace(entry.txid, entry.time)
    return found


def _find_entry_at_txid(log: Journal, txid: int, *, own: bool = False) -> LogPlace | None:
    """Return the entry with a txid, None without one; with ``own`` only an entry without a publisher's number."""
    if not log.first_txid <= txid <= log.read_last_txid():
        return None
    if (ended := find_undoing_history(log, txid)) is not None:
        raise make_undone_place_error(f"txid {txid}", ended, log)
    for block in log.iter_blocks(after=txid - 1, until=txid):
        for entry in block.iter_entries():
            if entry.txid == txid and not (own and entry.sequence):
                return LogPlace(txid, entry.time)
    return None


def _require_entry_at_txid(instance: Instance, txid: int, directory: Place | None) -> LogPlace:
    from sowctl.engine.topics.positions import open_whole_log

    with open_whole_log(instance, directory) as log:
        last = log.read_last_txid()
        if (found := _find_entry_at_txid(log, txid)) is not None:
            return found
        raise MissingError(
            "SOW-ENG-070",
            f"txid {txid} is not in the journals, which have txids {log.first_txid} to {last}",
            hint=_explain_missing_txid(log, txid),
        )


def _explain_missing_txid(log: Journal, txid: int) -> str:
    """Explain why there is no entry with ``txid``, as far as the journal shows, and where it may be found."""
    if 0 < txid < log.first_txid:
        return (
            f"entries before txid {log.first_txid} were pruned, or their files are missing; an "
            "older backup may have them"
        )
    for gap in log.iter_gaps():
        if gap.first_txid <= txid <= gap.last_txid:
            return f"a repair removed txids {gap.first_txid} to {gap.last_txid}; their bytes are in {gap.receipt}"
    return f"a time requires a unit: {txid}s or {txid}ms since 1970"
