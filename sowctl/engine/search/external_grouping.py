"""Groups of a projection in bounded memory: messages in, one message per group out, in key order.

While groups are few, they stand in memory with what their inputs add up to. Where they outgrow it, messages that come
then are written, evaluated, into files by equal parts of the range of the groups' keys; at the end one part after the
other is grouped, and divided again where its groups outgrow memory, too. So a group is made once, however many messages
it has and however far apart they come. Used by aggregated queries (:mod:`~sowctl.engine.search.aggregate`) and views
(:mod:`sowctl.engine.views.computation`). Ruled by ``behaviour`` 3.4.

Why messages and not states of groups, which add up, too: a state costs as much as many messages. 1,000,000 orders as a
view with SUM and COUNT, in 4 MB and in 64 MB: in 50,000 groups 3.2 and 4.5 s of processor time so, 6.9 and 4.6 with
states; in 1,000,000 groups 13.6 and 14.8 s so, 23.9 and 22.1 with states. With MAX, ANY and COUNT_DISTINCT in 50,000
groups 4.1 and 5.9 s so, 14.0 and 13.1 with states. RssAnon was 82 to 184 MB so, and 138 to 432 MB.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sowctl.engine.fold.spill import PartFiles
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.identity.keys import Digest, build_batch_digester, digest_check, digest_key
from sowctl.identity.keyspace import MAX_PARTS, find_part, find_parts
from sowctl.messages.base import build_messages
from sowctl.store.codec import encode_plain_records

if TYPE_CHECKING:
    from sowctl.engine.sources.source import Pairs
    from sowctl.expressions.environment import Environment
    from sowctl.expressions.rows.groups import Group
    from sowctl.expressions.rows.projection import GroupKey, Projection
    from sowctl.messages.base import MessageType

DEFAULT_MEMORY_BYTES = 64 << 20
"""Bytes that groups take where nothing else is asked for: that of ``--sort-memory``."""


class GroupedMessages(Protocol):
    """Messages with the group of each, by rows or by columns."""

    @property
    def count(self) -> int:
        """The number of groups, at least."""
        ...

    @property
    def group_keys(self) -> Sequence[GroupKey]:
        """The texts of each group."""
        ...

    def add_to_groups(self, groups: dict[GroupKey, Group]) -> int:
        """Add each message to the group of its key; how many inputs the groups hold one by one, at most."""
        ...

    def divide(self, parts: Any) -> Iterator[tuple[int, Any]]:
        """The evaluated messages of each part, in their order; ``parts``: an array with that of each group."""
        ...


class GroupWriter:
    """Makes the message of each group of a projection: of type ``kind``, with its key in the domain ``domain``."""

    def __init__(self, projection: Projection, environment: Environment, domain: str, kind: MessageType) -> None:
        self.projection = projection
        self._environment = environment
        self._kind = kind
        self.compute_digests = build_batch_digester(domain, projection.width)

    def iterate_messages(self, groups: Mapping[GroupKey, Group]) -> Iterator[Pairs]:
        """Keys and stored values, as records have them, of the messages of groups, by key.

        The key is that of the grouping texts, txid and time are the highest of the group. Raises what evaluating the
        fields raises.
        """
        # By key as records come: the order depends on the groups alone, not on the way that they were found.
        digests, states = self.compute_digests(list(groups), null=True), list(groups.values())
        order = sorted(range(len(digests)), key=digests.__getitem__)
        for start in range(0, len(order), QUERY_LIMITS.write_batch_groups):
            places = order[start : start + QUERY_LIMITS.write_batch_groups]
            yield self._encode_groups([digests[place] for place in places], [states[place] for place in places])

    def _encode_groups(self, digests: Sequence[Digest], groups: Sequence[Group]) -> Pairs:
        fields = self.projection.compute_all_fields(groups, self._environment)
        payloads = build_messages(self._kind, self.projection.destinations, fields)
        # The highest txid of the group, so a field that is neither grouped nor aggregated is that of its latest update
        # (decision 50).
        stamps = [group.stamp for group in groups]
        txids, times = map(itemgetter(0), stamps), map(itemgetter(1), stamps)
        keys = list(map(digest_key, digests))
        return keys, encode_plain_records(keys, map(digest_check, digests), txids, times, repeat(0), payloads)


class ExternalGrouping:
    """The groups of one projection.

    ``limit``: bytes that groups take before messages go to files in ``directory`` (None: that of temporary files);
    ``records``: how many messages come, about, None where that is not known. ``part``: number and count of the equal
    parts of the range of keys that the groups belong to. Use it in a ``with`` statement.
    """

    def __init__(
        self,
        writer: GroupWriter,
        *,
        limit: int | None = None,
        records: int | None = None,
        directory: Path | None = None,
        part: tuple[int, int] = (0, 1),
    ) -> None:
        self._groups: dict[GroupKey, Group] = {}
        self._writer = writer
        self._limit = DEFAULT_MEMORY_BYTES if limit is None else limit
        self._records, self._directory, self._part = records, directory, part
        self._input_bytes = QUERY_LIMITS.group_input_bytes + (
            QUERY_LIMITS.group_stamp_bytes if writer.projection.is_ordered else 0
        )
        self._inputs = self._new_inputs = 0
        self._files: PartFiles | None = None
        self._written: Counter[int] = Counter()
        """Messages in each of the files."""

    def __enter__(self) -> ExternalGrouping:
        return self

    def __exit__(self, *_: object) -> None:
        if self._files is not None:
            self._files.close()

    def add(self, messages: GroupedMessages) -> None:
        """Add messages, one at least. Raises StorageError ``SOW-ENG-040``."""
        # Asked before the groups are made. Once messages are written, those that follow are, too: within a part they
        # then stand in the order in which they came.
        if self._files is None and self._has_room(messages):
            inputs = messages.add_to_groups(self._groups)
            self._inputs += inputs
            self._new_inputs += inputs
        else:
            self._write(messages)

    def add_all(self, found: Iterable[GroupedMessages]) -> None:
        """:meth:`add` each."""
        for messages in found:
            self.add(messages)
            # Not held while the next ones are made.
            del messages

    def iterate_messages(self) -> Iterator[Pairs]:
        """Keys and stored values of one message per group, as :meth:`GroupWriter.iterate_messages`. Nothing can be
        added afterwards. Raises StorageError ``SOW-ENG-040``."""
        if self._files is None:
            yield from self._writer.iterate_messages(self._groups)
            return
        first, count = self._find_parts(self._files)
        held: list[dict[GroupKey, Group]] = [{} for _ in range(len(self._files))]
        digests = self._writer.compute_digests(list(self._groups), null=True)
        for digest, (key, group) in zip(digests, self._groups.items(), strict=True):
            held[find_part(digest, count) - first][key] = group
        self._groups.clear()
        for number in range(len(self._files)):
            with ExternalGrouping(
                self._writer,
                limit=self._limit,
                records=self._written[number],
                directory=self._directory,
                part=(first + number, count),
            ) as part:
                part._groups, held[number] = held[number], {}
                part.add_all(self._read(number))
                yield from part.iterate_messages()

    def _has_room(self, messages: GroupedMessages) -> bool:
        groups = len(self._groups)
        if not self._exceeds_limit(groups + messages.count):
            return True
        groups += sum(key not in self._groups for key in messages.group_keys)
        if self._exceeds_limit(groups) and self._new_inputs >= groups:
            # Most inputs that are held are no longer needed: a message in a file costs more than to find that out.
            # Fewer new ones than groups would not be worth a look at all groups, batch after batch.
            self._inputs, self._new_inputs = sum(group.compact() for group in self._groups.values()), 0
        # A single group, and groups of nearly one key, cannot be divided.
        return (
            not self._exceeds_limit(groups) or groups == 1 or self._part[1] * QUERY_LIMITS.max_spill_files > MAX_PARTS
        )

    def _exceeds_limit(self, groups: int) -> bool:
        return groups * QUERY_LIMITS.group_state_bytes + self._inputs * self._input_bytes > self._limit

    def _write(self, messages: GroupedMessages) -> None:
        import numpy as np

        if self._files is None:
            self._files = PartFiles(self._choose_part_count(), self._directory)
        first, count = self._find_parts(self._files)
        digests = self._writer.compute_digests(messages.group_keys, null=True)
        keys = np.frombuffer(b"".join(map(digest_key, digests)), ">u8").astype(np.uint64)
        for number, some in messages.divide(find_parts(keys, count).astype(np.int64) - first):
            self._files.add_value(number, some)
            self._written[number] += some.size

    def _read(self, number: int) -> Iterator[GroupedMessages]:
        """The messages of a file, in the order in which they came, many together."""
        assert self._files is not None
        held: list[Any] = []
        size = 0
        for some in self._files.read_values(number):
            if held and (size >= QUERY_LIMITS.group_batch_records or type(some) is not type(held[0])):
                yield self._restore(held)
                held, size = [], 0
            held.append(some)
            size += some.size
        if held:
            yield self._restore(held)

    def _restore(self, held: Sequence[Any]) -> GroupedMessages:
        from sowctl.expressions.rows.projection import EvaluatedRows, GroupedRows

        projection = self._writer.projection
        if isinstance(held[0], EvaluatedRows):
            return GroupedRows(projection, EvaluatedRows.concatenate(held))
        from sowctl.expressions.columns.grouping import GroupedBatch
        from sowctl.values.batch import ColumnBatch

        return GroupedBatch.restore(projection, ColumnBatch.concatenate(held))

    def _find_parts(self, files: PartFiles) -> tuple[int, int]:
        """The number of the part of the first file, and the count of such parts of the whole range of keys."""
        number, count = self._part
        return number * len(files), count * len(files)

    def _choose_part_count(self) -> int:
        """Return the number of files: a part stays well below the limit if every message has its own group."""
        most = QUERY_LIMITS.max_spill_files
        if self._records is None:
            return most
        calls = len(self._writer.projection.aggregates)
        expected = self._records * (QUERY_LIMITS.group_state_bytes + calls * self._input_bytes)
        return max(2, min(expected // max(self._limit * 3 // 4, 1) + 1, most))
