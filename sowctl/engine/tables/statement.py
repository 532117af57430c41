"""What an SQL statement names, so that nothing else has to be read: DuckDB's own parser says it."""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import Struct

_WORD = re.compile(r'"((?:[^"]|"")+)"|([^\W\d]\w*)')


class Names(Struct, frozen=True):
    """``tables`` as written; ``columns`` in lower case, the first parts of nested fields among them, None for all;
    ``aliases``: names that the statement itself gives, which may be no columns."""

    tables: tuple[str, ...]
    columns: frozenset[str] | None
    aliases: frozenset[str] = frozenset()


def names_of(connection: Any, text: str) -> Names:
    """What one statement names. What is no query names every table that it has a word for, and all columns."""
    tree = json.loads(connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchall()[0][0])
    if tree["error"]:
        words = {(quoted or plain).replace('""', '"'): None for quoted, plain in _WORD.findall(text)}
        return Names(tuple(words), None)
    found = _Found()
    found.visit(tree["statements"])
    return found.names()


class _Found:
    def __init__(self) -> None:
        self._tables: dict[str, None] = {}
        self._aliases: set[str] = set()
        self._of_tables: set[str] = set()
        self._paths: list[list[str]] = []
        self._all = False

    def visit(self, node: Any) -> None:
        """Look at a part of the tree and at all below it."""
        if isinstance(node, list):
            for one in node:
                self.visit(one)
        if not isinstance(node, dict):
            return
        kind, alias = node.get("type"), node.get("alias")
        if kind == "BASE_TABLE":
            self._tables[node["table_name"]] = None
            self._of_tables |= {node["table_name"].lower(), (alias or "").lower()}
        elif alias:
            self._aliases.add(alias.lower())
        if kind == "COLUMN_REF":
            self._paths.append([part.lower() for part in node["column_names"]])
        # A natural join is by all columns that two tables share.
        if kind == "STAR" or node.get("ref_type") == "NATURAL":
            self._all = True
        for name, inner in node.items():
            if name == "using_columns":
                self._paths += [[str(column).lower()] for column in inner]
            self.visit(inner)

    def names(self) -> Names:
        """All that was found."""
        columns: set[str] = set()
        for path in self._paths:
            # The name of a table alone stands for the whole row.
            if path[0] in self._of_tables and len(path) == 1:
                self._all = True
            columns.add(path[1] if path[0] in self._of_tables and len(path) > 1 else path[0])
            columns.add(path[0])
        columns -= self._of_tables - {path[1] for path in self._paths if len(path) > 1}
        return Names(tuple(self._tables), None if self._all else frozenset(columns), frozenset(self._aliases))
