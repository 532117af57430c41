"""Archiving finished journal files: to the JournalArchiveDirectory, where all readers find them as before, or to a URL.

Called by ``sowctl journal archive`` and the action of that name. Specified in ``sow-journal(5)``, "Looking after
files", and ``sow-archive(5)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.engine.maintenance.retention.journals import hold_journal_files, list_journal_files, require_transaction_log
from sowctl.errors import ConfigError, RefusedError
from sowctl.journal.maintenance.relocation import move_file
from sowctl.journal.maintenance.upload import ArchiveUpload
from sowctl.remote.place import Place, RemotePath

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.journal.maintenance.survey import SurveyedFile


class ArchivedFile(Struct, frozen=True):
    """A file that was moved or uploaded, or with ``dry_run`` would be: source, destination, size in bytes, txids."""

    number: int
    path: Path
    archived: Place
    size: int
    first_txid: int
    last_txid: int | None
    dry_run: bool


def archive_files(
    instance: Instance, *, older_than: int | None = None, keep: int = 0, dry_run: bool = False
) -> Iterator[ArchivedFile]:
    """Move finished files, oldest first; yield each when it is moved. The active file stays.

    To a JournalArchiveDirectory at a URL they are uploaded, as by :func:`archive_to_url`, and stay here. ``older_than``
    microseconds: only files that were not written to for this time and have no newer entry. ``keep``: number of newest
    finished files that stay. Raises ConfigError ``SOW-UPK-001`` without a JournalArchiveDirectory, LockedError
    ``SOW-JRN-060``, StorageError ``SOW-JRN-061``, and what listing the journal raises.
    """
    _, log = require_transaction_log(instance)
    if log.archive_url is not None:
        yield from archive_to_url(instance, log.archive_url, older_than=older_than, keep=keep, dry_run=dry_run)
        return
    target = log.moved_archive
    if target is None or target.resolve() == log.directory.resolve():
        raise ConfigError(
            "SOW-UPK-001",
            "the journal has no archive directory"
            if target is None
            else "the JournalArchiveDirectory is the same as the JournalDirectory",
            place=str(log.place),
            hint="give the TransactionLog a JournalArchiveDirectory, preferably on another device: readers search both",
        )
    with hold_journal_files(instance, dry_run=dry_run):
        chosen = _choose_files(list_journal_files(instance), target, older_than, keep, instance.now)
        for number, path, size, file in chosen:
            if not dry_run:
                # No writer lock: these files are finished, and readers list the journal directory before the archive.
                move_file(path, target, instance.seam)
            yield ArchivedFile(number, path, target / path.name, size, file.first_txid, file.last_txid, dry_run)


def _choose_files(
    files: list[SurveyedFile], target: Path, older_than: int | None, keep: int, now: int
) -> list[tuple[int, Path, int, SurveyedFile]]:
    """Return number, path and size of the files to move. All copies of a file are moved: an interrupted compression
    leaves two, one of them compressed."""
    finished = [file for file in files if any(path.parent != target for path in file.paths) and file.is_finished]
    finished = finished[: len(finished) - keep] if keep else finished
    return [
        (file.number, path, path.stat().st_size, file)
        for file in _select_old_files(finished, older_than, now)
        for path in file.paths
        if path.parent != target
    ]


def archive_to_url(
    instance: Instance,
    target: RemotePath,
    *,
    older_than: int | None = None,
    keep: int = 0,
    dry_run: bool = False,
    verify: bool = False,
) -> Iterator[ArchivedFile]:
    """Upload finished files to a URL, oldest first; yield each when the manifest there lists it. They stay here.

    ``verify``: all archived files are read and compared with their digests, and uploaded again if they differ and the
    file is here; ``instance.notify`` reports the number of verified ones. The other options are those of
    :func:`archive_files`. Raises RefusedError ``SOW-JRN-085`` if the archive is of another journal, or the URL is a
    directory of this journal; DamageError ``SOW-JRN-080``, with ``verify`` ``SOW-JRN-083`` and ``SOW-JRN-084`` for
    segments that differ and are not here; LockedError ``SOW-JRN-060``, and what listing the journal and writing to a
    URL raises.
    """
    config, log = require_transaction_log(instance)
    own = [one.resolve() for one in (log.directory, log.moved_archive) if one is not None]
    if target.scheme == "file" and Path("/", target.path).resolve() in own:
        raise RefusedError(
            "SOW-JRN-085",
            "the directory is that of the journal itself",
            place=str(target),
            hint="give another directory: files of an archive never change, but those of the journal "
            "are compressed and removed",
        )
    with hold_journal_files(instance, dry_run=dry_run):
        finished = [file for file in list_journal_files(instance) if file.is_finished]
        files = _select_old_files(finished[: len(finished) - keep] if keep else finished, older_than, instance.now)
        run = ArchiveUpload(target, config.name, instance.seam, instance.now, verify=verify)
        if verify:
            # Segments that exist there were selected by an earlier run.
            files += [file for file in finished[len(files) :] if run.has_segment(file)]
        if dry_run:
            run.check_continuity(files)
            for file in run.list_missing_files(files):
                size, last = file.path.stat().st_size, file.last_txid
                yield ArchivedFile(
                    file.number, file.path, target / file.path.name, size, file.first_txid, last, dry_run
                )
            run.verify_unlisted_segments(files)
            _report_agreed(instance, run, verify)
            return
        for sent in run.upload_files(files):
            one = sent.segment
            if sent.anew:
                place = target / one.name
                yield ArchivedFile(one.number, sent.source, place, one.size, one.first_txid, one.last_txid, dry_run)
        _report_agreed(instance, run, verify)


def _report_agreed(instance: Instance, run: ArchiveUpload, verify: bool) -> None:
    if verify:
        many = "1 segment was" if run.agreed == 1 else f"{run.agreed:,} segments were"
        instance.notify(f"{many} read from the archive and verified with its manifest")


def _select_old_files(files: list[SurveyedFile], older_than: int | None, now: int) -> list[SurveyedFile]:
    """Return the files before the first one that is too new: oldest first and without a gap, as they are removed
    later."""
    if older_than is None:
        return files
    return list(takewhile(lambda file: (age := file.compute_age(now)) is not None and age >= older_than, files))
