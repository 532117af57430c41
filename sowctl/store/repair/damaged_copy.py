"""A damaged store under a second name, so that it is there when a repaired one has taken its place.

A second name and no rename: at every moment there is a file under the store's own name, the old one or the new one.
Ruled by ``sow-store(5)``, "Files".
"""

from __future__ import annotations

import os
from pathlib import Path

from sowctl.seam import Seam
from sowctl.store.lmdberrors import translate_errors
from sowctl.store.opening.access import DAMAGED_SUFFIX


def keep_damaged(path: Path, seam: Seam) -> tuple[Path, bool]:
    """The name ``X.damaged-N`` under which the present file stays; and whether it is new. Raises StorageError."""
    number = 1
    with translate_errors(path, "keep the damaged file"):
        while (target := path.with_name(f"{path.name}{DAMAGED_SUFFIX}{number}")).exists():
            # A repair that was killed had named it already.
            if target.samefile(path):
                return target, False
            number += 1
        seam.call("file.link", os.link, path, target, follow_symlinks=True)
    return target, True
