"""The end of a growing journal: every entry after a txid, once, even if files are moved or removed meanwhile.

A position is a lineage and a txid, with a file number and an offset as a hint: a file that was rolled, compressed,
moved to the archive or removed is identified by its content, not by its name. Groups are read as a whole and an
incomplete end is held back, because the journal's reader returns only complete groups (``sow-journal(5)``, "Reading").
Called by :mod:`sowctl.engine.subscriptions.subscription`. Specified in ``behaviour`` 4.1 and 4.6.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sowctl.engine.subscriptions.storetail import read_file_stamp
from sowctl.engine.topics.positions import has_log, open_log
from sowctl.errors import DamageError, MissingError
from sowctl.journal.fileset import REMOVED_FILE_CODE

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.journal.block import Block, Position
    from sowctl.journal.reader import Journal
    from sowctl.values.topicref import TopicRef

ENTRIES_PRUNED = "SOW-FOL-001"
OTHER_JOURNAL = "SOW-FOL-002"
FILE_SETTLED_NANOSECONDS = 1_000_000_000
"""Nanoseconds after a change of a file from which another change is certain to have a different modification time."""


class JournalTail:
    """The journal of an instance after a txid. ``txid``: everything up to it was returned, or was not requested.

    The journal may not exist yet; then there are no blocks until it is created.
    """

    def __init__(self, instance: Instance) -> None:
        self.txid = 0
        self._instance = instance
        self._log: Journal | None = None
        self._lineage: bytes | None = None
        self._place: Position | None = None
        self._seen: tuple[int, tuple[int, int, int]] | None = None
        self._file: tuple[Path, int] | None = None
        self._waited = False
        self._ended: tuple[tuple[tuple[int, int, int], ...], int] | None = None

    @property
    def exists(self) -> bool:
        """True if the journal exists."""
        return self._open_journal() is not None

    def list_topics(self) -> Collection[TopicRef]:
        """Return the topics with entries in the journal now. Raises what reading raises."""
        log = self._open_journal()
        return () if log is None else log.read_topic_states()

    def read_end_txid(self) -> int:
        """Return the last txid of the journal now; 0 without a journal. Raises what reading raises.

        Called often while nothing happens, so the journal is read only if its directory or its last file has changed
        since, or shortly before the last call: modification times are coarse.
        """
        marks = self._read_file_marks()
        if self._ended is not None and marks == self._ended[0]:
            return self._ended[1]
        log = self._open_journal()
        found = 0 if log is None else log.read_last_txid()
        # The marks from before the read, so that a change during the read causes another read.
        latest = max((mark[1] for mark in marks), default=0)
        self._ended = (
            (marks, found)
            if latest < time.time_ns() - FILE_SETTLED_NANOSECONDS and marks == self._read_file_marks()
            else None
        )
        return found

    def _read_file_marks(self) -> tuple[tuple[int, int, int], ...]:
        """Return the file attributes of the journal's directory and last file that change with them, without missing
        files."""
        log = self._instance.log
        paths = [] if log is None else [log.directory]
        if self._log is not None and isinstance(last := self._log.last_path, Path):
            paths.append(last)
        return tuple(mark for path in paths if (mark := read_file_stamp(path)) is not None)

    def start_after(self, after: int) -> None:
        """Start with the entries after ``after``. Raises MissingError ``SOW-FOL-001`` if these were pruned."""
        self.txid = after
        self._place = None
        log = self._open_journal()
        self._waited = log is None
        if log is not None:
            log.refresh_state()  # the list of files predates the states: read it again
            self._refuse_pruned_entries(log)

    def read_blocks(self, until: int | None = None) -> Iterator[Block]:
        """Yield the present blocks after ``txid``, up to the txid ``until``; complete blocks, even if they include
        either limit.

        A block counts as returned when the next one is requested. Raises MissingError ``SOW-FOL-001`` if entries were
        removed before they were read, DamageError ``SOW-FOL-002`` if the journal was replaced by another one, and what
        reading raises.
        """
        log = self._open_journal()
        if log is None:
            return
        state = log.refresh_state()
        # The same txid is the same end only if it is the same block: txids of an append that was undone are reused.
        known = self._seen is None or state.block_identity is None or state.block_identity == self._seen[1]
        if state.end.txid == self.txid and known:
            return
        # Checked before the first block: otherwise the scan would silently start with the remaining files.
        self._refuse_pruned_entries(log)
        self._refuse_other_journal(log)
        end, last = state.end, state.block_identity
        # Bounded by the end just read, because _place and _seen are set to that end below.
        upto = end.txid if until is None else min(until, end.txid)
        try:
            for block in log.iter_blocks(after=self.txid, until=upto, start=self._place):
                yield block
                self.txid = min(block.last_txid, upto)
                self._seen = block.last_txid, block.identity
                if block.header.is_last:
                    # Between two groups: the next read starts here without a search.
                    self._place = block.end
        except MissingError as error:
            # Files removed during the read leave entries unread, as files removed before it do.
            if error.code == REMOVED_FILE_CODE:
                self.close()
                if (rest := self._open_journal()) is not None:
                    self._refuse_pruned_entries(rest)
            raise
        # Txids of aborted groups and of skipped entries are passed over as well.
        self.txid = max(self.txid, upto)
        if upto == end.txid:
            self._place = end
            self._seen = self._seen if last is None else (end.txid, last)

    def close(self) -> None:
        """Close the files."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def _open_journal(self) -> Journal | None:
        """Return the journal, reopened if its last file was replaced; None if it does not exist."""
        if self._log is not None and self._is_replaced(self._log):
            self.close()
        if self._log is None:
            if not has_log(self._instance):
                return None
            log = open_log(self._instance)
            if self._lineage is None:
                # A journal created in the meantime is read from its beginning, which is after the positions of all
                # stores.
                self.txid = max(self.txid, log.first_txid - 1) if self._waited else self.txid
            elif log.lineage != self._lineage:
                place = str(log.directory)
                log.close()
                raise DamageError(
                    OTHER_JOURNAL,
                    "the journal of the subscription was replaced by another journal",
                    place=place,
                    hint="start again without a bookmark: the delivered messages belong to the previous journal",
                )
            self._log, self._lineage, self._file = log, log.lineage, None
        return self._log

    def _is_replaced(self, log: Journal) -> bool:
        """Return whether the name of the last file refers to another file than before, as after a restore."""
        path = log.last_path
        if not isinstance(path, Path):
            return False  # no file here yet; files in an archive are never replaced
        try:
            found = path, os.stat(path).st_ino  # noqa: PTH116 - asked at every look
        except OSError:
            # Archived or compressed: the next read finds it at its new place.
            return False
        before, self._file = self._file, found
        return before is not None and before[0] == path and before != found

    def _refuse_pruned_entries(self, log: Journal) -> None:
        if not log.reaches_txid(self.txid + 1):
            first = log.first_txid
            raise MissingError(
                ENTRIES_PRUNED,
                f"entries after txid {self.txid} are required, but the oldest entry in the journals has "
                f"txid {first} (searched {log.search_locations})",
                hint=f"start at txid {first - 1}, or with the current state",
                first_txid=first,
            )

    def _refuse_other_journal(self, log: Journal) -> None:
        """Reject a journal whose entries up to here are not those that were returned.

        Copies share the lineage, and the txids of a failed append that was undone are reused. Reads one header.
        """
        ends = log.read_last_txid()
        if self._seen is None:
            same = ends >= self.txid
        else:
            txid, block = self._seen
            same = ends >= txid and log.has_block(block, txid)
        if not same:
            raise DamageError(
                OTHER_JOURNAL,
                f"the journal ends at txid {ends}, but entries up to txid {self.txid} were delivered",
                place=str(log.directory),
                hint="the journal was restored to an earlier state: start again without a bookmark",
            )
