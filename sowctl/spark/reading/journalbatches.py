"""The entries of a journal that a query asks for: chosen in its blocks, and made into Arrow batches.

The reader of :mod:`sowctl.spark.reading.journalreader` calls it for every task, and where a schema is to be inferred;
the data sources make the query of their options. sowctl-spark(7), COLUMNS and FILTERS, rules both. Numbers and payloads
go from the decompressed blocks into Arrow without being looked at one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import field

from sowctl.arrow import arrays
from sowctl.arrow.entries import build_entry_column, join_blocks, read_payload_parts
from sowctl.arrow.inference import SampledView, build_misfit_error
from sowctl.arrow.jsoncolumns import Misfit
from sowctl.engine.extensions.functions import load_functions
from sowctl.engine.fold.blocks import build_entry_mask, read_entry_values
from sowctl.engine.search.matcher import Matcher, build_environment
from sowctl.errors import ConfigError
from sowctl.identity.hashes import hash_client_name
from sowctl.journal.entries import USER_KEYS_FLAG
from sowctl.journal.format import OPERATIONS, PUBLISH
from sowctl.messages.base import is_own_view
from sowctl.spark.catalog import is_mark_column
from sowctl.spark.reading.bounds import NumberRange, ReadBounds
from sowctl.spark.reading.malformed_messages import JudgedBatch, MalformedRule, MessageJudge
from sowctl.spark.schema import MORE_SAMPLES_HINT, PAYLOAD_COLUMN, is_inferred
from sowctl.store.codec import read_stamps
from sowctl.structs import DescribedStruct
from sowctl.values.topicref import TopicRef

if TYPE_CHECKING:
    import pyarrow

    from sowctl.arrow.struct_decoder import StructDecoder
    from sowctl.journal.arrays import EntryArrays
    from sowctl.journal.block import Block
    from sowctl.messages.base import MessageType
    from sowctl.spark.origin import Origin


MIN_BATCH_ROWS = 8192
"""Rows from which on a batch is handed on; smaller blocks are put together."""


class JournalQuery(DescribedStruct, frozen=True):
    """Query for entries of a journal. ``topic`` and ``message_type`` None: any; ``operation`` may be ``all``;
    ``changes``: what they did to records (:mod:`sowctl.spark.reading.journalchanges`)."""

    origin: Origin
    topic: str | None = None
    message_type: str | None = None
    operation: str = "all"
    filter: str | None = None
    txids: NumberRange = field(default_factory=NumberRange)
    times: NumberRange = field(default_factory=NumberRange)
    partition_bytes: int | None = None
    malformed: MalformedRule = MalformedRule()
    changes: bool = False

    @property
    def ref(self) -> TopicRef | None:
        """The one topic that is asked for; None where its name or its message type is not given."""
        return TopicRef(self.topic, self.message_type) if self.topic and self.message_type else None

    def build_bounds(self) -> ReadBounds:
        """Return the bounds that the query itself sets: txids, times, topic and operation."""
        bounds = ReadBounds(txids=self.txids, times=self.times)
        if self.topic is not None:
            bounds = bounds.restrict_names("topic_names", [self.topic])
        return bounds if self.operation == "all" else bounds.restrict_names("operations", [self.operation])


BlockRun = list[tuple["Block", "arrays.Numbers | None"]]
"""Blocks, and which of their entries are wanted; None for all."""


class BatchBuilder:
    """Makes record batches of blocks in the columns of ``schema``: what a query asks for, within ``bounds``."""

    def __init__(self, query: JournalQuery, bounds: ReadBounds, schema: pyarrow.Schema) -> None:
        import pyarrow.types as t

        self._query = query
        self._bounds = bounds
        self._schema = schema
        self._instance = query.origin.build_instance()
        name = query.origin.journal_name
        # Entries without a client have a bookmark of their instance (behaviour 11.54); beside a bare directory of files
        # only the name in these says which that is.
        self.owner = self._instance.publisher_id if name is None else hash_client_name(name)
        self._matchers: dict[tuple[TopicRef, bool], Matcher] = {}
        self._decoder: StructDecoder | None = None
        self._strict = False
        self.judging = MessageJudge(query.malformed, schema)
        if (
            not self.judging.needed
            and PAYLOAD_COLUMN in schema.names
            and t.is_struct(schema.field(PAYLOAD_COLUMN).type)
        ):
            from sowctl.arrow.struct_decoder import StructDecoder

            self._strict = is_inferred(schema)
            self._decoder = StructDecoder(schema.field(PAYLOAD_COLUMN).type, strict=self._strict)

    def build_batch(self, run: BlockRun) -> pyarrow.RecordBatch:
        """The entries of some blocks that are wanted."""
        import numpy as np
        import pyarrow as pa

        entries = join_blocks([block for block, _ in run])
        mask = None
        if any(chosen is not None for _, chosen in run):
            # Columns are made of whole blocks, without a copy of each entry, and cut by the mask at the end.
            mask = np.concatenate([np.ones(len(block), bool) if chosen is None else chosen for block, chosen in run])
        judged = self._judge_messages(entries, mask) if self.judging.needed else None
        columns = []
        for name in self._schema.names:
            if judged is not None and name in (PAYLOAD_COLUMN, self.judging.column):
                columns.append(judged.payload if name == PAYLOAD_COLUMN else judged.corrupt)
            else:
                columns.append(self._column(name, entries, mask))
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        if judged is not None and judged.kept is not None:
            mask = judged.kept if mask is None else mask & judged.kept
        return batch if mask is None else batch.filter(pa.array(mask))

    def select_entries(self, block: Block) -> arrays.Numbers | None:
        """Return a mask of the entries of a block that are wanted; None for all."""
        import numpy as np

        if self._query.filter is not None and not self._may_match(block):
            return np.zeros(len(block), bool)
        bounds = self._bounds
        numbers = block.decode_numpy_columns()
        within = build_entry_mask(
            block,
            [topic for topic in block.topic_refs if self.wants_topic(topic)],
            # The engine's bound is exclusive, and txids count from 1.
            after=(bounds.txids.low or 1) - 1,
            until=bounds.txids.high,
            since=bounds.times.low,
            at=bounds.times.high,
            # Entries of topics without a SOW have no key, and are part of the journal all the same.
            unkeyed=True,
        )
        tests = [] if within is None else [within]
        if bounds.operations is not None:
            codes = [code for code, word in OPERATIONS.items() if word in bounds.operations]
            tests.append(np.isin(numbers.operations, codes))
        if self._query.filter is not None:
            tests.append(self._match_messages(block))
        found = np.logical_and.reduce(tests) if tests else None
        # None where all are wanted, so that the columns of the block are handed on without a copy.
        return None if found is None or found.all() else found

    def iterate_views(self, block: Block) -> Iterator[SampledView]:
        """JSON views of the messages of a block that are of the topics of the query, in txid order."""
        import numpy as np

        topics = [topic for topic in block.topic_refs if self.wants_topic(topic)]
        if not topics:
            return
        numbers = block.decode_numpy_columns()
        published = numbers.operations == PUBLISH
        of_topics = build_entry_mask(block, topics, unkeyed=True)
        if of_topics is not None:
            published = published & of_topics
        places = np.flatnonzero(published)
        # Message types are looked up once for a block, not for each of its messages.
        kinds = [self.find_message_type(topic.message_type) for topic in block.topic_refs]
        payloads = block.list_payloads()
        for place, index in zip(places.tolist(), numbers.topic_indexes[places].tolist(), strict=True):
            kind = kinds[index]
            yield SampledView(kind.members_view(payloads[place]), kind.repeatable)

    def wants_topic(self, topic: TopicRef) -> bool:
        """Return whether entries of a topic are asked for."""
        names, kind = self._bounds.topic_names, self._query.message_type
        return (names is None or topic.name in names) and (kind is None or topic.message_type == kind)

    def _may_match(self, block: Block) -> bool:
        """Return whether any message of a block may match the filter, by its bytes: no column is read."""
        run = block.decompress_payloads()
        matchers = [self._matcher_in(block, topic) for topic in block.topic_refs if self.wants_topic(topic)]
        return any(matcher.can_match_run(run, len(block)) for matcher in matchers)

    def _matcher_in(self, block: Block, topic: TopicRef) -> Matcher:
        # Where publishers choose no keys, every message of a topic with key fields was read when it was published.
        seen = not block.header.flags & USER_KEYS_FLAG and topic in self._keyed_refs
        return self.build_matcher(topic, seen=seen)

    def _match_messages(self, block: Block) -> arrays.Numbers:
        """The publishes whose messages match the filter."""
        import numpy as np

        found = np.zeros(len(block), bool)
        for topic in filter(self.wants_topic, block.topic_refs):
            matcher = self._matcher_in(block, topic)
            # A deletion has no message, so no filter can match it.
            places = self._find_publishes(block, topic)
            messages = block.list_payloads()
            if len(places) < len(messages):
                messages = [messages[place] for place in places.tolist()]
            matches = matcher.find_matching_messages(messages)
            if matches is None:
                matches = self._match_records(block, topic, matcher, places)
            found[places[list(matches)]] = True
        return found

    def _find_publishes(self, block: Block, topic: TopicRef) -> arrays.Numbers:
        """Return the positions of a topic's publishes in a block."""
        import numpy as np

        numbers = block.decode_numpy_columns()
        there = numbers.operations == PUBLISH
        if len(block.topic_refs) > 1:
            there &= numbers.topic_indexes == block.topic_refs.index(topic)
        return np.flatnonzero(there)

    def _match_records(self, block: Block, topic: TopicRef, matcher: Matcher, places: arrays.Numbers) -> Sequence[int]:
        """Return which of the entries at ``places`` match, by the records that they make."""
        keys, values = read_entry_values(block, topic, unkeyed=True)
        first = block.first_txid
        published = set((places + first).tolist())
        kept = [place for place, value in enumerate(values) if read_stamps(value)[0] in published]
        return matcher.find_matches([keys[place] for place in kept], [values[place] for place in kept])

    @cached_property
    def _keyed_refs(self) -> frozenset[TopicRef]:
        """The topics whose keys are fields of their messages."""
        return frozenset(one.ref for one in self._instance.topics if one.key_mode == "fields")

    def build_matcher(self, topic: TopicRef, *, seen: bool = False) -> Matcher:
        """The filter, for messages of one topic; ``seen``: each of them was read when it was published."""
        # A filter is compiled once for a topic and task: the same path may mean different fields in another message
        # type.
        known = self._matchers.get((topic, seen))
        if known is None:
            instance = self._instance
            known = self._matchers[topic, seen] = Matcher(
                self._query.filter,
                self.find_message_type(topic.message_type),
                topic.name,
                build_environment(instance),
                seen=seen,
                functions=load_functions(instance),
            )
        return known

    def find_message_type(self, message_type: str) -> MessageType:
        """The message type of that name; bytes where the configuration has none."""
        try:
            return self._instance.find_message_type(message_type)
        except ConfigError:
            # A journal outlives its configuration: messages of a type that was removed are shown as bytes.
            return self._instance.find_message_type("binary")

    def _column(self, name: str, entries: EntryArrays, mask: arrays.Numbers | None) -> pyarrow.Array:
        import pyarrow as pa

        if is_mark_column(name):
            return pa.nulls(len(entries.txids), pa.string())
        return self._payload(entries, mask) if name == PAYLOAD_COLUMN else build_entry_column(name, entries, self.owner)

    def _payload(self, entries: EntryArrays, mask: arrays.Numbers | None) -> pyarrow.Array:
        published = entries.operations == PUBLISH
        if self._decoder is None:
            # A deletion has no message, which is not the same as a message without bytes: NULL tells them apart.
            return arrays.build_binaries(read_payload_parts(entries), entries.lengths, published)
        if self._strict and mask is not None:
            # inferred types were made for what is asked for; other messages in the blocks need not fit them
            published &= mask
        try:
            return self._structs(self._decoder, entries, published)
        except Misfit as problem:
            raise build_misfit_error(problem, f"entry {entries.txids[problem.row]}", MORE_SAMPLES_HINT) from None

    def _judge_messages(self, entries: EntryArrays, mask: arrays.Numbers | None) -> JudgedBatch:
        published = entries.operations == PUBLISH
        # Only what is asked for is judged: other messages in the blocks need not fit.
        asked = published if mask is None else published & mask
        topic_refs, places = entries.batch.topic_refs, entries.topic_indexes
        kinds = [self.find_message_type(message_type) for _, message_type in topic_refs]
        kind = kinds[0]
        several = len(set(map(id, kinds))) > 1
        read = self.judging.judge_messages

        def name(row: int) -> str:
            return f"entry {entries.txids[row]}"

        try:
            if not several and is_own_view(kind) and not entries.lengths[~published].any():
                found = self.judging.judge_columns(read_payload_parts(entries), entries.lengths, published, asked, name)
                if found is not None:
                    return found
                read = self.judging.judge_rows
            messages = [
                one if wanted else None for one, wanted in zip(entries.batch.payloads, asked.tolist(), strict=True)
            ]
            if several:
                # Several types in one block: JSON views are what they have in common.
                kind = self.find_message_type("json")
                for place, topic in enumerate(places.tolist()):
                    one = messages[place]
                    messages[place] = None if one is None else self.judging.build_view(one, kinds[topic])
            return read(messages, kind, name)
        except Misfit as problem:
            raise build_misfit_error(problem, name(problem.row), MORE_SAMPLES_HINT) from None

    def _structs(self, decoder: StructDecoder, entries: EntryArrays, published: arrays.Numbers) -> pyarrow.Array:
        topic_refs, places = entries.batch.topic_refs, entries.topic_indexes
        kinds = [self.find_message_type(message_type) for _, message_type in topic_refs]
        same = len(set(map(id, kinds))) == 1
        # One type whose messages are JSON, and no deletion with bytes of its own: the decoder takes the block's bytes
        # as they lie.
        if same and is_own_view(kinds[0]) and not entries.lengths[~published].any():
            return decoder.decode_packed(read_payload_parts(entries), entries.lengths, published)
        messages: list[Any] = list(entries.batch.payloads)
        if not published.all():
            messages = [one if there else None for one, there in zip(messages, published.tolist(), strict=True)]
        if same:
            return decoder.decode_payloads(messages, kinds[0])
        for place, topic in enumerate(places.tolist()):
            if messages[place] is not None:
                # Several types in one block: JSON views are what they have in common.
                messages[place] = decoder.build_view(messages[place], kinds[topic])
        return decoder.decode_views(messages)
