"""Journal files removed for good, the oldest first, so that at each moment what is left has no gap.

Called under the lock of :mod:`sowctl.journal.upkeep.lock`, when nothing needs their entries any more. Ruled by
``sow-journal(5)``, "Looking after files".
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from sowctl.directories import sync_directory
from sowctl.errors import StorageError
from sowctl.journal.appender import reason_of
from sowctl.journal.upkeep.survey import SurveyedFile
from sowctl.seam import Seam


def remove(files: Sequence[SurveyedFile], seam: Seam) -> int:
    """Remove files that are the oldest of their journal, with all their copies; how many bytes that gives back.

    Raises StorageError ``SOW-JRN-062``, which names the first file that is left.
    """
    freed = 0
    for file in files:
        # The copy that is read goes last: another one may be a part of a file that somebody was making.
        for path in reversed(file.paths):
            try:
                seam.call("file.unlink", os.unlink, path)
            except FileNotFoundError:
                pass
            except OSError as error:
                raise _trouble(file, error) from error
        try:
            # Each on disk before the next: a power failure must not bring an older file back behind a gap.
            for directory in dict.fromkeys(path.parent for path in file.paths):
                sync_directory(directory, seam)
        except OSError as error:
            raise _trouble(file, error) from error
        freed += file.size
    return freed


def _trouble(file: SurveyedFile, error: OSError) -> StorageError:
    return StorageError(
        "SOW-JRN-062",
        f"the journal file cannot be removed: {reason_of(error)}; it and those behind it are whole",
        place=str(file.path),
        hint="correct the permissions of the directory and run the command again",
    )
