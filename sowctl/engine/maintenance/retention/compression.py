"""Compressing finished journal files in place; all readers find them as before.

Called by ``sowctl journal compress`` and the action of that name. Specified in ``sow-journal(5)``, "Looking after
files".
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.engine.maintenance.retention.journals import hold_journal_files, list_journal_files
from sowctl.journal.format import COMPRESSED_SUFFIXES
from sowctl.journal.maintenance.file_compression import compress_file

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.journal.maintenance.survey import SurveyedFile


class CompressedFile(Struct, frozen=True):
    """A file that was compressed, or with ``dry_run`` would be: both paths, and its txids.

    ``size`` and ``compressed_size`` are bytes on disk; the latter is None if the file was not compressed.
    """

    number: int
    path: Path
    compressed: Path
    size: int
    compressed_size: int | None
    first_txid: int
    last_txid: int | None
    dry_run: bool


def compress_files(
    instance: Instance, *, kind: str = ".zst", older_than: int | None = None, keep: int = 0, dry_run: bool = False
) -> Iterator[CompressedFile]:
    """Compress finished files in the journal's directory and in the archive; yield each when it is done.

    ``kind`` is ``.zst`` or ``.gz``. ``older_than`` microseconds: only files that were not written to for this time and
    have no newer entry. ``keep``: number of newest finished files that stay uncompressed. Raises LockedError
    ``SOW-JRN-060``, StorageError ``SOW-JRN-070``, and what listing the journal raises.
    """
    assert kind in COMPRESSED_SUFFIXES
    with hold_journal_files(instance, dry_run=dry_run):
        for file, path in _choose_files(list_journal_files(instance), older_than, keep, instance.now):
            size, target = path.stat().st_size, path.with_name(path.name + kind)
            after: int | None = None
            if not dry_run:
                packed = compress_file(path, kind, instance.seam)
                if packed is None:
                    instance.notify(f"{path} was not compressed: it would not be smaller")
                else:
                    after = packed.stat().st_size
            yield CompressedFile(file.number, path, target, size, after, file.first_txid, file.last_txid, dry_run)


def _choose_files(
    files: list[SurveyedFile], older_than: int | None, keep: int, now: int
) -> list[tuple[SurveyedFile, Path]]:
    """Return the files, each with the path of an uncompressed copy."""
    finished = [file for file in files if file.is_finished]
    finished = finished[: len(finished) - keep] if keep else finished
    old = [file for file in finished if older_than is None or (file.compute_age(now) or 0) >= older_than]
    return [(file, path) for file in old for path in file.paths if path.suffix not in COMPRESSED_SUFFIXES]
