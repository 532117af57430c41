"""Changes of a view's rows over time, computed by applying the changes of its topics one by one to a temporary store.

The store is empty at the start. A change of a source that does not change a row is not a change of the view
(``behaviour`` 11.44). Called by :mod:`sowctl.engine.views.conflation.source_changes`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING

from sowctl.engine.fold.tempstore import open_temporary_topic
from sowctl.engine.topics.derived_topics import build_derived_topic
from sowctl.engine.topics.positions import build_definition
from sowctl.engine.views.conflation.replay_tables import JOIN_TABLES, ROW_TABLES
from sowctl.engine.views.conflation.row_replay import Changes, IncrementalUpdate
from sowctl.engine.views.conflation.timeline import KeyChange
from sowctl.engine.views.definition import Program, build_query
from sowctl.engine.views.records import RecordReader
from sowctl.store.builder import create_store
from sowctl.store.codec import extract_payloads
from sowctl.store.env import Store

if TYPE_CHECKING:
    from sowctl.config.derived_entries import View
    from sowctl.engine.instance import Instance
    from sowctl.store.write import WriteTxn

TRANSACTION_CHANGES = 1000
"""Number of changes per transaction."""


def iterate_row_changes(instance: Instance, view: View, sources: Sequence[Iterable[KeyChange]]) -> Iterator[KeyChange]:
    """Yield the changes of a view's rows in time order, from those of its sources (in the view's order).

    Raises the errors of compiling the view's texts, and InputError ``SOW-QRY-004`` for a message that cannot be read.
    """
    assert instance.config is not None
    program = Program(instance, build_query(instance, view))
    readers = [RecordReader(program, number) for number in range(len(program.query.sources))]
    numbered = [_number_changes(number, found) for number, found in enumerate(sources)]
    # At equal times, changes are in the order of the sources.
    merged = heapq.merge(*numbered, key=itemgetter(0, 1))
    with open_temporary_topic(build_derived_topic(instance.config, view), "rows") as topic:
        assert topic.file is not None
        create_store(topic.file, build_definition(instance.config.name, topic), seam=instance.seam, now=instance.now)
        with Store.open(topic.file, write=True, seam=instance.seam, durable=False, command=instance.holder) as store:
            store.open_tables((*ROW_TABLES, *JOIN_TABLES))
            while some := list(islice(merged, TRANSACTION_CHANGES)):

                def take(txn: WriteTxn, some: Sequence[tuple[int, int, KeyChange]] = some) -> list[KeyChange]:
                    return [
                        row
                        for time, number, change in some
                        for row in _apply_change(txn, program, readers, time, number, change)
                    ]

                yield from store.write(take, pending=1000 * len(some))


def _number_changes(number: int, found: Iterable[KeyChange]) -> Iterator[tuple[int, int, KeyChange]]:
    # A function, because a generator expression would bind the number late and see that of the last source.
    for change in found:
        yield change.time, number, change


def _apply_change(
    txn: WriteTxn, program: Program, readers: Sequence[RecordReader], time: int, number: int, change: KeyChange
) -> list[KeyChange]:
    records = [] if change.value is None else readers[number].read([change.key], [change.value])
    changes: list[Changes] = [{} for _ in readers]
    changes[number] = {change.key: records[0] if records else None}
    upkeep = _RowRecorder(program, txn)
    upkeep.apply(changes)
    return [KeyChange(time, key, value) for key, value in upkeep.noted]


class _RowRecorder(IncrementalUpdate):
    """An update that records which rows changed: the new stored value, None for a removed row."""

    def __init__(self, program: Program, txn: WriteTxn) -> None:
        super().__init__(program, txn)
        self._transaction = txn
        self.noted: list[tuple[bytes, bytes | None]] = []

    def _messages(self, messages: Mapping[bytes, bytes], empty: set[bytes]) -> None:
        olds = self._transaction.read_values(sorted(messages.keys() | empty))
        self.noted += [(key, None) for key in sorted(empty & olds.keys())]
        for key in sorted(messages):
            # Compare payloads only: stamps of equal rows may differ, because the latest record may be another one.
            if key not in olds or extract_payloads([olds[key]]) != extract_payloads([messages[key]]):
                self.noted.append((key, messages[key]))
        super()._messages(messages, empty)
