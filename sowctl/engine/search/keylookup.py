"""Records that a filter can match as far as keys tell (``sowctl-expressions(7)``, comparison): looked up one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sowctl.engine.search.keytext import key_of
from sowctl.errors import UsageError
from sowctl.identity.keys import batch_digester
from sowctl.values.paths import Path, Step, parse_path

if TYPE_CHECKING:
    from sowctl.engine.search.indexed import Taken
    from sowctl.engine.search.matcher import Matcher
    from sowctl.engine.sources.source import Pairs, StoredSource
    from sowctl.expressions.syntax.actions import OrderKey
    from sowctl.store.meta import Definition
    from sowctl.values.fields import Slot


class Named:
    """The records that a filter names by their keys; all of its conditions are asked of them.

    Offers what :class:`~sowctl.engine.search.indexed.Found` does.
    """

    access = "key lookup"
    ranked = False
    steps: Sequence[Taken] = ()

    def __init__(self, source: StoredSource, matcher: Matcher, keys: list[bytes]) -> None:
        self.source = source
        self.residual = matcher.conditions()
        self._matcher = matcher
        self._keys = keys

    @property
    def candidates(self) -> int:
        """How many records are read."""
        return len(self._keys)

    def matching(self, size: int) -> Iterator[Pairs]:
        """Keys and values of the records that match, in key order, at most ``size`` at a time."""
        for start in range(0, len(self._keys), size):
            keys, values = self.source.lookup(self._keys[start : start + size])
            places = self._matcher.places(keys, values)
            if places:
                yield [keys[place] for place in places], [values[place] for place in places]

    def count(self) -> int:
        """How many records match."""
        return sum(len(keys) for keys, _ in self.matching(len(self._keys) or 1))

    def rows(self, slots: Sequence[Slot]) -> None:
        """Not known here."""

    def columns(self, slots: Sequence[Slot]) -> None:
        """Not known here."""

    def first(self, key: OrderKey, wanted: int) -> Pairs | None:
        """Not known here."""
        return None


def named(source: StoredSource, matcher: Matcher) -> Named | None:
    """The records that the matcher's filter names, if it names any; None where it leaves keys open."""
    from sowctl.expressions.rewrites.bounds import key_bound

    config, definition = source.config, source.meta.definition
    of_logical_topics = definition.key_domain == "" or (config is not None and config.pattern is not None)
    if matcher.filter is None or of_logical_topics:
        return None
    # A bare file does not tell whether its keys belong to one topic.
    fields = definition.key_fields if definition.key_mode == "fields" and config is not None else ()
    paths = [_first_value(parse_path(field)) for field in fields]
    bound = key_bound(matcher.filter.node, paths, generated_keys=definition.key_mode != "user")
    if bound.nothing:
        return Named(source, matcher, [])
    keys: set[bytes] | None = None
    if bound.keys is not None:
        digests = batch_digester(definition.key_domain or "", len(fields))(bound.keys)
        keys = {digest[:8] for digest in digests}
    if bound.sow_keys is not None:
        known = {key for text in bound.sow_keys if (key := _key(text, definition)) is not None}
        keys = known if keys is None else keys & known
    return None if keys is None else Named(source, matcher, sorted(keys))


def _first_value(path: Path) -> Path:
    """A key field as filters name the value that the key is made of: ``/id`` is all values, ``/id[0]`` the first."""
    (step, *more) = path.steps
    return path if more or step.index is not None else Path((Step(step.name, 0),))


def _key(text: str, definition: Definition) -> bytes | None:
    """The key that a text names, None if no record can have it."""
    try:
        key = key_of(text, definition.key_mode)
    except UsageError:
        return None
    return key if definition.key_mode == "user" or str(int.from_bytes(key, "big")) == text else None
