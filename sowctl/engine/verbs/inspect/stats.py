"""stats: statistics of the values of fields, and the number of messages published over time.

Values are those that filters see: all values of a path with several values. Memory is bounded: counts, quantiles and
the most frequent values are exact while the values fit, and marked otherwise (:mod:`sowctl.engine.profile`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import chain
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sowctl.engine.maintenance.journal_search.criteria import Criteria
from sowctl.engine.maintenance.journal_search.entries import resolve_topic_names
from sowctl.engine.profile.number_profile import QUANTILE_RANKS, HistogramBar, NumberBudget, NumberProfile
from sowctl.engine.profile.path_profile import TopicProfile
from sowctl.engine.profile.rates import MAX_INTERVALS, MINUTE_MICROS, RateCounter, RatesReport
from sowctl.engine.profile.sample import PayloadSample, SampleShare
from sowctl.engine.profile.tally import FrequentValue, Tally, TallyBudget
from sowctl.engine.profile.trees import UNREADABLE, parse_trees
from sowctl.engine.topics.positions import notify_skipped_tail, open_whole_log
from sowctl.engine.topics.targets import split_target
from sowctl.engine.views.gc_pause import pause_collection
from sowctl.errors import SowError, UsageError
from sowctl.messages.base import build_column_extractor
from sowctl.structs import DescribedStruct
from sowctl.values.fields import Number, Slot, SlotValue, ValueList
from sowctl.values.paths import Path
from sowctl.values.scalars import choose_written_scalar
from sowctl.values.unique_members import count_members

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.records import RecordBatch
    from sowctl.messages.base import MessageType

MAX_FIELDS = 100
"""Maximum number of fields if none is named: a value or NULL of each is taken from every record."""
TOP_VALUES = 5
HISTOGRAM_BARS = 10


class StatsLimits(Struct):
    """Limits of reading for statistics of fields; tests set smaller ones."""

    max_probed_values: int = 500_000
    """Values read to find the fields, if none is named. 5 us each: 50,000 orders of ten fields, 333 records of 1,500.
    They are the first by key, so not a special selection."""
    probe_batch_records: int = 1000
    """Records per batch of this search."""
    max_values: int = 10_000_000
    """Maximum number of values read from the fields that were found: 10 s. If there are more, only a share of the
    records is read."""
    max_message_bytes: int = 256_000_000
    """Maximum bytes of messages read for them. 1,000,000 orders of 219 bytes take 9 s of CPU, and 20,000 messages of
    1,500 fields, 395,000,000 bytes, took 27 s when all were read."""


STATS_LIMITS = StatsLimits()


class NumberFacts(DescribedStruct, frozen=True):
    """The numbers among the values of a field. ``quantiles`` by rank; ``rank_error``: the maximum error of a rank as a
    share of all numbers, None if quantiles are exact. ``infinite``: number of infinite values, which no other figure
    includes."""

    count: int
    infinite: int
    minimum: int | float
    maximum: int | float
    mean: float | None
    quantiles: dict[str, int | float]
    rank_error: float | None
    histogram: list[HistogramBar]


class FieldFacts(DescribedStruct, frozen=True):
    """One field. ``records`` have a value there, ``without`` have none or NULL; an empty text counts as NULL.

    ``values`` counts those of all records, ``types`` by type. ``distinct`` counts different ones; ``distinct_error`` is
    the standard error of an estimate, None if the count is exact. ``shortest`` and ``longest``: characters of texts.
    """

    path: str
    records: int
    without: int
    values: int
    types: dict[str, int]
    distinct: int
    distinct_error: float | None
    first: str | None
    last: str | None
    shortest: int | None
    longest: int | None
    numbers: NumberFacts | None
    top: list[FrequentValue]


class StatsReport(DescribedStruct, frozen=True):
    """The fields of one topic's messages. ``looked_at`` of ``records`` were read; ``unreadable`` of them are invalid in
    their message type. If no field was named, the fields are those of the first ``searched`` records (None: of all),
    without ``left_out`` ones beyond the limit."""

    topic: str
    message_type: str
    records: int
    looked_at: int
    unreadable: int
    left_out: int
    fields: list[FieldFacts]
    searched: int | None = None


class _FieldProfile:
    """The accumulated profile of one field."""

    def __init__(self, path: Path, room: TallyBudget, store: NumberBudget) -> None:
        self.path = path
        self.records = self.without = self.values = 0
        self.types: dict[str, int] = {}
        self.tally = Tally(room, top=True)
        self.numbers = NumberProfile(store)
        self.first: str | None = None
        self.last: str | None = None
        self.shortest: int | None = None
        self.longest: int | None = None

    def add_values(self, column: Sequence[SlotValue]) -> None:
        """Add the slot values of a batch."""
        kinds = set(map(type, column))
        flat: Sequence[Any] = column
        if ValueList in kinds:
            lists = [value.items if type(value) is ValueList else (value,) for value in column]
            self.without += sum(1 for items in lists if not any(item not in (None, "", b"") for item in items))
            flat = list(chain.from_iterable(lists))
            kinds = set(map(type, flat))
        else:
            self.without += sum(map(column.count, (None, "", b"")))
        self.records += len(column)
        if Number in kinds:
            flat = self._choose_kinds(flat)
            kinds = set(map(type, flat))
        if kinds & {str, bytes}:
            self._add_texts([_format_value(value) for value in flat if type(value) in (str, bytes) and value])
        if bool in kinds:
            self._count_values("boolean", truths := [value for value in flat if type(value) is bool])
            self.tally.add_booleans(truths)
        if kinds & {int, float}:
            found = flat if kinds <= {int, float} else [value for value in flat if type(value) in (int, float)]
            whole = sum(1 for value in found if type(value) is int) if float in kinds else len(found)
            self.types["integer"] = self.types.get("integer", 0) + whole
            self.types["number"] = self.types.get("number", 0) + len(found) - whole
            self.values += len(found)
            self.tally.add_values(found)
            self.numbers.add_numbers(found)

    def _choose_kinds(self, flat: Sequence[Any]) -> list[Any]:
        """Return the values as they are displayed, for a message type that does not distinguish numbers from texts.

        Texts that look like numbers are added to the numbers, too, because they are compared and summed as numbers.
        """
        shown = [choose_written_scalar(value) if type(value) is Number else value for value in flat]
        pairs = zip(flat, shown, strict=True)
        self.numbers.add_numbers(
            [value.value for value, text in pairs if type(value) is Number and type(text) is bytes]
        )
        return shown

    def _count_values(self, kind: str, values: Sequence[object]) -> None:
        self.types[kind] = self.types.get(kind, 0) + len(values)
        self.values += len(values)

    def _add_texts(self, texts: list[str]) -> None:
        if not texts:
            return
        self._count_values("string", texts)
        self.tally.add_values(texts)
        low, high = min(texts), max(texts)
        self.first = low if self.first is None else min(self.first, low)
        self.last = high if self.last is None else max(self.last, high)
        lengths = set(map(len, texts))
        self.shortest = min(lengths | {self.shortest} if self.shortest is not None else lengths)
        self.longest = max(lengths | {self.longest} if self.longest is not None else lengths)

    def build_facts(self, top: int, bars: int) -> FieldFacts:
        """Return the statistics of the field."""
        distinct = self.tally.count_distinct()
        return FieldFacts(
            str(self.path),
            self.records - self.without,
            self.without,
            self.values,
            {name: count for name, count in self.types.items() if count},
            distinct.count,
            distinct.error or None,
            self.first,
            self.last,
            self.shortest,
            self.longest,
            _build_number_facts(self.numbers, bars) if self.numbers.count or self.numbers.infinite else None,
            self.tally.list_frequent(top),
        )


def compute_stats(
    ask: Callable[[], AbstractContextManager[Iterable[RecordBatch]]],
    topic: str,
    kind: MessageType,
    paths: Sequence[Path],
    share: SampleShare | None = None,
    *,
    top: int = TOP_VALUES,
    bars: int = HISTOGRAM_BARS,
) -> StatsReport:
    """Read the records of one ``topic`` and return the statistics of ``paths``. ``ask`` opens the records; without
    ``paths`` it is called twice, first to find the fields. Reads all records, or a ``share``; of fields that were
    found, ``max_values`` values if no share is given.

    Raises UsageError ``SOW-STA-001`` for a type without fields, and what reading the records raises.
    """
    if not kind.filterable:
        raise UsageError(
            "SOW-STA-001",
            f"messages of type {kind.name} have no fields",
            hint="sowctl info prints counts and sizes, sowctl stats --journal the messages per minute",
            topic=topic,
        )
    share = share or SampleShare()
    left_out, searched = 0, None
    if not paths:
        found = _find_fields(ask, kind, share)
        paths, left_out, searched = found.paths, found.left_out, found.searched
        by_values = STATS_LIMITS.max_values / max(found.records * len(paths), 1)
        by_bytes = STATS_LIMITS.max_message_bytes / max(found.size, 1)
        if share.is_all and (part := min(by_values, by_bytes)) < 1:
            share = SampleShare(part=part)
    room, store = TallyBudget(), NumberBudget()
    fields = [_FieldProfile(path, room, store) for path in paths]
    read = build_column_extractor(kind.build_extractor([Slot(path, text=not kind.typed) for path in paths]))
    unreadable = 0
    with ask() as batches, pause_collection():
        sampled = PayloadSample(batches, share)
        for payloads in sampled:
            columns, refused = read(payloads)
            unreadable += len(refused)
            bad = {one.index for one in refused}
            for field, column in zip(fields, columns, strict=False):
                field.add_values([value for at, value in enumerate(column) if at not in bad] if bad else column)
            room.enforce()
            store.enforce()
    facts = [field.build_facts(top, bars) for field in fields]
    return StatsReport(topic, kind.name, sampled.seen, sampled.taken, unreadable, left_out, facts, searched)


class _FoundFields(Struct, frozen=True):
    """The fields that messages have, without the ``left_out`` ones: those beyond :data:`MAX_FIELDS`, and names that no
    filter can express. ``searched``: the number of records searched for fields (None: all), ``records``: the number of
    all records, ``size``: the bytes of the sampled ones."""

    paths: list[Path]
    left_out: int
    searched: int | None
    records: int
    size: int


def _find_fields(
    ask: Callable[[], AbstractContextManager[Iterable[RecordBatch]]], kind: MessageType, share: SampleShare
) -> _FoundFields:
    """Return the paths that have values other than NULL."""
    from sowctl.values.paths import parse_path

    shapes = TopicProfile(valued=False)
    values = searched = size = 0
    with ask() as batches, pause_collection():
        sampled = PayloadSample(batches, share, STATS_LIMITS.probe_batch_records)
        for payloads in sampled:
            size += sum(map(len, payloads))
            # The other records are counted: their number and size determine which share of them is read later.
            if values < STATS_LIMITS.max_probed_values:
                found = parse_trees(payloads, kind.view)
                shapes.add_trees(found)
                values += count_members([tree for tree in found if tree is not UNREADABLE])
                searched += len(payloads)
    scalar = {"string", "integer", "number", "boolean"}
    fields = dict.fromkeys(
        shape.field for shape in shapes.root.iterate_paths() if shape.field and scalar & set(shape.types)
    )
    paths = []
    for field in fields:
        # A name that filters cannot express is not a field, and has no statistics.
        with suppress(SowError):
            paths.append(parse_path(field))
    more = len(fields) - len(paths[:MAX_FIELDS])
    paths = paths[:MAX_FIELDS]
    return _FoundFields(paths, more, searched if searched < sampled.taken else None, sampled.seen, size)


def _build_number_facts(found: NumberProfile, bars: int) -> NumberFacts:
    values = found.compute_quantiles()
    ranks = {f"{rank:.0%}": value for rank, value in zip(QUANTILE_RANKS, values, strict=False)}
    low, high = found.minimum, found.maximum
    return NumberFacts(
        found.count,
        found.infinite,
        low if low is not None else 0,
        high if high is not None else 0,
        found.mean,
        ranks,
        None if found.is_exact else found.max_rank_error,
        found.build_histogram(bars),
    )


def _format_value(value: str | bytes) -> str:
    return value if type(value) is str else value.decode("utf-8", "replace")  # type: ignore[union-attr]  # bytes then


class EntryRange(DescribedStruct, frozen=True):
    """The range of journal entries to count: bounds inclusive, None for no bound; times in microseconds UTC."""

    from_time: int | None = None
    to_time: int | None = None
    from_txid: int | None = None
    to_txid: int | None = None
    client: str | None = None


def count_rates(
    instance: Instance,
    topic_names: Sequence[str],
    within: EntryRange,
    *,
    interval: int = MINUTE_MICROS,
    most: int = MAX_INTERVALS,
    by_topic: bool = False,
    directory: FilePath | None = None,
) -> RatesReport:
    """Return the number of messages of ``topic_names`` (none: of all topics) per ``interval`` of microseconds, by topic
    and client, or only by topic with ``by_topic``.

    The interval is increased if there would be more than ``most`` from the first to the last message.

    Raises MissingError ``SOW-JRN-001`` without a journal file, ``SOW-ENG-012`` for a topic that does not exist, and
    what reading the journal raises.
    """
    from sowctl.identity.hashes import hash_client_name

    found = RateCounter(interval, most, by_topic=by_topic)
    with open_whole_log(instance, directory) as log:
        names, message_type = resolve_topic_names(instance, log, [split_target(text) for text in topic_names])
        wanted = Criteria(
            names=names,
            message_type=message_type,
            client=None if within.client is None else hash_client_name(within.client),
            from_time=within.from_time,
            to_time=within.to_time,
            from_txid=within.from_txid,
            to_txid=within.to_txid,
        )
        for ref in log.iter_block_refs(after=(within.from_txid or 1) - 1):
            header = ref.header
            if within.to_txid is not None and header.first_txid > within.to_txid:
                break
            if wanted.matches_header(header) and wanted.matches_map(header, ref.read_map()):
                block = ref.load()
                found.count_entries(block, wanted.find_places(block))
        notify_skipped_tail(instance, log)
    return found.build_report()
