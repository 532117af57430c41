"""Detection of fields that a query names but no record has: mostly typing errors, which would silently match nothing.

The check runs after the query, on the first records in key order. Keys are hashes, so these are a sample independent of
publishing order. If all records were examined, the result is certain; otherwise the note states their number. Most
fields are in the first record, which costs one batch. A field that no record has costs ``unknown_field_max_records``
records, whose bytes are searched for its name. With ``certain``, all records are examined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.errors import UsageError
from sowctl.store.codec import compute_next_key, extract_payloads
from sowctl.structs import DescribedStruct
from sowctl.values.fields import Slot
from sowctl.values.paths import Path, Step
from sowctl.values.rawmembers import LONG_OBJECT_LIMITS, open_long_object
from sowctl.values.unique_members import has_all_members

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import UnknownFieldPolicy
    from sowctl.engine.reports import QueryStatistics
    from sowctl.engine.sources.source import Source
    from sowctl.engine.topics.targets import Target
    from sowctl.messages.base import MessageType

UNKNOWN_FIELD_WORDS = "has the field"
"""Words that occur in every note of this module and in no other note, by which callers recognize these notes."""
_MIN_NAME_SIMILARITY = 0.6
"""Minimum similarity of two names, as measured by ``difflib``."""
_decode_json = msgspec.json.Decoder().decode


NamedFields: TypeAlias = tuple[Sequence[Path], Sequence[Path]]
"""The fields that a query names: those of its filter, and all others."""


class UnknownFieldCheck:
    """Finds the fields of a query that none of its topics has."""

    def __init__(self, instance: Instance, wanted: UnknownFieldPolicy) -> None:
        self._notify = instance.notify
        self._wanted = wanted
        self._told: set[str] = set()
        self.reset()

    @property
    def refuses(self) -> bool:
        """True if an unknown field is an error, which must be detected before the query runs."""
        return self._wanted == "error"

    def reset(self) -> None:
        """Discard the results, before the query runs again."""
        self._names: list[str] = []
        self._missing: dict[Path, str | None] | None = None
        self._looked, self._certain = 0, True

    def check_source(
        self,
        source: Source,
        kind: MessageType,
        named: NamedFields,
        target: Target,
        numbers: QueryStatistics | None = None,
    ) -> None:
        """Look for the fields in a source; ``numbers``: statistics of the query, None if it has not run yet."""
        if self._wanted == "ignore" or self._missing == {} or (self.refuses and numbers is not None):
            return
        # A queue or conflated topic without a store is computed for each read, which is too expensive for this check.
        if target.topic is not None and target.topic.derived is not None and source.base_source.stored_source is None:
            self._missing = {}
            return
        asked, others = named
        found = find_unknown_fields(source, kind, [*asked, *others], certain=self.refuses)
        if found is None:
            self._missing = {}
            return
        if not found.looked:
            return
        self._names.append(source.topic)
        self._looked += found.looked
        self._certain = self._certain and found.certain
        lacking = set(found.paths)
        if numbers is not None and numbers.matched and not found.certain:
            # The filter matched records, perhaps beyond the examined ones, which may have its fields.
            lacking -= set(asked) - set(others)
        kept = lacking if self._missing is None else lacking & self._missing.keys()
        near = self._missing or {}
        self._missing = {path: found.near.get(path) or near.get(path) for path in sorted(kept, key=str)}

    def note_present(self, fields: Iterable[tuple[str | int, ...]]) -> None:
        """Remove fields that records beyond the examined ones have; ``fields``: paths without positions."""
        for names in fields:
            for path in [path for path in self._missing or () if path.names == names[: len(path.names)]]:
                del self._missing[path]  # type: ignore[union-attr]  # the loop is empty if it is None

    def notify_unknown(self) -> None:
        """Emit a note for each field that no record has; if the query runs again, only new notes."""
        for path, near in (self._missing or {}).items() if not self.refuses else ():
            words = self._format_words(path) + (f"; did you mean {near}?" if near is not None else "")
            if words not in self._told:
                self._told.add(words)
                self._notify(words)

    def refuse_unknown(self) -> None:
        """Raise UsageError ``SOW-QRY-024`` for the first field that no record has."""
        for path, near in (self._missing or {}).items():
            hint = f"did you mean {near}?" if near is not None else "remove --strict to treat it as NULL"
            raise UsageError("SOW-QRY-024", self._format_words(path), hint=hint)

    def _format_words(self, path: Path) -> str:
        topic_names = ", ".join(dict.fromkeys(self._names))
        if self._certain:
            return f"no record of {topic_names} {UNKNOWN_FIELD_WORDS} {path}"
        return f"none of the first {self._looked:,} records of {topic_names} {UNKNOWN_FIELD_WORDS} {path}"


class UnknownFields(DescribedStruct, frozen=True):
    """Fields that none of the ``looked`` examined records has; ``certain``: all records were examined; ``near``: an
    existing field with a similar name, for some of them."""

    paths: frozenset[Path]
    looked: int
    certain: bool
    near: dict[Path, str]


def find_unknown_fields(
    source: Source, kind: MessageType, paths: Sequence[Path], *, certain: bool = False
) -> UnknownFields | None:
    """Return the ``paths`` that no examined record of a source has; None if each is in some record."""
    missing, seen, looked, whole = set(paths), list[bytes](), 0, True
    if not missing or not kind.filterable:
        return None
    limits = QUERY_LIMITS
    examined = limits.unknown_field_max_records if kind.json_text else limits.unknown_field_max_decoded_records
    most = None if certain else examined
    for values in _read_batches(source):
        if most is not None and looked >= most:
            whole = False
            break
        seen = seen or [one for one in extract_payloads(values) if len(one) < LONG_OBJECT_LIMITS.min_object_bytes]
        looked += len(values)
        missing -= set(_find_present(kind, values, missing))
        if not missing:
            return None
    if not looked:
        return UnknownFields(frozenset(), 0, True, {})
    known = _list_fields(kind, seen)
    near = {path: found for path in missing if (found := find_nearest_field(path, known)) is not None}
    return UnknownFields(frozenset(missing), looked, whole, near)


def find_nearest_field(path: Path, known: Sequence[tuple[str, ...]]) -> str | None:
    """Return the ``known`` field that an unknown path probably meant, None if none is similar."""
    # Loaded only here, because most queries have no unknown field.
    from difflib import get_close_matches

    from sowctl.values.differences import format_path

    names = path.names
    folded = tuple(name.casefold() for name in names)
    for one in known:
        if tuple(name.casefold() for name in one) == folded:
            return format_path(one)
    # A field with that name in another object: /city for /address/city.
    inside = [one for one in known if one[-1].casefold() == folded[-1]]
    if len(inside) == 1:
        return format_path(inside[0])
    texts = {"/".join(one).casefold(): one for one in known}
    found = get_close_matches("/".join(folded), texts, 1, _MIN_NAME_SIMILARITY)
    if not found and len(folded) == 1:
        texts = {one[-1].casefold(): one for one in reversed(known)}
        found = get_close_matches(folded[0], texts, 1, _MIN_NAME_SIMILARITY)
    return format_path(texts[found[0]]) if found else None


def _read_batches(source: Source) -> Iterator[Sequence[bytes]]:
    """Yield values in key order, with a small first batch, which contains most fields."""
    # A batch whose records have all expired is empty.
    first = next((batch for batch in source.read_part(QUERY_LIMITS.unknown_field_first_records) if batch[0]), None)
    if first is None:
        return
    keys, values = first
    yield values
    # The next batch begins after the last key of the first.
    start = compute_next_key(keys[-1])
    size = QUERY_LIMITS.unknown_field_max_decoded_records
    for _, rest in source.read_part(size, start=start) if start is not None else ():
        yield rest


def _find_present(kind: MessageType, values: Sequence[bytes], missing: set[Path]) -> Iterator[Path]:
    """Yield the ``missing`` fields that occur in a batch of stored values."""
    if not kind.json_text:
        wanted = list(missing)
        rows, _ = kind.build_extractor([Slot(path) for path in wanted])(extract_payloads(values))
        yield from (path for place, path in enumerate(wanted) if any(row[place] is not None for row in rows))
        return
    # Search complete values: cutting out the messages would take as long as the search. Long values are searched
    # separately, because joining them would only copy them.
    texts = [b"".join(values)] if sum(map(len, values)) < LONG_OBJECT_LIMITS.min_object_bytes else values
    # A name with an escape is spelled differently, so its bytes are not found.
    escaped = any(b"\\u" in text for text in texts)
    names = {path: msgspec.json.encode(path.names[-1]) for path in missing}
    wanted = [path for path, name in names.items() if escaped or any(name in text for text in texts)]
    for value in values if wanted else ():
        near = wanted if b"\\u" in value else [path for path in wanted if names[path] in value]
        for one in extract_payloads((value,)) if near else ():
            # Parse a message once for all fields that it may have.
            found = _find_present_in_message(one, near)
            yield from found
            wanted = [path for path in wanted if path not in found]
        if not wanted:
            return


def _find_present_in_message(message: bytes, paths: Sequence[Path]) -> list[Path]:
    """Return those of ``paths`` that a JSON message has. Of a long message only some members are decoded at a time."""
    parts = open_long_object(message)
    if parts is None:
        tree = _parse_message(message)
        return [path for path in paths if _has_field(tree, path.steps)]
    by_member: dict[str, list[Path]] = {}
    for path in paths:
        by_member.setdefault(path.steps[0].name, []).append(path)
    found = []
    for part in parts:
        for name in by_member.keys() & part.keys():
            tree = {name: _parse_message(bytes(part[name]))}
            found += [path for path in by_member[name] if _has_field(tree, path.steps)]
    return found


def _parse_message(message: bytes) -> Any:
    """Return the value of a JSON message."""
    try:
        found = _decode_json(message)
        if has_all_members(message, (found,)):
            return found
    except (ValueError, RecursionError):
        # A lone surrogate, or a number that is too large: the other reader accepts them.
        pass
    from sowctl.values.differences import parse_view

    return parse_view(message)


def _has_field(tree: Any, steps: Sequence[Step]) -> bool:
    """Return whether a value has a field; in an array any item may have it, or the item at the step's index."""
    if not steps:
        return True
    if isinstance(tree, list):
        return any(_has_field(item, steps) for item in tree)
    if not isinstance(tree, dict) or steps[0].name not in tree:
        return False
    value, index = tree[steps[0].name], steps[0].index
    if index is not None:
        items = value if isinstance(value, list) else [value]
        return index < len(items) and _has_field(items[index], steps[1:])
    return _has_field(value, steps[1:])


def _list_fields(kind: MessageType, batch: Sequence[bytes]) -> list[tuple[str, ...]]:
    """List the fields of some messages and the objects that contain them, without positions."""
    from sowctl.values.differences import iterate_leaves, parse_view

    found: dict[tuple[str, ...], None] = {}
    for message in batch:
        for path, _ in iterate_leaves(parse_view(kind.members_view(message))):
            names = tuple(part for part in path if isinstance(part, str))
            found.update(dict.fromkeys(names[: length + 1] for length in range(len(names))))
    return list(found)
