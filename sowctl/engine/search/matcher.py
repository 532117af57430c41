"""The filter over batches of stored records: a prefilter without decoding, then the filter on decoded records. Also a
source of the matching records of another source.

Called batch by batch by scans, lookups and Spark tasks. Ruled by ``sowctl-expressions(7)``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.sources.source import Pairs, Source
from sowctl.errors import InputError, SowError, UsageError
from sowctl.messages.base import find_single_pass
from sowctl.store.codec import OPTIONAL_PART_FLAGS, LazyValues, decode_record, extract_payloads, read_stamps

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.search.prefilter import LiteralPatterns
    from sowctl.expressions.compiler import Filter
    from sowctl.expressions.environment import Environment, Header
    from sowctl.expressions.functions.signature import Function
    from sowctl.journal.block import Block
    from sowctl.messages.base import MessageType
    from sowctl.store.integrity import Marks
    from sowctl.store.meta import Definition
    from sowctl.values.fields import Refusal, Row

T = TypeVar("T")


class Matcher:
    """A compiled filter over stored values of one message type.

    ``seen``: every message was parsed when it was published, so none can be unreadable. ``functions``: functions added
    by modules of the configuration. ``view_of``: the sources (message type and name) of the view whose filter this is;
    its fields may name them.
    """

    def __init__(
        self,
        text: str | None,
        kind: MessageType,
        topic: str,
        environment: Environment | None,
        *,
        seen: bool = False,
        functions: Mapping[str, Function] | None = None,
        view_of: Collection[tuple[str, str]] = (),
    ) -> None:
        self.type = kind
        self.topic = topic
        self.filter: Filter | None = None
        self.environment = environment
        self.functions = functions or {}
        self._traces: LiteralPatterns | None = None
        self._expected = 0
        self._shows = False
        self._read: Callable[[Sequence[bytes]], tuple[Iterable[Row], list[Refusal]]] | None = None
        if text is not None and text.strip():
            from sowctl.expressions.compiler import compile_filter, compile_view_filter

            if view_of:
                self.filter = compile_view_filter(text, view_of, self.functions)
            else:
                self.filter = compile_filter(text, extra=self.functions)
            if self.filter.slots and not self.type.filterable:
                raise UsageError(
                    "SOW-QRY-003", f"messages of type {kind.name} have no fields, so they cannot be filtered by fields"
                )
            self._shows = seen and kind.json_text

    def find_matches(self, keys: Sequence[bytes], values: Sequence[bytes]) -> Sequence[int]:
        """Return the indexes of the matching records. Raises the errors of :meth:`decide_matches`."""
        # Lazy values are cut out of larger buffers on demand: the prefilter searches payloads, and only values that
        # pass it are cut out.
        uncut = isinstance(values, LazyValues)
        places = self.find_possible(extract_payloads(values) if uncut else values, None)
        if len(places) == len(values):
            return self.decide_matches(keys, values)
        chosen = values.select_values(places) if isinstance(values, LazyValues) else [values[place] for place in places]
        found = self.decide_matches([keys[place] for place in places], chosen)
        return [places[place] for place in found]

    def find_matching_messages(self, messages: Sequence[bytes]) -> Sequence[int] | None:
        """Return the indexes of the matching messages, without their records.

        Return None if :meth:`find_matches` must decide: for a filter on metadata, unreadable messages, or an error.
        """
        if self.filter is None or self.filter.uses_header:
            return None
        assert self.environment is not None
        places = self.find_possible(messages, None)
        chosen = messages if len(places) == len(messages) else [messages[place] for place in places]
        if not chosen:
            return ()
        try:
            rows, refused = self._get_reader()(chosen)
            found = None if refused else self.filter.find_matches(rows, self.environment, None)
        except SowError:
            return None
        return None if found is None else [places[place] for place in found]

    def find_possible(self, values: Sequence[bytes], run: bytes | None) -> Sequence[int]:
        """Return the indexes of the records that may match, decided without decoding them.

        ``run``: all values joined with the marks of :meth:`build_marks`, or None.
        """
        traces = self._choose_patterns(len(values))
        return range(len(values)) if traces is None else traces.find_candidates(values, run)

    def can_match_run(self, run: memoryview, messages: int) -> bool:
        """Return whether any of the ``messages`` messages joined in ``run`` may match, without cutting them out."""
        traces = self._choose_patterns(messages)
        return traces is None or traces.can_match_run(run)

    def build_marks(self, records: int) -> Marks | None:
        """Return the marks for runs of a filtered scan of ``records`` records; None if no marks are needed."""
        traces = self._choose_patterns(records)
        return None if traces is None else traces.marks

    def _choose_patterns(self, records: int) -> LiteralPatterns | None:
        """Return the literal patterns to search for in ``records`` more records, None if decoding all is faster."""
        if self._shows and self._traces is None:
            self._expected += records
            # Loading the search engine takes longer than decoding a few records, so it is loaded only after enough of
            # them.
            if self._expected < QUERY_LIMITS.prefilter_min_records:
                return None
            from sowctl.engine.search.prefilter import build_literal_patterns

            assert self.filter is not None
            assert self.environment is not None
            # The marks between values are random, so that no payload can be crafted to contain one: that would assign
            # a match to another record.
            self._traces = build_literal_patterns(self.filter.conjuncts, self.environment.random)
        # Once the search has proved too slow for the data, it stays off.
        self._shows = self._shows and self._traces is not None and self._traces.is_worthwhile
        return self._traces if self._shows else None

    def list_conditions(self) -> tuple[str, ...]:
        """Return the conditions that a record must satisfy, as texts."""
        return () if self.filter is None else tuple(map(str, self.filter.conjuncts))

    @property
    def is_selective(self) -> bool:
        """True if there is a filter."""
        return self.filter is not None

    def decide_matches(self, keys: Sequence[bytes], values: Sequence[bytes]) -> Sequence[int]:
        """Return the indexes of the matching records, decoding all records.

        Raises InputError ``SOW-QRY-004`` for a stored payload that cannot be read, LimitError for a runaway pattern.
        """
        if self.filter is None or not values:
            return range(len(values))
        assert self.environment is not None
        rows = self._read_rows(keys, values)
        headers = build_headers(keys, values, self.topic) if self.filter.uses_header else None
        try:
            return self.filter.find_matches(rows, self.environment, headers)
        except SowError as error:
            # The filter runs over a batch; the failing record is determined only after an error.
            for place in self._find_failing(keys, values, headers, error):
                name_record(error, keys[place], self.topic)
            raise

    def _find_failing(
        self, keys: Sequence[bytes], values: Sequence[bytes], headers: Sequence[Header] | None, error: SowError
    ) -> Iterator[int]:
        """Yield the index of the failing row; errors of user functions do not contain it."""
        assert self.filter is not None
        assert self.environment is not None
        if "index" in error.facts:
            yield error.facts["index"]
            return
        for place, row in enumerate(self._read_rows(keys, values)):
            try:
                self.filter.find_matches([row], self.environment, headers and headers[place : place + 1])
            except SowError:
                yield place
                return

    def _read_rows(self, keys: Sequence[bytes], values: Sequence[bytes]) -> Iterable[Row]:
        """Return the filter's slots of every record; the result can be iterated only once."""
        assert self.filter is not None
        if not self.filter.slots:
            # A filter on metadata needs no payload.
            return [()] * len(values)
        rows, refused = self._get_reader()(extract_payloads(values))
        if refused:
            first = refused[0]
            number = int.from_bytes(keys[first.index], "big")
            raise InputError(
                "SOW-QRY-004",
                f"record {number} has an invalid message: {first.message}",
                place=self.topic,
                hint="the topic accepts messages unparsed; query the record by key, or without a filter",
                sow_key=str(number),
            )
        return rows

    def _get_reader(self) -> Callable[[Sequence[bytes]], tuple[Iterable[Row], list[Refusal]]]:
        assert self.filter is not None
        if self._read is None:
            extract = self.type.build_extractor(self.filter.slots)
            # Rows are read once, in order, so an iterator suffices if the type supports it.
            self._read = find_single_pass(extract) or extract
        return self._read


