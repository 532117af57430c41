"""What a library loads for older versions of Python only, and does without where it does not find it.

msgspec asks for ``typing_extensions``, which is there for other libraries' sake and takes longer to load (6 ms) than
all the rest of msgspec, for names that ``typing`` has. ``main.run`` alone spares it: in a program of somebody else it
is not ours to.
"""

from __future__ import annotations

import sys

_SPARED = "typing_extensions"
_BY = "msgspec"
_LAST = "msgspec._core"
"""Loaded when it has all that it needs."""


class _Finder:
    """Asked before all others where a module is. Says so only to keep one from being found."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == _SPARED and _BY in sys.modules and _LAST not in sys.modules:
            raise ModuleNotFoundError(f"{name} is spared", name=name)


def spare() -> None:
    """From now on, as the module says."""
    sys.meta_path.insert(0, _Finder)


__all__ = ["spare"]
