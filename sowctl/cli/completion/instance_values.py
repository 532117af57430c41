"""Candidates from a configuration and its stores for completion: names, fields, values, texts of keys.

Looking must not disturb: nothing is written, no index is built, and what cannot be read offers nothing.
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
"""Records whose fields and values are offered: the first ones, so that no more is read of a large store."""
_MAX_FIELD_VALUES = 100
"""Values of a field that are kept."""
_MAX_VALUE_CHARACTERS = 60
"""Characters of the longest value that is offered."""
_MAX_PATH_NAMES = 4
"""Names of the longest path that is offered."""

_DESTINATION_PATTERN = re.compile(r"(?:^|\bAS\s+)(/[^\s/][^\s]*)$", re.IGNORECASE)
"""The name of a projected field: behind AS, else the field itself."""

Values = dict[str, dict[str, None]]
"""By path the values of a sample as an expression writes them, in the order in which they were met."""


class InstanceValues:
    """Names and values of the instance that a command line means; each is read once, where it is asked for."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._instance: Instance | None = None
        self._samples: dict[str, tuple[Values, tuple[str, ...]]] = {}

    def list_names(self, kind: str) -> list[tuple[str, str]]:
        """The names of the entries that stand for a value, each with what it is."""
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
        # A line is a name: one that would be two lines is none that a shell could offer.
        return [(name, what) for name, what in found.items() if name.isprintable()]

    def sample_values(self, target: str) -> Values:
        """The fields of some records of a target, and the values that they have there."""
        return self._sample_target(target)[0]

    def sample_keys(self, target: str) -> list[str]:
        """The texts of keys of some records, as ``get`` takes them; none where keys are not made of fields."""
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
        """Read a view's, conflated topic's or queue's fields from its definition: its records may not be computed."""
        from sowctl.config.derived_entries import View

        if not isinstance(entry, View):
            # It has the messages of its topic; a queue of several topics, which a pattern names, is not looked at.
            underlying: str = getattr(entry, "underlying", entry.name)
            return (self._sample_target(underlying)[0], ()) if underlying != entry.name else ({}, ())
        found = (_DESTINATION_PATTERN.search(field.strip()) for field in entry.projection)
        return {match[1]: {} for match in found if match is not None}, ()


def _note_members(message: Any, found: Values) -> None:
    """Add the paths of a message, and their values, to what was found before."""
    for path, value in _iterate_members(message, ""):
        values = found.setdefault(path, {})
        if value is not None and len(values) < _MAX_FIELD_VALUES:
            values[value] = None


def _iterate_members(value: Any, above: str) -> Iterator[tuple[str, str | None]]:
    """Paths below a value, and what stands there as an expression writes it; None for what is no single value."""
    if isinstance(value, dict):
        for name, inner in value.items():
            # A name that the language could not read as a part of a path is left out, and so is an endless chain.
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
