"""The files of a journal by number, in its directory, in the archive and at a URL, without gaps.

Every reader calls this module before it opens a file. Specified in ``sow-journal(5)``, "Files".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sowctl.errors import DamageError
from sowctl.journal.files import read_error
from sowctl.journal.format import MANIFEST_SUFFIX, build_name_pattern, check_instance, format_file_name
from sowctl.remote.place import Place

if TYPE_CHECKING:
    from sowctl.journal.archive.remote_archive import RemoteArchive

P = TypeVar("P", bound=Place)


def find_files(directory: Path, instance: str, archive: Path | None = None) -> dict[int, list[Path]]:
    """Return the files of an instance by ascending number; for each number, the file to read first, then its other
    copies.

    The files are in ``directory`` and in ``archive``, compressed or not; a missing directory counts as empty. Gaps
    between the numbers are not checked. Raises StorageError ``SOW-JRN-020``.
    """
    pattern = build_name_pattern(check_instance(instance))
    found: dict[int, list[tuple[bool, int, Path]]] = {}
    # A file is moved from the directory to the archive, never back: in this order, the scan misses no file.
    for rank, place in enumerate((directory, archive)):
        if place is None:
            continue
        try:
            names = os.listdir(place)  # noqa: PTH208 - every query of a journalled topic asks this several times
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise read_error(error, place) from error
        for name in names:
            if match := pattern.fullmatch(name):
                found.setdefault(int(match[1]), []).append((match[2] is not None, rank, place / name))
    # While a file is being moved or compressed there are two copies, and only the old one is known to be complete. So
    # the uncompressed copy comes before the compressed one, and the journal's own directory before the archive.
    return {number: [path for _, _, path in sorted(found[number])] for number in sorted(found)}


def list_files(directory: Path, instance: str, archive: Path | None = None) -> dict[int, list[Path]]:
    """As :func:`find_files`, and check that no file is missing between others; empty if there is none. Raises
    DamageError ``SOW-JRN-006``, StorageError ``SOW-JRN-020``."""
    return _without_gaps(
        lambda: find_files(directory, instance, archive),
        lambda numbers: refuse_gap(numbers, directory, instance, archive),
    )


def list_places(directory: Path | None, instance: str, there: RemoteArchive) -> dict[int, list[Place]]:
    """As :func:`list_files`, for a local directory and an archive at a URL. Also raises DamageError ``SOW-JRN-086``."""
    here: dict[int, list[Path]] = {}

    def look() -> dict[int, list[Place]]:
        nonlocal here
        here = find_files(directory, instance) if directory is not None else {}
        found: dict[int, list[Place]] = {number: [path] for number, path in there.list_segment_paths(here).items()}
        # Files at a URL are only ever added; if a number also exists locally, the local file is read.
        for number, paths in here.items():
            found[number] = [*paths, *found.get(number, ())]
        return dict(sorted(found.items()))

    def refuse(numbers: Sequence[int]) -> None:
        there.refuse_gap(here, directory or there.at)
        refuse_gap(numbers, directory or there.at, instance, there.at)

    return _without_gaps(look, refuse)


def _without_gaps(
    look: Callable[[], dict[int, list[P]]], refuse: Callable[[Sequence[int]], None]
) -> dict[int, list[P]]:
    found = look()
    # Listing a directory is not atomic: while files are removed (oldest first) or compressed, a listing may miss an
    # existing file. A gap counts only if two listings agree.
    while _has_gap(found):
        before, found = found, look()
        if list(before) == list(found):
            refuse(list(found))
    return found


def _has_gap(numbers: Collection[int]) -> bool:
    return bool(numbers) and max(numbers) - min(numbers) + 1 != len(numbers)


def refuse_gap(numbers: Sequence[int], directory: Place, instance: str, archive: Place | None) -> None:
    """Raise DamageError ``SOW-JRN-006`` if a file is missing between others."""
    for before, number in pairwise(numbers):
        if number != before + 1:
            raise DamageError(
                "SOW-JRN-006",
                f"journal file {before + 1:010d} is missing, but earlier and later files exist "
                f"(searched {format_locations(directory, archive)})",
                place=str(directory / format_file_name(instance, before + 1)),
                hint="restore the missing file, compressed or not; without it, its entries are lost",
            )


def format_locations(directory: Place, archive: Place | None) -> str:
    """Format the searched locations for errors."""
    return str(directory) if archive is None else f"{directory} and {archive}"


def require_archive_files(directory: Place, archive: Place | None, instance: str) -> None:
    """Require the files that the manifest names if a local directory holds an archive with a manifest.

    Raises the errors of :func:`sowctl.journal.archive.manifest.require_segments`.
    """
    here, there = (one if isinstance(one, Path) else None for one in (directory, archive))
    for one in (here, there):
        if one is not None and (manifest := one / f"{instance}{MANIFEST_SUFFIX}").exists():
            from sowctl.journal.archive.manifest import require_segments

            require_segments(manifest, lambda: {} if here is None else find_files(here, instance, there))
