"""Histories that a restore ended: their valid positions, and the errors for undone positions.

A restore goes back to a txid and starts a new lineage above every txid that may have been assigned since, so undone
positions can be distinguished from all existing ones. Specified in ``sow-journal(5)``, "Chain and histories". Called to
validate the position of a store, and to look up a bookmark or a txid.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sowctl.errors import DamageError, MissingError
from sowctl.values.times import format_time

if TYPE_CHECKING:
    from sowctl.journal.block import EndedHistory
    from sowctl.journal.reader import Journal


def format_history_name(lineage: bytes) -> str:
    """Return the displayed name of a history: the first eight hexadecimal digits of its lineage."""
    return lineage.hex()[:8]


def find_former_history(log: Journal, lineage: bytes) -> EndedHistory | None:
    """Return the history of ``lineage`` that ``log`` continues; None if it continues no such history."""
    return next((one for one in log.histories if one.lineage == lineage), None)


def find_undoing_history(log: Journal, txid: int) -> EndedHistory | None:
    """Return the history whose end undid ``txid``; None if no restore has undone it."""
    # The highest of these txids is not undone: the new history starts there, so it is the position of a reader that has
    # read everything before the new history.
    return next((one for one in log.histories if one.last_txid < txid < one.above), None)


def make_undone_store_error(applied: int, ended: EndedHistory, log: Journal, place: Path) -> DamageError:
    """Return DamageError ``SOW-ENG-089``: the store at ``place`` has applied entries that a restore has undone."""
    return DamageError(
        "SOW-ENG-089",
        f"the store is at txid {applied} of history {format_history_name(ended.lineage)}, which "
        f"{_describe_history_end(ended)}; the journal has history {format_history_name(log.lineage)}, which continues "
        f"at txid {ended.above + 1}",
        place=str(place),
        hint="restore the store together with the journal of its history; or run sowctl replay, "
        "which rebuilds the store from this journal and keeps the current file",
        **_list_history_facts(ended, log),
    )


def make_undone_place_error(what: str, ended: EndedHistory, log: Journal) -> MissingError:
    """Return MissingError ``SOW-ENG-072``: ``what`` (in words) names an entry that a restore has undone."""
    return MissingError(
        "SOW-ENG-072",
        f"{what} is a position in history {format_history_name(ended.lineage)} that was undone: it "
        f"{_describe_history_end(ended)}; the journals have history {format_history_name(log.lineage)}, which "
        f"continues at txid {ended.above + 1}",
        place=log.search_locations,
        hint="messages received after that txid are not in this instance: read the current state "
        f"again (query, then subscribe), or continue after txid {ended.last_txid}",
        **_list_history_facts(ended, log),
    )


def make_maybe_undone_error(what: str, log: Journal) -> MissingError | None:
    """Return the error for ``what``, a publisher's bookmark that is not in the journals and may have been undone.

    None if no restore has ended a history.
    """
    if not log.histories:
        return None
    ended = log.histories[-1]
    return MissingError(
        "SOW-ENG-072",
        f"{what} is not in the journals of history {format_history_name(log.lineage)}; it may be a "
        f"position in history {format_history_name(ended.lineage)} that was undone: it {_describe_history_end(ended)}",
        place=log.search_locations,
        hint="read the current state again (query, then subscribe); to start elsewhere, use --bookmark-not-found",
        **_list_history_facts(ended, log),
    )


def _describe_history_end(ended: EndedHistory) -> str:
    """Return a clause about the end of a history."""
    return f"ended with a restore at {format_time(ended.time)}, at txid {ended.last_txid}"


def _list_history_facts(ended: EndedHistory, log: Journal) -> dict[str, Any]:
    return {
        "history": log.lineage.hex(),
        "ended_history": ended.lineage.hex(),
        "ended_txid": ended.last_txid,
        "next_txid": ended.above + 1,
    }
