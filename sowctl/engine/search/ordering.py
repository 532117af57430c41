"""The result of a query in an order that is not that of its keys: sort keys of what matches, sorted across topics.

Called by :mod:`sowctl.engine.verbs.query`, for orders by fields and by time alone; memory holds what the options allow.
Ruled by ``behaviour`` 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from sowctl.engine.records import RecordBatch, batch_of
from sowctl.engine.search.ranking import FieldRanks, TimeRanks
from sowctl.engine.search.sorting import Sorter

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import QueryOptions
    from sowctl.engine.sources.source import Matched, Pairs, Source
    from sowctl.expressions.syntax.actions import OrderKey
    from sowctl.messages.base import MessageType

Found: TypeAlias = "Callable[[], Iterator[tuple[Source, Iterator[Matched]]]]"
"""Gives every source with the records of it that match, once more each time."""


def ordered(
    found: Found, instance: Instance, options: QueryOptions, order: Sequence[OrderKey], wanted: int | None
) -> Iterator[RecordBatch]:
    """Sort what matches, by time where ``order`` is empty; ``wanted``: so many come out, those skipped among them.

    If a set that was read as texts turns out to hold a number, start over with that known. Raises what reading raises.
    """
    mixed = [False] * len(order)
    while True:
        names: list[tuple[str, MessageType]] = []
        with closing(Sorter(options.sort_memory, wanted)) as sorter:
            ranks = FieldRanks(order, mixed) if order else TimeRanks()
            if _collect(found, instance, ranks, sorter, names):
                yield from _emit(sorter, names, options)
                return


def _collect(
    found: Found,
    instance: Instance,
    ranks: FieldRanks | TimeRanks,
    sorter: Sorter,
    names: list[tuple[str, MessageType]],
) -> bool:
    """Fill the sorter and the ``names`` of sources; False when the reading of a key has to change."""
    with closing(found()) as sources:  # type: ignore[type-var]
        for number, (source, matched) in enumerate(sources):
            owner = number.to_bytes(2, "big")
            kind = instance.type_of(source.message_type)
            names.append((source.topic, kind))
            ranks.begin(kind)
            for keys, values in matched:
                ranked = ranks.of(values)
                if ranked is None:
                    return False
                limit = sorter.limit
                if limit is not None:
                    places = [place for place, rank in enumerate(ranked) if rank <= limit]
                    ranked = [ranked[place] for place in places]
                    keys, values = [keys[place] for place in places], [values[place] for place in places]
                sorter.add(list(zip(ranked, [key + owner for key in keys], values, strict=True)))
    return True


def _emit(sorter: Sorter, names: list[tuple[str, MessageType]], options: QueryOptions) -> Iterator[RecordBatch]:
    held: list[tuple[bytes, bytes]] = []
    number = -1
    for _, ranked, value in islice(sorter.sorted(), options.skip_n or 0, None):
        owner = int.from_bytes(ranked[8:], "big")
        if held and (owner != number or len(held) >= options.batch_size):
            yield batch_of(*names[number], *_columns(held))
            held = []
        number = owner
        held.append((ranked[:8], value))
    if held:
        yield batch_of(*names[number], *_columns(held))


def _columns(held: list[tuple[bytes, bytes]]) -> Pairs:
    return [key for key, _ in held], [value for _, value in held]
