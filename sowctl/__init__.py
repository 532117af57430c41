"""Toolkit for file-based State-of-the-World stores.

``sowctl.open("config.xml")`` gives the typed Python API that the command line itself calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sowctl.version import VERSION

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance

__version__ = VERSION

__all__ = ["__version__", "open"]


def open(config: str, **options: Any) -> Instance:  # noqa: A001 - the name users expect, as in dbm.open
    """Open an instance by its configuration file; see :meth:`sowctl.engine.instance.Instance.open`."""
    from sowctl.engine.instance import Instance

    return Instance.open(config, **options)
