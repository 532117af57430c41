"""Toolkit for file-based State-of-the-World stores.

``sowctl.open("config.xml")`` gives the typed Python API that the command line itself calls. "Working on sowctl" in the
README is the map of the rooms. Below them stand single modules: ``errors`` and ``findings`` (what is raised, and what
checks report), ``seam`` (the way to the operating system), ``directories``, ``waiting`` and ``breaks`` (made durable,
waited for, put off), ``checksum``, ``described`` (Structs that ``help()`` can show) and ``version``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sowctl.errors import SowError
from sowctl.version import VERSION

if TYPE_CHECKING:
    import os

    from sowctl.engine.api import InstanceHandle

__version__ = VERSION

__all__ = ["SowError", "__version__", "open"]


def open(config: str | os.PathLike[str], **options: Any) -> InstanceHandle:  # noqa: A001 - the name users expect, as in dbm.open
    """Open an instance by its configuration file.

    Options, all by name: root, environment, defines, clock, seam, lock_wait, random, notify, holder. ``root`` is the
    directory from which paths in the file count (default: the file's), ``environment`` and ``defines`` fill ``${VAR}``,
    ``lock_wait`` is in seconds, ``notify`` takes remarks for people. The others are in
    :meth:`sowctl.engine.instance.Instance.open`, to which all go.

    Whatever sowctl refuses is raised as a :class:`SowError` with code, exit status, place and hint.
    """
    from sowctl.engine.api import InstanceHandle

    return InstanceHandle.open(config, **options)
