"""Groups of a projection in bounded memory: rows or columns of messages in, one message per group out, in key order.

While groups are few, they stand in memory with what their inputs add up to. Where they outgrow it, messages that come
then are not grouped but written, as columns, into files by equal parts of the range of the groups' keys; at the end
one part after the other is grouped. So a group is made once, however many messages it has and however far apart they
come. Called by :mod:`~sowctl.engine.search.aggregate`. Views and Spark group by the same
:class:`~sowctl.expressions.columns.grouping.Grouper`, but write states of groups where these outgrow memory
(:mod:`sowctl.engine.views.spilling`). Ruled by ``behaviour`` 3.4.

1,000,000 orders in as many groups take 90 MB of RssAnon and 22.1 s of processor time so; in memory it was 1,086 MB and
21.9 s (``python -m tests.bench.run grouping``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sowctl.engine.fold.spill import PartFiles
from sowctl.engine.search import figures
from sowctl.errors import SowError
from sowctl.identity.keys import batch_digester
from sowctl.identity.keyspace import part_of, shares

if TYPE_CHECKING:
    from sowctl.engine.sources.source import Pairs
    from sowctl.expressions.columns.grouping import Grouper, Locate, MessageBatch, Messages
    from sowctl.expressions.environment import Environment, Header
    from sowctl.expressions.rows.projection import GroupKey, GroupState, Projection
    from sowctl.values.fields import Row

Write = Callable[[bytes, "Sequence[Any]", "Sequence[Any]"], bytes]
"""The stored value of a group's message, from the digest of its key, its fields and its stamp."""


def first_failure(error: SowError, rest: Iterator[Messages], grouper: Grouper) -> SowError:
    """``error``, or that of the record of ``rest`` with a lower key: parts of one block of records lie side by side."""
    with suppress(SowError):
        for messages in rest:
            key = error.facts.get("sow_key")
            if key is None or messages.keys is None or messages.keys[0] > int(key):
                break
            try:
                grouper.batch(messages)
            except SowError as other:
                error = min(error, other, key=lambda one: int(one.facts.get("sow_key", key)))
    return error


class Grouped:
    """The groups of one projection; ``domain`` is that of their keys, ``write`` makes their messages.

    ``limit``: bytes that groups take before messages go to files in ``directory`` (None: that of temporary files);
    ``records``: how many messages come at most, None where that is not known; ``locate`` as of
    :class:`~sowctl.expressions.columns.grouping.Grouper`. Use it in a ``with`` statement.
    """

    def __init__(
        self,
        projection: Projection,
        environment: Environment,
        domain: str,
        write: Write,
        *,
        limit: int,
        records: int | None = None,
        directory: Path | None = None,
        locate: Locate | None = None,
    ) -> None:
        self.groups: dict[GroupKey, GroupState] = {}
        self._projection, self._environment = projection, environment
        self._digester = batch_digester(domain, 0)
        self._write = write
        self._limit, self._records, self._directory, self._locate = limit, records, directory, locate
        self._input_bytes = figures.INPUT_BYTES + (figures.STAMP_BYTES if any(projection.ordered) else 0)
        self._inputs = 0
        self._files: PartFiles | None = None
        self._grouper: Grouper | None = None

    def __enter__(self) -> Grouped:
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
        self._projection.add(self.groups, rows, self._environment, headers, stamps)

    def add_columns(self, messages: Messages) -> None:
        """Add messages, one at least, by columns. Raises LimitError ``SOW-EXP-030``, StorageError ``SOW-ENG-040``."""
        if self._grouper is None:
            from sowctl.expressions.columns.grouping import Grouper

            self._grouper = Grouper(self._projection, self._environment, self._locate)
        batch = self._grouper.gathered(messages)
        if batch is not None:
            self._add(batch)

    def add_waiting(self) -> None:
        """Add the messages that wait for others. Raises as :meth:`add_columns`."""
        batch = self._grouper.rest() if self._grouper is not None else None
        if batch is not None:
            self._add(batch)

    def add_parts(self, parts: Iterator[Messages]) -> None:
        """:meth:`add_columns` of each; an error is the one that rows meet first, in the order of their keys."""
        for messages in parts:
            try:
                self.add_columns(messages)
            except SowError as error:
                assert self._grouper is not None
                raise first_failure(error, parts, self._grouper) from None

    def _add(self, batch: MessageBatch) -> None:
        # Asked before the groups are made. Once messages are written, those that follow are, too: within a part they
        # then stand in the order in which they came.
        groups = len(self.groups) + batch.count
        if self._files is not None or groups * figures.GROUP_BYTES + self._inputs * self._input_bytes > self._limit:
            self._spill(batch)
        else:
            self._inputs += batch.add(self.groups)

    def _spill(self, batch: MessageBatch) -> None:
        import numpy as np

        if self._files is None:
            self._files = PartFiles(self._parts(), self._directory)
        digests = self._digester(batch.keys(), null=True)
        keys = np.frombuffer(b"".join([digest[:8] for digest in digests]), ">u8").astype(np.uint64)
        for part, places in shares(keys[batch.codes], len(self._files)):
            self._files.add(part, batch.messages.at(places))

    def _parts(self) -> int:
        """How many files: a part is to stay below the limit if every message has a group of its own."""
        if self._records is None:
            return figures.MOST_PARTS
        calls = len(self._projection.aggregates)
        expected = self._records * (figures.GROUP_BYTES + calls * self._input_bytes)
        return max(2, min(expected // max(self._limit, 1) + 1, figures.MOST_PARTS))

    def messages(self) -> Iterator[Pairs]:
        """Keys and stored values, as records have them, of one message per group, by key.

        The key is that of the grouping texts, txid and time are the highest of the group. Raises LimitError
        ``SOW-EXP-030``, StorageError ``SOW-ENG-040``.
        """
        self.add_waiting()
        if self._files is None:
            yield from self._written(self.groups)
            return
        assert self._grouper is not None
        count = len(self._files)
        held: list[dict[GroupKey, GroupState]] = [{} for _ in range(count)]
        digests = self._digester(list(self.groups), null=True)
        for digest, (key, group) in zip(digests, self.groups.items(), strict=True):
            held[part_of(digest, count)][key] = group
        self.groups.clear()
        for part in range(count):
            groups, held[part] = held[part], {}
            for messages in self._files.values(part):
                self._grouper.batch(messages).add(groups)
            yield from self._written(groups)

    def _written(self, groups: Mapping[GroupKey, GroupState]) -> Iterator[Pairs]:
        # By key as records come: the order depends on the groups alone, not on the way that they were found.
        digests, states = self._digester(list(groups), null=True), list(groups.values())
        order = sorted(range(len(digests)), key=digests.__getitem__)
        for start in range(0, len(order), figures.WRITTEN):
            places = order[start : start + figures.WRITTEN]
            some = [states[place] for place in places]
            keys, values = [], []
            made = zip(places, some, self._projection.all_fields(some, self._environment), strict=True)
            for place, state, fields in made:
                # The highest txid of the group, so a field that is neither grouped nor aggregated is that of its latest
                # update (decision 50).
                keys.append(digests[place][:8])
                values.append(self._write(digests[place], fields, state.stamp or (0, 0)))
            yield keys, values