class FilteredSource(Source):
    """The records of ``base`` that match; closing it closes ``base``.

    Reading raises the errors of :meth:`Matcher.find_matches`.
    """

    def __init__(self, base: Source, matcher: Matcher) -> None:
        self.topic = base.topic
        self.message_type = base.message_type
        self._base = base
        self._matcher = matcher

    @property
    def definition(self) -> Definition:
        """Message type and keys, as defined by the store of the records."""
        return self._base.definition

    def read_part(self, size: int, start: bytes | None = None, stop: bytes | None = None) -> Iterator[Pairs]:
        """Yield the matching records from ``start`` (inclusive) to ``stop`` (exclusive), in key order."""
        for pairs in self._base.read_part(size, start, stop):
            found = self._select_matches(pairs)
            if found[0]:
                yield found

    def find_records(self, keys: Sequence[bytes]) -> Pairs:
        """Return the matching records of ``keys``, in key order."""
        return self._select_matches(self._base.find_records(keys))

    def close(self) -> None:
        """Release the snapshot."""
        self._base.close()

    def _select_matches(self, pairs: Pairs) -> Pairs:
        keys, values = pairs
        places = self._matcher.find_matches(keys, values)
        return [keys[place] for place in places], [values[place] for place in places]


def name_record(error: SowError, key: bytes, topic: str) -> None:
    """Add the key of the failing record to an evaluation error."""
    number = int.from_bytes(key, "big")
    words = error.message.removesuffix(f" on record {error.facts.get('index')}")
    error.message = f"record {number}: {words}"
    error.place, error.facts["sow_key"] = topic, str(number)


