"""Rotation: finishing the active journal file and starting a new one, so that the finished one can be compressed,
archived, pruned.

A writer does the same under the same lock when a file is full. Called by ``sowctl journal rotate``. Specified in
``sow-journal(5)``, "A new file".
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.engine.maintenance.retention.journals import list_journal_files
from sowctl.engine.topics.positions import open_log
from sowctl.engine.writing.session import open_journal
from sowctl.journal.format import format_file_name
from sowctl.remote.place import require_local

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.journal.maintenance.survey import SurveyedFile


class RotatedFile(Struct, frozen=True):
    """The file that was finished, or with ``dry_run`` would be: its size in bytes, its txids, and the file after it.

    ``last_txid`` is None with ``dry_run``: entries may be added until it is finished.
    """

    number: int
    path: Path
    next_path: Path
    size: int
    first_txid: int
    last_txid: int | None
    dry_run: bool


def rotate_journal(instance: Instance, *, dry_run: bool = False) -> RotatedFile | None:
    """Finish the active file and start the next one; return None if the active file has no entry and so stays active.

    Raises MissingError ``SOW-JRN-001`` without a journal, LockedError ``SOW-JRN-030``, StorageError ``SOW-JRN-021``,
    RefusedError ``SOW-JRN-052``, and the DamageErrors of reading.
    """
    active = list_journal_files(instance)[-1]
    next_path = _build_next_path(instance, active)
    if dry_run:
        return _describe(active, next_path, None, dry_run=True) if _has_entries(instance, active) else None
    with open_journal(instance) as writer, writer.hold_lock():
        finished = writer.begin_next_file(instance.now)
    if not finished:
        return None
    files = list_journal_files(instance)
    # Other writers may have finished further files since the lock was released.
    done = next((file for file in files if file.number == finished - 1), active)
    return _describe(done, _build_next_path(instance, done), done.last_txid, dry_run=False)


def _has_entries(instance: Instance, active: SurveyedFile) -> bool:
    with open_log(instance) as log:
        return log.read_last_txid() >= active.first_txid


def _build_next_path(instance: Instance, file: SurveyedFile) -> Path:
    assert instance.config is not None
    assert instance.log is not None
    return require_local(instance.log.directory) / format_file_name(instance.config.name, file.number + 1)


def _describe(file: SurveyedFile, next_path: Path, last_txid: int | None, *, dry_run: bool) -> RotatedFile:
    return RotatedFile(file.number, file.path, next_path, file.size, file.first_txid, last_txid, dry_run)
