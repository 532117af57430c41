"""Match paths with the Pattern of an action: a shell glob in one directory, without its subdirectories.

Called by the advice on files. Ruled by ``sow-config(5)``, actions.
"""

from __future__ import annotations

from fnmatch import fnmatchcase


def glob_matches(pattern: str, path: str) -> bool:
    """Return True if a glob matches a path, both absolute or both relative; ``*`` does not match a slash."""
    wanted, parts = pattern.split("/"), path.split("/")
    return len(wanted) == len(parts) and all(map(fnmatchcase, parts, wanted))