def evaluate_records(evaluate: Callable[[slice], T], keys: Sequence[bytes], topic: str) -> T:
    """Evaluate an expression over all records of a batch; errors name the key of the failing record.

    ``evaluate`` receives the part of the batch to evaluate. If it fails with an error without an index, as errors of
    user functions are, it is called again for single records; its side effects until then must be discarded.
    """
    return evaluate_places(evaluate, len(keys), lambda error, place: name_record(error, keys[place], topic))


def evaluate_places(evaluate: Callable[[slice], T], size: int, name: Callable[[SowError, int], None]) -> T:
    """Like :func:`evaluate_records`, over ``size`` messages; ``name`` adds the failing message to an error."""
    try:
        return evaluate(slice(0, size))
    except SowError as error:
        place = error.facts.get("index")
        if place is None:
            place = next((at for at in range(size) if _fails(evaluate, at)), None)
        if place is not None:
            name(error, place)
        raise


def name_entry(error: SowError, block: Block, place: int) -> None:
    """Add the failing entry of a block to an evaluation error: its SOW key, or its txid if it has no key."""
    columns = block.decode_columns()
    key, topic = bytes(columns.keys[8 * place : 8 * place + 8]), block.topic_refs[columns.topic_indexes[place]][0]
    name_record(error, key, topic)
    if not any(key):
        error.message = f"entry {block.first_txid + place}" + error.message.removeprefix("record 0")
        error.facts["txid"] = block.first_txid + place


def _fails(evaluate: Callable[[slice], object], place: int) -> bool:
    try:
        evaluate(slice(place, place + 1))
    except SowError:
        return True
    return False


def build_headers(keys: Sequence[bytes], values: Sequence[bytes], topic: str) -> list[Header]:
    """Build the headers that message functions read, for stored records."""
    from sowctl.expressions.environment import Header

    headers = []
    for key, value in zip(keys, values, strict=True):
        hashed = str(int.from_bytes(key, "big"))
        # Most records have no optional parts, and need no full decoding.
        record = decode_record(key, value) if value[0] & OPTIONAL_PART_FLAGS else None
        logical = record.logical_topic if record is not None else None
        chosen = record.user_key.decode() if record is not None and record.user_key is not None else hashed
        headers.append(
            Header(
                topic=topic if logical is None else logical.decode("utf-8", "replace"),
                sow_key=chosen,
                sow_key_hash=hashed,
                correlation_id=record.correlation_id if record is not None else None,
                last_updated=read_stamps(value)[1],
                payload_size=len(extract_payloads((value,))[0]),
            )
        )
    return headers


def build_environment(instance: Instance, *, endless: bool = False) -> Environment:
    """Build the environment of expressions: clock and instance. ``endless``: for runs without an end."""
    from sowctl.expressions.environment import DEFAULT_LIMITS, Environment

    config = instance.config
    return Environment(
        now=instance.clock,
        instance_name=config.name if config is not None else None,
        group_name=config.group if config is not None else None,
        random=instance.random,
        limits=instance.limits or DEFAULT_LIMITS,
        endless=endless,
    )
