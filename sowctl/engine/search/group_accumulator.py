"""Groups of a projection in bounded memory: rows or columns of messages in, one message per group out, in key order.

While groups are few, they stand in memory with what their inputs add up to. Where they outgrow it, messages that come
then are not grouped but written, as columns, into files by equal parts of the range of the groups' keys; at the end
one part after the other is grouped. So a group is made once, however many messages it has and however far apart they
come. Called by :mod:`~sowctl.engine.search.aggregate`. Views and Spark group by the same
:class:`~sowctl.expressions.columns.grouping.Grouper`, but write states of groups where these outgrow memory
(:mod:`sowctl.engine.views.group_spill`). Ruled by ``behaviour`` 3.4.

1,000,000 orders in as many groups take 90 MB of RssAnon and 22.1 s of processor time so; in memory it was 1,086 MB and
21.9 s (``python -m tests.bench.run grouping``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import repeat
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sowctl.engine.fold.spill import PartFiles
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.errors import SowError
from sowctl.identity.keys import BatchDigester, Digest, build_batch_digester, digest_check, digest_key
from sowctl.identity.keyspace import find_part, iterate_parts
from sowctl.messages.base import build_messages
from sowctl.store.codec import encode_plain_records

if TYPE_CHECKING:
    from sowctl.engine.sources.source import Pairs
    from sowctl.expressions.columns.grouping import GroupedBatch, Grouper, RecordLocator
    from sowctl.expressions.environment import Environment, Header
    from sowctl.expressions.rows.groups import Group
    from sowctl.expressions.rows.projection import GroupKey, Projection
    from sowctl.messages.base import MessageType
    from sowctl.values.batch import ColumnBatch
    from sowctl.values.fields import Row, SlotValue


def iterate_group_messages(
    projection: Projection,
    environment: Environment,
    kind: MessageType,
    digester: BatchDigester,
    groups: Mapping[GroupKey, Group],
) -> Iterator[Pairs]:
    """Keys and stored values of the messages of groups, of type ``kind``, in the order of their keys.

    Txid and time are those of a group's latest message. Raises what evaluating the fields raises.
    """
    # By key as records come: the order depends on the groups alone, not on the way that they were found.
    digests, states = digester(list(groups), null=True), list(groups.values())
    order = sorted(range(len(digests)), key=digests.__getitem__)
    for start in range(0, len(order), QUERY_LIMITS.write_batch_groups):
        places = order[start : start + QUERY_LIMITS.write_batch_groups]
        some = [states[place] for place in places]
        fields = projection.compute_all_fields(some, environment)
        # The highest txid of the group, so a field that is neither grouped nor aggregated is that of its latest update
        # (decision 50).
        stamps = [state.stamp for state in some]
        yield encode_groups(kind, projection.destinations, [digests[place] for place in places], fields, stamps)


def encode_groups(
    kind: MessageType,
    destinations: Sequence[tuple[str, ...]],
    digests: Sequence[Digest],
    fields: Sequence[Sequence[SlotValue]],
    stamps: Sequence[Sequence[Any]],
) -> Pairs:
    """Keys and stored values of the messages of groups, one at least; each of ``stamps`` begins with txid and time."""
    keys = list(map(digest_key, digests))
    payloads = build_messages(kind, destinations, fields)
    txids, times = map(itemgetter(0), stamps), map(itemgetter(1), stamps)
    return keys, encode_plain_records(keys, map(digest_check, digests), txids, times, repeat(0), payloads)


def find_first_failure(error: SowError, rest: Iterator[ColumnBatch], grouper: Grouper) -> SowError:
    """Return ``error``, or that of the record of ``rest`` with a lower key: parts of one block of records lie side by
    side."""
    with suppress(SowError):
        for messages in rest:
            key = error.facts.get("sow_key")
            if key is None or not messages.has_keys or messages.keys[0] > int(key):
                break
            try:
                grouper.build_batch(messages)
            except SowError as other:
                error = min(error, other, key=lambda one: int(one.facts.get("sow_key", key)))
    return error


class GroupAccumulator:
    """The groups of one projection; ``domain`` is that of their keys, ``kind`` the type of their messages.

    ``limit``: bytes that groups take before messages go to files in ``directory`` (None: that of temporary files);
    ``records``: how many messages come at most, None where that is not known; ``locate`` as of
    :class:`~sowctl.expressions.columns.grouping.Grouper`. Use it in a ``with`` statement.
    """

    def __init__(
        self,
        projection: Projection,
        environment: Environment,
        domain: str,
        kind: MessageType,
        *,
        limit: int,
        records: int | None = None,
        directory: Path | None = None,
        locate: RecordLocator | None = None,
    ) -> None:
        self.groups: dict[GroupKey, Group] = {}
        self._projection, self._environment = projection, environment
        self._digester = build_batch_digester(domain, projection.width)
        self._kind = kind
        self._limit, self._records, self._directory, self._locate = limit, records, directory, locate
        self._input_bytes = QUERY_LIMITS.group_input_bytes + (
            QUERY_LIMITS.group_stamp_bytes if projection.is_ordered else 0
        )
        self._inputs = 0
        self._files: PartFiles | None = None
        self._grouper: Grouper | None = None

    def __enter__(self) -> GroupAccumulator:
        return self

    def __exit__(self, *_: object) -> None:
        if self._files is not None:
            self._files.close()

    def add_rows(
        self,
        rows: Sequence[Row],
        stamps: Sequence[tuple[Any, ...]],
        headers: Sequence[Header] | None = None,
    ) -> None:
        """Add messages one by one; they stay in memory. Raises LimitError ``SOW-EXP-030``."""
        self._projection.add_messages(self.groups, rows, self._environment, headers, stamps)

    def add_columns(self, messages: ColumnBatch) -> None:
        """Add messages, one at least, by columns. Raises LimitError ``SOW-EXP-030``, StorageError ``SOW-ENG-040``."""
        if self._grouper is None:
            from sowctl.expressions.columns.grouping import Grouper

            self._grouper = Grouper(self._projection, self._environment, self._locate)
        batch = self._grouper.gather(messages)
        if batch is not None:
            self._add_batch(batch)

    def add_rest(self) -> None:
        """Add the messages that wait for others. Raises as :meth:`add_columns`."""
        batch = self._grouper.flush() if self._grouper is not None else None
        if batch is not None:
            self._add_batch(batch)

    def add_parts(self, parts: Iterator[ColumnBatch]) -> None:
        """:meth:`add_columns` of each; an error is the one that rows meet first, in the order of their keys."""
        for messages in parts:
            try:
                self.add_columns(messages)
            except SowError as error:
                assert self._grouper is not None
                raise find_first_failure(error, parts, self._grouper) from None

    def _add_batch(self, batch: GroupedBatch) -> None:
        # Asked before the groups are made. Once messages are written, those that follow are, too: within a part they
        # then stand in the order in which they came.
        groups = len(self.groups) + batch.count
        if (
            self._files is not None
            or groups * QUERY_LIMITS.group_state_bytes + self._inputs * self._input_bytes > self._limit
        ):
            self._spill_batch(batch)
        else:
            self._inputs += batch.add_to_groups(self.groups)

    def _spill_batch(self, batch: GroupedBatch) -> None:
        import numpy as np

        if self._files is None:
            self._files = PartFiles(self._choose_part_count(), self._directory)
        digests = self._digester(batch.group_keys, null=True)
        keys = np.frombuffer(b"".join(map(digest_key, digests)), ">u8").astype(np.uint64)
        for part, places in iterate_parts(keys[batch.codes], len(self._files)):
            self._files.add_value(part, batch.messages.take(places))

    def _choose_part_count(self) -> int:
        """Return the number of files: a part stays below the limit if every message has its own group."""
        if self._records is None:
            return QUERY_LIMITS.max_spill_files
        calls = len(self._projection.aggregates)
        expected = self._records * (QUERY_LIMITS.group_state_bytes + calls * self._input_bytes)
        return max(2, min(expected // max(self._limit, 1) + 1, QUERY_LIMITS.max_spill_files))

    def iterate_messages(self) -> Iterator[Pairs]:
        """Keys and stored values, as records have them, of one message per group, by key.

        The key is that of the grouping texts, txid and time are the highest of the group. Raises LimitError
        ``SOW-EXP-030``, StorageError ``SOW-ENG-040``.
        """
        self.add_rest()
        if self._files is None:
            yield from self._write_groups(self.groups)
            return
        assert self._grouper is not None
        count = len(self._files)
        held: list[dict[GroupKey, Group]] = [{} for _ in range(count)]
        digests = self._digester(list(self.groups), null=True)
        for digest, (key, group) in zip(digests, self.groups.items(), strict=True):
            held[find_part(digest, count)][key] = group
        self.groups.clear()
        for part in range(count):
            groups, held[part] = held[part], {}
            for messages in self._files.read_values(part):
                self._grouper.build_batch(messages).add_to_groups(groups)
            yield from self._write_groups(groups)

    def _write_groups(self, groups: Mapping[GroupKey, Group]) -> Iterator[Pairs]:
        return iterate_group_messages(self._projection, self._environment, self._kind, self._digester, groups)
