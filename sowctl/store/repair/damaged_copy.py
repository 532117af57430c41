"""A damaged store under a second name, so that it is kept after a repaired store has replaced it.

A second name instead of a rename: at every moment there is a file under the store's own name, the old one or the new
one. Specified in ``sow-store(5)``, "Files".
"""

from __future__ import annotations

import os
from pathlib import Path

from sowctl.seam import Seam
from sowctl.store.lmdberrors import translate_errors
from sowctl.store.opening.access import DAMAGED_SUFFIX


def keep_damaged(path: Path, seam: Seam) -> tuple[Path, bool]:
    """Give the current file the name ``X.damaged-N``; return the name and whether it is new. Raises StorageError."""
    number = 1
    with translate_errors(path, "keep the damaged file"):
        while (target := path.with_name(f"{path.name}{DAMAGED_SUFFIX}{number}")).exists():
            # A killed repair had already named it.
            if target.samefile(path):
                return target, False
            number += 1
        seam.call("file.link", os.link, path, target, follow_symlinks=True)
    return target, True
