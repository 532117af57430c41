"""Advice across files: instances of one Group that do not define the same (rule B039, as far as one file cannot tell).

Called by :mod:`sowctl.config.lint` with every file in turn. Only files that name their Group are compared, and not
those of one instance Name: two states of one file are no two instances. Ruled by ``sowctl-lint(7)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from sowctl.config.document import Node
from sowctl.config.problems import at_node
from sowctl.config.rules.survey import Survey
from sowctl.findings import Finding, Level

RULE = "B039"


class Peer(Struct, frozen=True):
    """An instance that was seen: its file, Name, and SOW entries as kind, name and message type."""

    file: str
    name: str
    content: frozenset[tuple[str, str, str]]


class Peers:
    """The instances seen so far, by Group."""

    def __init__(self) -> None:
        self._seen: dict[str, list[Peer]] = {}

    def compare(self, top: Node) -> Iterator[Finding]:
        """The finding about an instance that shares its Group with an unequal one before it; it is then kept too."""
        group, name = top.find("Group"), top.value("Name")
        if group is None or not group.text or not name:
            return
        content = frozenset((entry.kind, entry.name, entry.type) for entry in Survey(top, Path()).entries)
        earlier = self._seen.setdefault(group.text, [])
        for peer in earlier:
            here, there = content - peer.content, peer.content - content
            if peer.name != name and (here or there):
                kind, entry, _ = min(here or there)
                where = "here only" if here else f"in {Path(peer.file).name} only"
                message = (
                    f"instances with different content share the Group '{group.text}': {kind} '{entry}' is {where}"
                )
                hint = f"define the same as {peer.name}, or use another Group"
                yield at_node(RULE, group, message, hint, level=Level.WARNING)
                break
        earlier.append(Peer(top.source.file, name, content))
