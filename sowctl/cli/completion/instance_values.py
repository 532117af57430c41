"""Candidates from a configuration and its stores for completion: names, fields, values, texts of keys.

Reading must not disturb: nothing is written, no index is built, and unreadable data has no candidates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from sowctl.declarations import COMPLETED_KINDS
from sowctl.errors import SowError
from sowctl.values.jsontree import parse_plain

if TYPE_CHECKING:
    from sowctl.cli.context import Invocation
    from sowctl.config.model import OtherEntry
    from sowctl.engine.instance import Instance

SAMPLE_RECORDS = 200
"""Number of records, the first ones, whose fields and values are offered, to limit the reading of a large store."""
_MAX_FIELD_VALUES = 100
"""Maximum number of values of a field."""
_MAX_VALUE_CHARACTERS = 60
"""Maximum length of an offered value in characters."""
_MAX_PATH_NAMES = 4
"""Maximum number of names in an offered path."""

_DESTINATION_PATTERN = re.compile(r"(?:^|\bAS\s+)(/[^\s/][^\s]*)$", re.IGNORECASE)
"""The name of a projected field: the path after AS, else the field itself."""

Values = dict[str, dict[str, None]]
"""By path, the values of a sample in the notation of expressions, in the order in which they were found."""


class InstanceValues:
    """Names and values of the instance that a command line names; each is read once, on demand."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._instance: Instance | None = None
        self._samples: dict[str, tuple[Values, tuple[str, ...]]] = {}

    def list_names(self, kind: str) -> list[tuple[str, str]]:
        """The names of the entries of a kind, each with its description."""
        wanted, instance = COMPLETED_KINDS[kind], self._open_instance()
        if instance is None or instance.config is None:
            return []
        found = {
            entry.name: f"{entry.kind}, {entry.message_type}"
            for entry in instance.config.sow
            # LocalQueue and GroupLocalQueue are queues, too.
            if any(kind in entry.kind.lower() for kind in wanted if kind != "topic")
            or ("topic" in wanted and entry.kind == "Topic")
        }
        # Each line is a candidate: a name with a line break cannot be offered.
        return [(name, what) for name, what in found.items() if name.isprintable()]

    def sample_values(self, target: str) -> Values:
        """The fields of some records of a target, and their values."""
        return self._sample_target(target)[0]

    def sample_keys(self, target: str) -> list[str]:
        """The key texts of some records, as for ``get``; empty unless the key is a single field."""
        values, paths = self._sample_target(target)
        if len(paths) != 1:
            return []
        return [text[1:-1].replace("''", "'") if text.startswith("'") else text for text in values.get(paths[0], ())]

    def _open_instance(self) -> Instance | None:
        if self._instance is None:
            try:
                self._instance = self._invocation.open_instance()
            except (SowError, OSError):
                return None
        return self._instance

    def _sample_target(self, target: str) -> tuple[Values, tuple[str, ...]]:
        if target not in self._samples:
            try:
                self._samples[target] = self._read_sample(target)
            except (SowError, OSError):
                self._samples[target] = {}, ()
        return self._samples[target]

    def _read_sample(self, target: str) -> tuple[Values, tuple[str, ...]]:
        from sowctl.engine.options import QueryOptions
        from sowctl.engine.topics.targets import resolve_targets
        from sowctl.engine.verbs.query import start_query

        instance = self._open_instance() or self._invocation.open_instance(target)
        targets = resolve_targets(instance, target, derived=True)
        asked = QueryOptions(top_n=SAMPLE_RECORDS, index_from=None, jobs=1, counted=False)
        found: Values = {}
        topic = targets[0].topic
        if topic is not None and topic.derived is not None:
            return self._read_definition(topic.derived)
        keys = tuple(map(str, topic.keys)) if topic is not None else ()
        for path in keys:
            found[path] = {}
        with closing(start_query(instance, targets, asked)) as result:
            for batch in result:
                for payload in batch.payloads:
                    _note_members(parse_plain(batch.members_view(payload)), found)
        return found, keys

    def _read_definition(self, entry: OtherEntry) -> tuple[Values, tuple[str, ...]]:
        """Read the fields of a view, conflated topic or queue from its definition, because its records may not be
        computed."""
        from sowctl.config.derived_entries import View

        if not isinstance(entry, View):
            # It has the messages of its topic; a queue over several topics, given by a pattern, is not read.
            underlying: str = getattr(entry, "underlying", entry.name)
            return (self._sample_target(underlying)[0], ()) if underlying != entry.name else ({}, ())
        found = (_DESTINATION_PATTERN.search(field.strip()) for field in entry.projection)
        return {match[1]: {} for match in found if match is not None}, ()


def _note_members(message: Any, found: Values) -> None:
    """Add the paths and values of a message to ``found``."""
    for path, value in _iterate_members(message, ""):
        values = found.setdefault(path, {})
        if value is not None and len(values) < _MAX_FIELD_VALUES:
            values[value] = None


def _iterate_members(value: Any, above: str) -> Iterator[tuple[str, str | None]]:
    """Paths below a value, each with its value in the notation of expressions; None if it is not a single value."""
    if isinstance(value, dict):
        for name, inner in value.items():
            # A name that cannot be part of a path in the language is skipped, and so is an endless chain.
            if name.isprintable() and not set(name) & set(" /'\"\t") and above.count("/") < _MAX_PATH_NAMES:
                path = f"{above}/{name}"
                yield path, _format_literal(inner)
                yield from _iterate_members(inner, path)
    elif isinstance(value, list):
        for inner in value[:_MAX_PATH_NAMES]:
            yield from _iterate_members(inner, above)


def _format_literal(value: Any) -> str | None:
    if isinstance(value, str):
        if len(value) > _MAX_VALUE_CHARACTERS or not value.isprintable():
            return None
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return None
