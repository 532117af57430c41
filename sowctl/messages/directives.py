"""A select list as a tree of paths, for types whose messages are trees (json, xml, nested)."""

from __future__ import annotations

from sowctl.messages.base import SelectList


class PathDirective:
    """The directives for one path: include, exclude or none, and the paths below it."""

    __slots__ = ("below", "include")

    def __init__(self) -> None:
        self.include: bool | None = None
        self.below: dict[str, PathDirective] = {}


def build_directives(select_list: SelectList) -> PathDirective:
    """The tree of a select list, beginning at the root of the message."""
    root = PathDirective()
    for include, names in select_list:
        node = root
        for name in names:
            node = node.below.setdefault(name, PathDirective())
        # Of several directives for one path the first counts.
        if node.include is None:
            node.include = include
    return root
