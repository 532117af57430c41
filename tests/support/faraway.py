"""A file system at a URL that is really a directory: for tests that do not depend on the protocol of a store.

``hdfs://far/...`` refers to a directory of the test. It can be unavailable, like a store that does not answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sowctl.journal.archive import manifest
from sowctl.remote import remote_files

URL = "hdfs://far"


class Faraway:
    """``path``: the root of the file system; ``is_away``: whether it does not answer; ``asked`` counts requests."""

    def __init__(self, path: Path) -> None:
        fs = pytest.importorskip("pyarrow.fs")
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.is_away = False
        self.asked = 0
        self._system = fs.SubTreeFileSystem(str(path), fs.LocalFileSystem())

    def url(self, path: str = "") -> str:
        """The URL of a path."""
        return f"{URL}/{path}"

    def __getattr__(self, name: str) -> object:
        # the calls that remote paths make to a file system
        self.asked += 1
        if self.is_away:
            raise OSError("NETWORK_CONNECTION: could not connect to server")
        return getattr(self._system, name)


@contextmanager
def far_away(path: Path) -> Iterator[Faraway]:
    """Provide the file system within the block."""
    place = Faraway(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote_files, "_get_filesystem", lambda *_: (place, ""))
        manifest._REMOTE_MANIFESTS.clear()
        yield place
    manifest._REMOTE_MANIFESTS.clear()
