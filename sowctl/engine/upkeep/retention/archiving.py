"""Finished journal files into the JournalArchiveDirectory, where all readers find them as before, or to a URL.

Called by ``sowctl journal archive`` and by the action of that name. Ruled by ``sow-journal(5)``, "Looking after files",
and ``sow-archive(5)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.engine.upkeep.retention.journals import files_of, logged, looked_after
from sowctl.errors import ConfigError, RefusedError
from sowctl.journal.upkeep.moving import move
from sowctl.journal.upkeep.sending import Sending
from sowctl.remote.place import Place, RemotePath

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.journal.upkeep.survey import SurveyedFile


class Archived(Struct, frozen=True):
    """A file that was moved or sent, or with ``dry_run`` would be: from where, to where, its bytes and its txids."""

    number: int
    path: Path
    archived: Place
    size: int
    first_txid: int
    last_txid: int | None
    dry_run: bool


def archive(
    instance: Instance, *, older_than: int | None = None, keep: int = 0, dry_run: bool = False
) -> Iterator[Archived]:
    """Move finished files, the oldest first, each given when it is there; the file that grows stays.

    To a JournalArchiveDirectory at a URL they are sent, as by :func:`archive_to`, and stay here.
    ``older_than`` microseconds: only files to which nothing was written for so long and that hold nothing newer.
    ``keep``: so many of the youngest finished ones stay. Raises ConfigError ``SOW-UPK-001`` without a
    JournalArchiveDirectory, LockedError ``SOW-JRN-060``, StorageError ``SOW-JRN-061``, and what looking at the journal
    raises.
    """
    _, log = logged(instance)
    if isinstance(log.archive_directory, RemotePath):
        yield from archive_to(instance, log.archive_directory, older_than=older_than, keep=keep, dry_run=dry_run)
        return
    target = log.archive_directory
    if target is None or target.resolve() == log.directory.resolve():
        raise ConfigError(
            "SOW-UPK-001",
            "the journal has no archive directory"
            if target is None
            else "the JournalArchiveDirectory is the same as the JournalDirectory",
            place=str(log.place),
            hint="give the TransactionLog a JournalArchiveDirectory, preferably on another device: readers search both",
        )
    with looked_after(instance, dry_run=dry_run):
        chosen = _chosen(files_of(instance), target, older_than, keep, instance.now)
        for number, path, size, file in chosen:
            if not dry_run:
                move(path, target, instance.seam)
            yield Archived(number, path, target / path.name, size, file.first_txid, file.last_txid, dry_run)


def _chosen(
    files: list[SurveyedFile], target: Path, older_than: int | None, keep: int, now: int
) -> list[tuple[int, Path, int, SurveyedFile]]:
    """Number, path and size of what is to be moved. All copies of a file are: two of them, of which one is compressed,
    are left where compressing was interrupted."""
    finished = [file for file in files if any(path.parent != target for path in file.paths) and file.is_finished]
    finished = finished[: len(finished) - keep] if keep else finished
    return [
        (file.number, path, path.stat().st_size, file)
        for file in _old_enough(finished, older_than, now)
        for path in file.paths
        if path.parent != target
    ]


def archive_to(
    instance: Instance,
    target: RemotePath,
    *,
    older_than: int | None = None,
    keep: int = 0,
    dry_run: bool = False,
    verify: bool = False,
) -> Iterator[Archived]:
    """Send finished files to a URL, the oldest first, each given when the manifest there tells of it; they stay here.

    ``verify``: all that is there already is read and compared with its digest, and sent again where it differs and the
    file is here; ``instance.notify`` is told how much agrees. The other options are those of :func:`archive`. Raises
    RefusedError ``SOW-JRN-085`` where the archive is of another journal, or the URL is a place of the journal's own;
    DamageError ``SOW-JRN-080``, with ``verify`` ``SOW-JRN-083`` and ``SOW-JRN-084`` for what differs and is not here;
    LockedError ``SOW-JRN-060``, what looking at the journal and what writing at a URL raises.
    """
    config, log = logged(instance)
    own = [one.resolve() for one in (log.directory, log.archive_directory) if isinstance(one, Path)]
    if target.scheme == "file" and Path("/", target.path).resolve() in own:
        raise RefusedError(
            "SOW-JRN-085",
            "the directory is that of the journal itself",
            place=str(target),
            hint="give another directory: files of an archive never change, but those of the journal "
            "are compressed and removed",
        )
    with looked_after(instance, dry_run=dry_run):
        finished = [file for file in files_of(instance) if file.is_finished]
        files = _old_enough(finished[: len(finished) - keep] if keep else finished, older_than, instance.now)
        run = Sending(target, config.name, instance.seam, instance.now, verify=verify)
        if verify:
            # What is there already was chosen by an earlier run.
            files += [file for file in finished[len(files) :] if run.has(file)]
        if dry_run:
            run.check(files)
            for file in run.missing(files):
                size, last = file.path.stat().st_size, file.last_txid
                yield Archived(file.number, file.path, target / file.path.name, size, file.first_txid, last, dry_run)
            run.prove(files)
            _say_agreed(instance, run, verify)
            return
        for sent in run.run(files):
            one = sent.segment
            if sent.anew:
                place = target / one.name
                yield Archived(one.number, sent.source, place, one.size, one.first_txid, one.last_txid, dry_run)
        _say_agreed(instance, run, verify)


def _say_agreed(instance: Instance, run: Sending, verify: bool) -> None:
    if verify:
        many = "1 segment was" if run.agreed == 1 else f"{run.agreed:,} segments were"
        instance.notify(f"{many} read from the archive and verified with its manifest")


def _old_enough(files: list[SurveyedFile], older_than: int | None, now: int) -> list[SurveyedFile]:
    """Those before the first one that is too young: the oldest first and without a gap, as they are removed later."""
    if older_than is None:
        return files
    return list(takewhile(lambda file: (age := file.age(now)) is not None and age >= older_than, files))
