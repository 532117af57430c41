"""A process that may read the files of a directory and write none: another user's process, if the test runs as root."""

from __future__ import annotations

import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def open_directory() -> Iterator[Path]:
    """A directory that every user can reach, unlike pytest's own; it can be removed whatever its permissions are."""
    root = Path(tempfile.mkdtemp(prefix="sowctl-test-"))
    try:
        root.chmod(0o755)
        yield root
    finally:
        allow_writing(root)
        shutil.rmtree(root)


def _chmod(root: Path, directories: int, files: int) -> None:
    for path in [root, *root.rglob("*")]:
        path.chmod(directories if path.is_dir() else files)


def forbid_writing(root: Path) -> None:
    """Allow all users to read everything below ``root``; only root can write."""
    _chmod(root, 0o555, 0o444)


def allow_writing(root: Path) -> None:
    """Allow the owner to write again."""
    root.chmod(0o755)
    for path in sorted(root.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def as_reader(work: Callable[[], object]) -> object:
    """Run ``work`` in a forked child that may not write where :func:`forbid_writing` applies; return its result.

    Modules that ``work`` needs must be imported already: the child may not be allowed to read this Python's library.
    """
    inlet, outlet = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(inlet)
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            with os.fdopen(outlet, "w") as out:
                out.write(repr(work()))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(outlet)
    with os.fdopen(inlet) as said:
        text = said.read()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return eval(text)
