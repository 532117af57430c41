"""Names in an SQL statement, found by DuckDB's own parser, so that only the named tables and columns are read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from sowctl.engine.tables.where import Occurrence, find_occurrences

_CREATE_TABLE_PATTERN = re.compile(
    r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMP(?:ORARY)?\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?"
    r"(?:\"(?:[^\"]|\"\")+\"|\w+)\s+AS\s+(?=SELECT\b|WITH\b|FROM\b)",
    re.IGNORECASE,
)
"""The start of a statement that creates a table from a query."""
_WORD_PATTERN = re.compile(r'"((?:[^"]|"")+)"|([^\W\d]\w*)')


class StatementNames(Struct, frozen=True):
    """``tables`` as written; ``columns`` in lower case, including the first parts of nested fields, None for all;
    ``metadata``: named metadata columns, which ``*`` does not include; ``aliases``: names that the statement itself
    defines, which may not be columns; ``occurrences``: for each table, by name in lower case, every place that reads it
    with its WHERE, None for a place that needs all rows; ``written``: the names of ``columns`` as the statement writes
    them."""

    tables: tuple[str, ...]
    columns: frozenset[str] | None
    metadata: frozenset[str] = frozenset()
    aliases: frozenset[str] = frozenset()
    occurrences: Mapping[str, tuple[Occurrence | None, ...]] = {}
    written: frozenset[str] = frozenset()


def parse_names(connection: Any, text: str) -> StatementNames:
    """Parse the names of one statement, or of its query if it creates a table from one.

    A statement that is not a query is treated as naming every table among its words, with all columns.
    """
    made = _CREATE_TABLE_PATTERN.match(text)
    query = text if made is None else text[made.end() :]
    tree = json.loads(connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchall()[0][0])
    if tree["error"]:
        return StatementNames(tuple(dict.fromkeys(_words(text))), None)
    found = _NameCollector()
    found.visit(tree["statements"])
    return found.build_names()


def parse_words(text: str) -> frozenset[str]:
    """Return all words of a statement, in lower case: they include every name in it."""
    return frozenset(word.lower() for word in _words(text))


def _words(text: str) -> Iterator[str]:
    return ((quoted or plain).replace('""', '"') for quoted, plain in _WORD_PATTERN.findall(text))


class _NameCollector:
    def __init__(self) -> None:
        self._tables: dict[str, None] = {}
        self._aliases: set[str] = set()
        self._of_tables: set[str] = set()
        self._paths: list[list[str]] = []
        self._all = False
        self._filtered: dict[int, Occurrence] = {}
        self._occurrences: dict[str, list[Occurrence | None]] = {}
        self._unseen = False

    def visit(self, node: Any) -> None:
        """Visit a part of the tree and everything below it."""
        if isinstance(node, list):
            for one in node:
                self.visit(one)
        if not isinstance(node, dict):
            return
        kind, alias = node.get("type"), node.get("alias")
        if kind == "SELECT_NODE":
            # The tables of a FROM are below it, so they are visited after this is recorded.
            self._filtered |= {id(table): one for table, one in find_occurrences(node)}
        # It may read tables that it names in a text.
        self._unseen |= kind == "TABLE_FUNCTION"
        if kind == "BASE_TABLE":
            self._tables[node["table_name"]] = None
            places = self._occurrences.setdefault(node["table_name"].lower(), [])
            places.append(self._filtered.get(id(node)))
            self._of_tables |= {node["table_name"].lower(), (alias or "").lower()}
        elif alias:
            self._aliases.add(alias.lower())
        if kind == "COLUMN_REF":
            self._paths.append(node["column_names"])
        # A natural join uses all columns that two tables share.
        if kind == "STAR" or node.get("ref_type") == "NATURAL":
            self._all = True
        for name, inner in node.items():
            if name == "using_columns":
                self._paths += [[str(column)] for column in inner]
            self.visit(inner)

    def build_names(self) -> StatementNames:
        """Return all names found."""
        columns: set[str] = set()
        for path in map(_lower_path, self._paths):
            # The name of a table alone means the whole row.
            if path[0] in self._of_tables and len(path) == 1:
                self._all = True
            columns.add(path[1] if path[0] in self._of_tables and len(path) > 1 else path[0])
            columns.add(path[0])
            # The table name may be preceded by a schema.
            if len(path) > 2 and path[1] in self._of_tables:
                columns.add(path[2])
        columns -= self._of_tables - {path[1].lower() for path in self._paths if len(path) > 1}
        return StatementNames(
            tuple(self._tables),
            None if self._all else frozenset(columns),
            frozenset(name for name in columns if name.startswith("_")),
            frozenset(self._aliases),
            {} if self._unseen else {name: tuple(places) for name, places in self._occurrences.items()},
            frozenset(word for path in self._paths for word in path if word.lower() in columns),
        )


def _lower_path(path: list[str]) -> list[str]:
    return [part.lower() for part in path]
