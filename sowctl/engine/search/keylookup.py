"""Lookup of the records whose keys a filter names (``sowctl-expressions(7)``, comparison)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.search.keytext import parse_key
from sowctl.errors import UsageError
from sowctl.identity.keys import build_batch_digester, digest_key
from sowctl.values.paths import Path, Step, parse_path

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.search.matcher import Matcher
    from sowctl.engine.sources.source import Pairs, StoredSource
    from sowctl.expressions.syntax.actions import OrderKey
    from sowctl.expressions.syntax.nodes import Node
    from sowctl.store.meta import Definition
    from sowctl.values.fields import Slot


class KeyAccess:
    """The records of the keys that a filter names; the complete filter is evaluated on each.

    Has the same methods as :class:`~sowctl.engine.search.index_access.IndexAccess`.
    """

    def __init__(self, source: StoredSource, matcher: Matcher, keys: Sequence[bytes]) -> None:
        self.source = source
        self._matcher = matcher
        self._keys = keys

    def read_matching(self, size: int) -> Iterator[Pairs]:
        """Yield keys and values of the matching records, in key order, at most ``size`` at a time."""
        for start in range(0, len(self._keys), size):
            keys, values = self.source.find_records(self._keys[start : start + size])
            places = self._matcher.find_matches(keys, values)
            if places:
                yield [keys[place] for place in places], [values[place] for place in places]

    def count_matching(self) -> int:
        """Return the number of matching records."""
        return sum(len(keys) for keys, _ in self.read_matching(len(self._keys) or 1))

    def read_rows(self, slots: Sequence[Slot]) -> None:
        """Return None: keys do not contain fields of their records."""

    def read_columns(self, slots: Sequence[Slot]) -> None:
        """Return None: keys do not contain fields of their records."""

    def read_changed(self) -> dict[bytes, bytes]:
        """Return no records: no indexes are used that could be outdated."""
        return {}

    def read_top_k(self, key: OrderKey, wanted: int) -> Pairs | None:
        """Return None: keys do not give the order of their records."""
        return None


def find_filter_keys(node: Node | None, definition: Definition, config: TopicConfig | None) -> list[bytes] | None:
    """Return the keys of all records that a filter can match, ascending; None if the filter does not restrict keys.

    ``config`` is None for a bare file, which does not record whether its keys belong to one topic.
    """
    from sowctl.expressions.rewrites.keybounds import find_key_bound

    if definition.key_domain == "" or (config is not None and config.pattern is not None):
        return None  # keys depend on the logical topic of each record
    if config is not None and config.derived is not None:
        return None  # keys are computed from values of the source, which a view may change or rename
    fields = definition.key_fields if definition.key_mode == "fields" and config is not None else ()
    paths = [_select_first_value(parse_path(field)) for field in fields]
    # The bound covers every record that the filter can match, and perhaps more. The complete filter is evaluated on
    # each record found, so extra keys cost time but cause no wrong result.
    bound = find_key_bound(
        node, paths, most=QUERY_LIMITS.key_lookup_max_keys, generated_keys=definition.key_mode != "user"
    )
    if bound.nothing:
        return []
    keys: set[bytes] | None = None
    if bound.keys is not None:
        # Publishing uses the same function to compute the key of a message with these field texts.
        digests = build_batch_digester(definition.key_domain or "", len(fields))(bound.keys)
        keys = set(map(digest_key, digests))
    if bound.sow_keys is not None:
        known = {key for text in bound.sow_keys if (key := _parse_key(text, definition)) is not None}
        # The conditions on key fields and on SOW_KEY() must both be true.
        keys = known if keys is None else keys & known
    return None if keys is None else sorted(keys)


def _select_first_value(path: Path) -> Path:
    """Return the path that filters use for the value in the key: ``/id`` means all values, ``/id[0]`` the first."""
    (step, *more) = path.steps
    return path if more or step.index is not None else Path((Step(step.name, 0),))


def _parse_key(text: str, definition: Definition) -> bytes | None:
    """Return the key that a text names, None if no record can have it."""
    try:
        key = parse_key(text, definition.key_mode)
    except UsageError:
        return None
    # SOW_KEY() compares texts: a generated key equals only its canonical decimal form, not " 7" or "007".
    return key if definition.key_mode == "user" or str(int.from_bytes(key, "big")) == text else None
