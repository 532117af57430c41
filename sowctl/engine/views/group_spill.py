"""Groups of a view that outgrow memory while all of it is computed: states in files, which add up at the end.

What a group holds while rows come is all of its inputs. Beyond the limit every group is folded into a state that can
be packed and added up (:mod:`sowctl.expressions.rows.retraction`), written by the digest of its key, and begun anew.
States of one group meet again when they are read in key order. Called by :mod:`sowctl.engine.views.computation`; a
view that fits into memory costs only the question. 500,000 rows in 257,513 groups take 86 MB and 7.1 s of processor
time this way, and 165 MB and 4.6 s without.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sowctl.engine.fold.spill import SortBuckets
from sowctl.engine.search.group_accumulator import encode_groups
from sowctl.engine.views.definition import Program
from sowctl.engine.views.limits import VIEW_LIMITS
from sowctl.expressions.rows.retraction import RetractableProjection
from sowctl.identity.keys import DIGEST_BYTES, Digest, build_batch_digester, digest_key

if TYPE_CHECKING:
    from sowctl.engine.sources.source import Pairs
    from sowctl.expressions.rows.groups import Group
    from sowctl.expressions.rows.projection import GroupKey
    from sowctl.values.fields import SlotValue

BATCH_MESSAGES = 1000
"""Messages that are made at once."""
DEFAULT_MEMORY_BYTES = 64 << 20
"""Bytes that groups take before they go to files, where nothing else is asked for: that of ``--sort-memory``."""
MIN_PART_BYTES = 8 << 20
"""Bytes of a part of the files, at least: more parts than a process may have open are of no use."""
STATE_BYTES = 400
"""A packed state and what Python takes for it; a bound of memory, not measured."""


class GroupSpill:
    """The groups of one computation. ``records``: of the first source, about; ``directory`` takes files without names.

    Use it in a ``with`` statement.
    """

    def __init__(self, program: Program, records: int, directory: Path, limit: int | None = None) -> None:
        self._program = program
        self._records, self._directory = records, directory
        self._limit = DEFAULT_MEMORY_BYTES if limit is None else limit
        projection = program.projection
        self._input_bytes = VIEW_LIMITS.group_input_bytes + (
            VIEW_LIMITS.group_stamp_bytes if projection.is_ordered else 0
        )
        self._inputs = self._new_inputs = 0
        self._buckets: SortBuckets | None = None
        self._retractable = RetractableProjection(projection)
        self._digester = build_batch_digester(program.query.key_domain, program.projection.width)
        self._stack = ExitStack()

    def __enter__(self) -> GroupSpill:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def has_files(self) -> bool:
        """True where there are states in files."""
        return self._buckets is not None

    def add_inputs(self, groups: dict[GroupKey, Group], inputs: int) -> None:
        """Say that the groups got so many inputs in lists; they are empty afterwards if that was too much."""
        self._inputs += inputs
        self._new_inputs += inputs
        if self._exceeds_limit(groups) and self._new_inputs >= len(groups):
            # Most inputs that are held are no longer needed: a state in a file costs much more than to find that out.
            # Fewer new ones than groups would not be worth a look at all groups, batch after batch.
            self._inputs, self._new_inputs = sum(group.compact() for group in groups.values()), 0
        if self._exceeds_limit(groups):
            self._spill(groups)

    def _exceeds_limit(self, groups: dict[GroupKey, Group]) -> bool:
        return len(groups) * VIEW_LIMITS.group_state_bytes + self._inputs * self._input_bytes > self._limit

    def iterate_messages(self, groups: dict[GroupKey, Group]) -> Iterator[Pairs]:
        """Keys and stored values of the messages of all groups, in key order; what is left in memory goes, too."""
        self._spill(groups)
        assert self._buckets is not None
        program = self._program
        digests: list[Digest] = []
        made: list[Sequence[SlotValue]] = []
        stamps: list[Sequence[Any]] = []
        for digest, states in groupby(self._states(), key=lambda state: state[:DIGEST_BYTES]):
            first, *others = (self._retractable.decode_group(state[DIGEST_BYTES:]) for state in states)
            for other in others:
                first.merge(other)
            digests.append(digest)
            made.append(program.projection.compute_fields(first, program.environment))
            stamps.append(first.find_stamp())
            if len(digests) == BATCH_MESSAGES:
                yield encode_groups(program.kind, program.projection.destinations, digests, made, stamps)
                digests, made, stamps = [], [], []
        if digests:
            yield encode_groups(program.kind, program.projection.destinations, digests, made, stamps)

    def _spill(self, groups: dict[GroupKey, Group]) -> None:
        if self._buckets is None:
            limit = max(self._limit, MIN_PART_BYTES)
            # That it has come to this says that all of it does not fit.
            expected = max(STATE_BYTES * self._records, limit + 1)
            self._buckets = self._stack.enter_context(SortBuckets(self._directory, expected, limit))
        states = []
        for state in groups.values():
            state.compact()
            states.append(self._retractable.encode_group(state))
        digests = self._digester(list(groups), null=True)
        data = [digest + state for digest, state in zip(digests, states, strict=True)]
        self._buckets.add_values(b"".join(map(digest_key, digests)), data)
        groups.clear()
        self._inputs = self._new_inputs = 0

    def _states(self) -> Iterator[bytes]:
        """Digest and state, those of one group side by side."""
        assert self._buckets is not None
        for _, same in groupby(self._pairs(), key=lambda pair: pair[0]):
            # Groups of one SOW key, which next to never happens, do not mix; sorting keeps the order of parts.
            yield from sorted((value for _, value in same), key=lambda value: value[:DIGEST_BYTES])

    def _pairs(self) -> Iterator[tuple[bytes, bytes]]:
        assert self._buckets is not None
        for keys, values in self._buckets.iterate_sorted(BATCH_MESSAGES):
            yield from zip(keys, values, strict=True)
