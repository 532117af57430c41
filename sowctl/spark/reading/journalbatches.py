"""Select the entries of a query in blocks of a journal, and convert them to Arrow batches.

:mod:`sowctl.spark.reading.journalreader` calls this module in every task and to infer a schema; the data sources build
the query from their options. The contract is sowctl-spark(7), COLUMNS and FILTERS. Numbers and payloads are moved from
the decompressed blocks to Arrow as whole columns, not one by one.
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
"""Minimum rows of a batch; smaller blocks are merged."""


class JournalQuery(DescribedStruct, frozen=True):
    """Query for entries of a journal. None for ``topic`` and ``message_type`` means any; ``operation`` may be ``all``;
    ``changes``: read their effects on records (:mod:`sowctl.spark.reading.journalchanges`)."""

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
        """The topic of the query, None if its name or message type is not given."""
        return TopicRef(self.topic, self.message_type) if self.topic and self.message_type else None

    def build_bounds(self) -> ReadBounds:
        """Return the bounds that the query itself sets: txids, times, topic and operation."""
        bounds = ReadBounds(txids=self.txids, times=self.times)
        if self.topic is not None:
            bounds = bounds.restrict_names("topic_names", [self.topic])
        return bounds if self.operation == "all" else bounds.restrict_names("operations", [self.operation])


BlockRun = list[tuple["Block", "arrays.Numbers | None"]]
"""Blocks, each with a mask of its selected entries (None: all)."""


class BatchBuilder:
    """Builds record batches with the columns of ``schema`` from the entries of a query within ``bounds``."""

    def __init__(self, query: JournalQuery, bounds: ReadBounds, schema: pyarrow.Schema) -> None:
        import pyarrow.types as t

        self._query = query
        self._bounds = bounds
        self._schema = schema
        self._instance = query.origin.build_instance()
        name = query.origin.journal_name
        # Entries without a client have a bookmark of their instance (behaviour 11.54). For a directory of journal
        # files, only the file names identify the instance.
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
        """Build one batch of the selected entries of several blocks."""
        import numpy as np
        import pyarrow as pa

        entries = join_blocks([block for block, _ in run])
        mask = None
        if any(chosen is not None for _, chosen in run):
            # Columns are built of whole blocks, without a copy of each entry, and filtered by the mask at the end.
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
        """Return a mask of the selected entries of a block, None for all."""
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
            # Entries of topics without a SOW have no key, but they are part of the journal.
            unkeyed=True,
        )
        tests = [] if within is None else [within]
        if bounds.operations is not None:
            codes = [code for code, word in OPERATIONS.items() if word in bounds.operations]
            tests.append(np.isin(numbers.operations, codes))
        if self._query.filter is not None:
            tests.append(self._match_messages(block))
        found = np.logical_and.reduce(tests) if tests else None
        # None if all are selected, so that the columns of the block need no copy.
        return None if found is None or found.all() else found

    def iterate_views(self, block: Block) -> Iterator[SampledView]:
        """Yield JSON views of the messages of a block that belong to topics of the query, in txid order."""
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
        # Look up message types once per block, not once per message.
        kinds = [self.find_message_type(topic.message_type) for topic in block.topic_refs]
        payloads = block.list_payloads()
        for place, index in zip(places.tolist(), numbers.topic_indexes[places].tolist(), strict=True):
            kind = kinds[index]
            yield SampledView(kind.members_view(payloads[place]), kind.repeatable)

    def wants_topic(self, topic: TopicRef) -> bool:
        """Return whether the query selects entries of a topic."""
        names, kind = self._bounds.topic_names, self._query.message_type
        return (names is None or topic.name in names) and (kind is None or topic.message_type == kind)

    def _may_match(self, block: Block) -> bool:
        """Return whether any message of a block may match the filter, judged by the payload bytes only."""
        run = block.decompress_payloads()
        matchers = [self._matcher_in(block, topic) for topic in block.topic_refs if self.wants_topic(topic)]
        return any(matcher.can_match_run(run, len(block)) for matcher in matchers)

    def _matcher_in(self, block: Block, topic: TopicRef) -> Matcher:
        # Messages of a topic with key fields were parsed when they were published, unless publishers chose the keys.
        seen = not block.header.flags & USER_KEYS_FLAG and topic in self._keyed_refs
        return self.build_matcher(topic, seen=seen)

    def _match_messages(self, block: Block) -> arrays.Numbers:
        """Return a mask of the publishes whose messages match the filter."""
        import numpy as np

        found = np.zeros(len(block), bool)
        for topic in filter(self.wants_topic, block.topic_refs):
            matcher = self._matcher_in(block, topic)
            # Deletions have no message, so no filter matches them.
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
        """Return which of the entries at ``places`` match, judged by the records that they publish."""
        keys, values = read_entry_values(block, topic, unkeyed=True)
        first = block.first_txid
        published = set((places + first).tolist())
        kept = [place for place, value in enumerate(values) if read_stamps(value)[0] in published]
        return matcher.find_matches([keys[place] for place in kept], [values[place] for place in kept])

    @cached_property
    def _keyed_refs(self) -> frozenset[TopicRef]:
        """The topics whose keys are computed from fields of the messages."""
        return frozenset(one.ref for one in self._instance.topics if one.key_mode == "fields")

    def build_matcher(self, topic: TopicRef, *, seen: bool = False) -> Matcher:
        """Return the matcher for messages of a topic; ``seen``: all of them were parsed when they were published."""
        # A filter is compiled once per topic and task, because a path may select other fields in another message type.
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
        """Return the message type with this name, or ``binary`` if the configuration does not define it."""
        try:
            return self._instance.find_message_type(message_type)
        except ConfigError:
            # The journal may contain messages of a type that was removed from the configuration; read them as bytes.
            return self._instance.find_message_type("binary")

    def _column(self, name: str, entries: EntryArrays, mask: arrays.Numbers | None) -> pyarrow.Array:
        import pyarrow as pa

        if is_mark_column(name):
            return pa.nulls(len(entries.txids), pa.string())
        return self._payload(entries, mask) if name == PAYLOAD_COLUMN else build_entry_column(name, entries, self.owner)

    def _payload(self, entries: EntryArrays, mask: arrays.Numbers | None) -> pyarrow.Array:
        published = entries.operations == PUBLISH
        if self._decoder is None:
            # A deletion has no message, so it is NULL, unlike an empty message.
            return arrays.build_binaries(read_payload_parts(entries), entries.lengths, published)
        if self._strict and mask is not None:
            # Types were inferred from the selected messages; other messages of the blocks need not match them.
            published &= mask
        try:
            return self._structs(self._decoder, entries, published)
        except Misfit as problem:
            raise build_misfit_error(problem, f"entry {entries.txids[problem.row]}", MORE_SAMPLES_HINT) from None

    def _judge_messages(self, entries: EntryArrays, mask: arrays.Numbers | None) -> JudgedBatch:
        published = entries.operations == PUBLISH
        # Only selected messages are judged; other messages of the blocks need not match.
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
                # The block has messages of several types; all of them have JSON views.
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
        # If all messages are JSON and no deletion has payload bytes, the decoder reads the bytes of the block directly.
        if same and is_own_view(kinds[0]) and not entries.lengths[~published].any():
            return decoder.decode_packed(read_payload_parts(entries), entries.lengths, published)
        messages: list[Any] = list(entries.batch.payloads)
        if not published.all():
            messages = [one if there else None for one, there in zip(messages, published.tolist(), strict=True)]
        if same:
            return decoder.decode_payloads(messages, kinds[0])
        for place, topic in enumerate(places.tolist()):
            if messages[place] is not None:
                # The block has messages of several types; all of them have JSON views.
                messages[place] = decoder.build_view(messages[place], kinds[topic])
        return decoder.decode_views(messages)
