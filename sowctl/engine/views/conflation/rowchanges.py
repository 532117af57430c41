"""How the rows of a view changed as time went: the changes of its topics, one by one, through the upkeep of a cache.

The cache is a temporary one that begins empty. A change of a source that leaves a row as it is, is none of the view
(``behaviour`` 11.44). Called by :mod:`sowctl.engine.views.conflation.histories`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING

from sowctl.engine.fold.tempstore import aside
from sowctl.engine.topics.derived import as_topic
from sowctl.engine.topics.positions import definition_of
from sowctl.engine.views.conflation.timeline import KeyChange
from sowctl.engine.views.definition import Program, query_of
from sowctl.engine.views.records import RecordReader
from sowctl.engine.views.tables import OF_JOINS, OF_ROWS
from sowctl.engine.views.upkeep import Changes, Upkeep
from sowctl.store.builder import create_store
from sowctl.store.codec import payloads
from sowctl.store.env import Store

if TYPE_CHECKING:
    from sowctl.config.derived import View
    from sowctl.engine.instance import Instance
    from sowctl.store.write import WriteTxn

TOGETHER = 1000
"""Changes in one transaction."""


def row_changes(instance: Instance, view: View, sources: Sequence[Iterable[KeyChange]]) -> Iterator[KeyChange]:
    """The changes of a view's rows, in the order of time, from those of its sources (in the view's order).

    Raises what the view's texts do, and InputError ``SOW-QRY-004`` for a message that cannot be read.
    """
    assert instance.config is not None
    program = Program(instance, query_of(instance, view))
    readers = [RecordReader(program, number) for number in range(len(program.query.sources))]
    numbered = [((change.time, number, change) for change in found) for number, found in enumerate(sources)]
    # Of one instant, the sources in their order.
    merged = heapq.merge(*numbered, key=itemgetter(0, 1))
    with aside(as_topic(instance.config, view), "rows") as topic:
        assert topic.file is not None
        create_store(topic.file, definition_of(instance.config.name, topic), seam=instance.seam, now=instance.now)
        with Store.open(topic.file, write=True, seam=instance.seam, durable=False, command=instance.holder) as store:
            store.open_tables((*OF_ROWS, *OF_JOINS))
            while some := list(islice(merged, TOGETHER)):

                def take(txn: WriteTxn, some: Sequence[tuple[int, int, KeyChange]] = some) -> list[KeyChange]:
                    return [
                        row
                        for time, number, change in some
                        for row in _taken(txn, program, readers, time, number, change)
                    ]

                yield from store.write(take, pending=1000 * len(some))


def _taken(
    txn: WriteTxn, program: Program, readers: Sequence[RecordReader], time: int, number: int, change: KeyChange
) -> list[KeyChange]:
    records = [] if change.value is None else readers[number].read([change.key], [change.value])
    changes: list[Changes] = [{} for _ in readers]
    changes[number] = {change.key: records[0] if records else None}
    upkeep = _Noted(program, txn)
    upkeep.apply(changes)
    return [KeyChange(time, key, value) for key, value in upkeep.noted]


class _Noted(Upkeep):
    """An upkeep that notes which rows changed: the new stored value, None for a row that is gone."""

    def __init__(self, program: Program, txn: WriteTxn) -> None:
        super().__init__(program, txn)
        self._transaction = txn
        self.noted: list[tuple[bytes, bytes | None]] = []

    def _messages(self, messages: Mapping[bytes, bytes], empty: set[bytes]) -> None:
        olds = self._transaction.get_many(sorted(messages.keys() | empty))
        self.noted += [(key, None) for key in sorted(empty & olds.keys())]
        for key in sorted(messages):
            # Of equal rows the latest record may be another one.
            if key not in olds or payloads([olds[key]]) != payloads([messages[key]]):
                self.noted.append((key, messages[key]))
        super()._messages(messages, empty)
