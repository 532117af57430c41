"""diff: the differences between the records of two states, by key and by field.

A side is a target at an instant, or the changes of its keys in a range of the journal. Two sides are read in one pass
(:mod:`sowctl.engine.sources.state_pairs`), fields are compared by :mod:`sowctl.values.differences`. Records are equal
if their payloads have the same bytes, which is also the criterion of ``publish`` for "unchanged". Without a difference
the digests of ``hash --payloads`` are equal; that of ``hash`` covers times and txids, which ``stamps`` compares, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from sowctl.engine.extensions.functions import load_functions
from sowctl.engine.options import DiffOptions
from sowctl.engine.records import StoredRecord
from sowctl.engine.search.keytext import build_field_formatter, build_key_formatter, make_key_error, resolve_key_texts
from sowctl.engine.search.matcher import Matcher, build_environment
from sowctl.engine.sources.field_order import sort_by_fields
from sowctl.engine.sources.state_pairs import RecordPair, pair_states
from sowctl.engine.topics.expiration import choose_default_lifetime
from sowctl.engine.topics.positions import NO_STORE_CODE
from sowctl.engine.topics.targets import Target
from sowctl.engine.views.openers import open_target
from sowctl.errors import MissingError, UsageError
from sowctl.store.codec import extract_sow_key
from sowctl.store.limits import STORE_LIMITS
from sowctl.structs import DescribedStruct
from sowctl.values.differences import FieldChange, FieldPath, compare_views, has_same_reading
from sowctl.values.paths import Path, parse_path
from sowctl.values.times import format_expiry, format_time

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.search.unknown_fields import NamedFields, UnknownFieldCheck
    from sowctl.engine.sources.source import Pairs, Source
    from sowctl.messages.base import MessageType

ChangeKind = Literal["changed", "added", "removed"]
MetadataDifference = tuple[str, object, object]
"""A metadata field that differs: its name, and its values before and after."""


class DiffSide(DescribedStruct, frozen=True):
    """One side: a target of an instance, as of ``at`` (microseconds UTC, None: now). ``name``: its name in output.

    ``after``: only the journal's entries after this instant, up to ``at``. ``absent``: the topic may not exist, or may
    have no message; then it has no records.
    """

    instance: Instance
    target: Target | None
    name: str
    at: int | None = None
    after: int | None = None
    absent: bool = False


class RecordChange(DescribedStruct, frozen=True):
    """One record that differs; ``key`` is its key in display form, ``before`` or ``after`` is None without a record.

    ``keyed``: the records have their own SOW keys; records paired by fields have no meaningful key. ``fields`` and
    ``facts`` are the differences of a changed record. If both are empty, only its bytes differ: white space, the order
    of members.
    """

    kind: ChangeKind
    key: str
    before: StoredRecord | None
    after: StoredRecord | None
    keyed: bool = True
    fields: Sequence[FieldChange] = ()
    facts: Sequence[MetadataDifference] = ()


class DiffCounts(Struct):
    """Counts of different records by the kind of difference. ``equal`` is None with a filter, which is not evaluated on
    equal records.

    ``fields`` counts the changed records in which a field differs, by path without positions.
    """

    equal: int | None = 0
    changed: int = 0
    added: int = 0
    removed: int = 0
    fields: Counter[FieldPath] = field(default_factory=Counter)

    @property
    def different(self) -> int:
        """The number of records that differ."""
        return self.changed + self.added + self.removed


class Comparison(DescribedStruct):
    """Two open sides of one topic: :meth:`iterate_changes` iterates over them once and fills ``counts``.

    ``user_keys``: publishers choose the keys of the first side. ``lifetimes``: its topic gives records a lifetime.
    """

    topic: str
    message_type: str
    before: str
    after: str
    counts: DiffCounts
    kind: MessageType
    user_keys: bool
    lifetimes: bool
    _changes: Iterator[RecordChange]
    _held: ExitStack

    def iterate_changes(self) -> Iterator[RecordChange]:
        """Iterate over the records that differ, in key order."""
        return self._changes

    def close(self) -> None:
        """Close both states."""
        self._held.close()


def compare_sides(
    before: DiffSide, after: DiffSide, options: DiffOptions, lacking: UnknownFieldCheck | None = None
) -> Comparison:
    """Open two sides and compare them. Close the result after use. ``lacking`` checks both for the named fields.

    Raises UsageError ``SOW-DIF-001`` if the sides have different keys, ``SOW-DIF-002`` for different message types,
    ``SOW-DIF-003`` for an ``on`` that is not a field, and what reading and filters raise.
    """
    with ExitStack() as held:
        old, new = _open_side(before, held), _open_side(after, held)
        one = old if old is not None else new
        if one is None:
            return _build_empty_comparison(before, after)
        if old is not None and new is not None and old.message_type != new.message_type:
            raise UsageError(
                "SOW-DIF-002",
                f"{before.name} has messages of type {old.message_type}, {after.name} of type {new.message_type}",
                hint="compare messages of one type",
            )
        instance = before.instance if old is not None else after.instance
        kind = instance.find_message_type(one.message_type)
        counts = DiffCounts(equal=None if options.filter is not None else 0)
        on = _choose_join_fields(old, new, (before, after), options)
        comparing = _PairComparer(kind, one, instance, options, counts, on)
        for source, side in ((old, before), (new, after)) if lacking is not None else ():
            if source is not None and side.target is not None:
                assert lacking is not None
                lacking.check_source(source, kind, comparing.named_fields, side.target)
        sides = [_read_side(*side, options, kind, on) for side in ((old, before), (new, after))]
        pairs = pair_states(sides[0], sides[1], stamps=options.stamps)
        changes = comparing.iterate_changes((stretch.pairs, stretch.equal) for stretch in pairs)
        return Comparison(
            one.topic,
            one.message_type,
            before.name,
            after.name,
            counts,
            kind,
            one.definition.key_mode == "user",
            _gives_lifetimes(before),
            changes,
            held.pop_all(),
        )


def _build_empty_comparison(before: DiffSide, after: DiffSide) -> Comparison:
    """Return the comparison of a topic without records on both sides."""
    named = before if before.target is not None else after
    topic = named.target.topic if named.target is not None else None
    assert topic is not None
    kind = named.instance.find_message_type(topic.message_type)
    names = topic.label, topic.message_type, before.name, after.name
    return Comparison(*names, DiffCounts(), kind, False, False, iter(()), ExitStack())


def _gives_lifetimes(side: DiffSide) -> bool:
    topic = side.target.topic if side.target is not None else None
    return topic is not None and choose_default_lifetime(topic.expiration, None) is not None


def _open_side(side: DiffSide, held: ExitStack) -> Source | None:
    """Return the source of a side; None for a missing one if that is allowed."""
    if side.target is None:
        return None
    try:
        if side.after is not None:
            from sowctl.engine.sources.past import open_range_source

            assert side.target.topic is not None
            found: Source = open_range_source(side.instance, side.target.topic, side.after, side.at)
        else:
            found = open_target(side.instance, side.target, side.at, must_exist=side.absent)
    except MissingError as error:
        if side.absent and error.code == NO_STORE_CODE:
            return None
        raise
    return held.enter_context(closing(found))


def _choose_join_fields(
    old: Source | None, new: Source | None, sides: tuple[DiffSide, DiffSide], options: DiffOptions
) -> Sequence[Path] | None:
    """Return the fields to match records by, None to match by SOW keys."""
    texts = options.on or _find_common_fields(old, new, sides)
    if texts is None:
        return None
    if options.keys is not None:
        raise UsageError(
            "SOW-DIF-004",
            "--key requires that both sides compute keys in the same way",
            hint="select the records with --filter",
        )
    return [_parse_path(text) for text in texts]


def _read_side(
    source: Source | None, side: DiffSide, options: DiffOptions, kind: MessageType, on: Sequence[Path] | None
) -> Iterator[Pairs]:
    if source is None:
        return iter(())
    if on is not None:
        return sort_by_fields(source, kind, on, STORE_LIMITS.read_batch_records)
    if options.keys is None:
        return source.read_batches(STORE_LIMITS.read_batch_records)
    assert side.target is not None
    meant = resolve_key_texts(options.keys, side.target, source.definition, fields=False)
    for text, keys in zip(options.keys, meant, strict=True):
        if not keys:
            raise make_key_error(text)
    return iter((source.find_records([key for keys in meant for key in keys]),))


def _find_common_fields(
    old: Source | None, new: Source | None, sides: tuple[DiffSide, DiffSide]
) -> Sequence[str] | None:
    """Return the key fields to match records by, None to match by SOW keys.

    A SOW key is computed from the key fields and the topic's key domain, so equal records of two topics have different
    keys.
    """
    if old is None or new is None:
        return None
    one, other = old.definition, new.definition
    if (one.key_mode, one.key_fields, one.key_domain) == (other.key_mode, other.key_fields, other.key_domain):
        return None
    if one.key_mode == other.key_mode == "fields" and one.key_fields == other.key_fields:
        return one.key_fields
    raise UsageError(
        "SOW-DIF-001",
        f"records of {sides[0].name} and {sides[1].name} have different keys: {one} and {other}",
        hint="--on PATH,PATH names the fields to match records by",
    )


def _parse_path(text: str) -> Path:
    path = parse_path(text.strip())
    if not path.steps:
        raise UsageError("SOW-DIF-003", f"{text!r} is not a field", hint="write it like --on /orderId")
    return path


class _PairComparer:
    """Turns pairs of stored values into changes."""

    def __init__(
        self,
        kind: MessageType,
        source: Source,
        instance: Instance,
        options: DiffOptions,
        counts: DiffCounts,
        on: Sequence[Path] | None,
    ) -> None:
        self._kind = kind
        self._options = options
        self._counts = counts
        # Keys computed from ``on`` fields have no meaning to users; the fields have.
        self._keyed = on is None
        self._on = on or ()
        self._naming = build_key_formatter(kind, source.definition) if on is None else build_field_formatter(kind, on)
        self._plain = options.records and not (options.loose or options.fields or options.ignored or options.stamps)
        self._only = [_split_names(text) for text in options.fields]
        self._ignored = [_split_names(text) for text in options.ignored]
        self._matcher = (
            None
            if options.filter is None
            else Matcher(
                options.filter,
                kind,
                source.topic,
                build_environment(instance),
                functions=load_functions(instance),
            )
        )

    @property
    def named_fields(self) -> NamedFields:
        """The fields that the options name: those of the filter, and others."""
        asked = self._matcher.filter.slots if self._matcher is not None and self._matcher.filter is not None else ()
        texts = (*self._options.fields, *self._options.ignored)
        return [slot.path for slot in asked], [*self._on, *(parse_path(text.strip()) for text in texts)]

    def iterate_changes(self, stretches: Iterator[tuple[list[RecordPair], int]]) -> Iterator[RecordChange]:
        """Yield the changes of all stretches, counting them as they are yielded."""
        counts = self._counts
        for pairs, equal in stretches:
            if counts.equal is not None:
                counts.equal += equal
            chosen = self._select_pairs(pairs)
            names = self._format_keys(chosen)
            for name, (key, old, new) in zip(names, chosen, strict=True):
                change = self._build_change(name, key, old, new)
                if change is None:
                    if counts.equal is not None:
                        counts.equal += 1
                    continue
                setattr(counts, change.kind, getattr(counts, change.kind) + 1)
                if change.fields:
                    counts.fields.update({_strip_positions(found.path) for found in change.fields})
                yield change

    def _select_pairs(self, pairs: list[RecordPair]) -> list[RecordPair]:
        """Return the pairs that match the filter on either side."""
        matcher = self._matcher
        if matcher is None:
            return pairs
        wanted: set[int] = set()
        for side in (1, 2):
            places = [place for place, pair in enumerate(pairs) if pair[side] is not None and place not in wanted]
            values = [value for place in places if (value := pairs[place][side]) is not None]
            found = matcher.find_matches([extract_sow_key(pairs[place][0]) for place in places], values)
            wanted.update(places[place] for place in found)
        return [pair for place, pair in enumerate(pairs) if place in wanted]

    def _format_keys(self, pairs: list[RecordPair]) -> list[str]:
        values = [new if new is not None else old for _, old, new in pairs]
        keys = [extract_sow_key(pair[0]) for pair in pairs]
        return self._naming(keys, [value for value in values if value is not None])

    def _build_change(self, name: str, key: bytes, old: bytes | None, new: bytes | None) -> RecordChange | None:
        before = StoredRecord(extract_sow_key(key), old) if old is not None else None
        after = StoredRecord(extract_sow_key(key), new) if new is not None else None
        if before is None:
            return RecordChange("added", name, None, after, self._keyed)
        if after is None:
            return RecordChange("removed", name, before, None, self._keyed)
        if self._plain:
            return RecordChange("changed", name, before, after, self._keyed)
        options = self._options
        view = self._kind.members_view
        found = compare_views(view(before.payload), view(after.payload), loose=options.loose)
        if options.loose and not self._kind.typed:
            found = [one for one in found if not has_same_reading(one.before, one.after)]
        fields = [one for one in found if self._is_compared(one.path)] if self._only or self._ignored else found
        facts = list(_compare_metadata(before, after)) if options.stamps else []
        # Only bytes differ: this is a change unless fields alone are compared.
        respelled = not found and before.payload != after.payload
        if fields or facts or (respelled and not (options.loose or self._only)):
            return RecordChange("changed", name, before, after, self._keyed, fields, facts)
        return None

    def _is_compared(self, path: FieldPath) -> bool:
        names = _strip_positions(path)
        if any(names[: len(one)] == one for one in self._ignored):
            return False
        return not self._only or any(names[: len(one)] == one or one[: len(names)] == names for one in self._only)


def _strip_positions(path: FieldPath) -> FieldPath:
    return path if len(path) == 1 else tuple(part for part in path if isinstance(part, str))


def _split_names(text: str) -> tuple[str, ...]:
    return parse_path(text.strip()).names


def _compare_metadata(before: StoredRecord, after: StoredRecord) -> Iterator[MetadataDifference]:
    """Yield the metadata in which two records differ."""
    for name, one, other in (
        ("timestamp", format_time(before.timestamp), format_time(after.timestamp)),
        ("expiration", format_expiry(before.expiration), format_expiry(after.expiration)),
        ("txid", before.txid, after.txid),
        ("correlation_id", before.correlation_id, after.correlation_id),
        ("user_key", before.user_key, after.user_key),
        ("topic", before.logical_topic, after.logical_topic),
    ):
        if one != other:
            yield name, one, other
