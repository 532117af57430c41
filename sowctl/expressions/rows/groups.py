"""Groups of a projection: the latest message and an accumulator for each aggregate call.

Messages are added in batches, from rows (:meth:`Projection.add_messages`) or columns
(:mod:`sowctl.expressions.columns.grouping`). For aggregated subscriptions they are added and removed one by one as
contributions (:mod:`sowctl.expressions.rows.retraction`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from sowctl.expressions.aggregates.accumulator import Accumulator, Stamp, append_inputs, iterate_no_rows
from sowctl.expressions.aggregates.latest import Latest
from sowctl.expressions.environment import Header
from sowctl.values.fields import Row, Scalar


class Contribution(NamedTuple):
    """The contribution of one message to its group: stamp, input per aggregate (NULL too), kept slots, header.

    The stamp is the message's position in the order of updates, unique in the group: for instance (txid, time) and the
    keys of the source records.
    """

    stamp: Stamp
    inputs: tuple[Scalar, ...]
    row: Row
    header: Header


ContributionReader: TypeAlias = Callable[[bool], Iterable[Contribution]]
"""The remaining contributions of a group, ascending by stamp; descending for True. Often only the first is read."""


MAX_WAITING_MESSAGES = 64
"""Maximum number of waiting messages of a group, to bound memory; one message in each batch is added 1.4 times as fast
this way."""


class Group:
    """The state of one group. The value of ``latest``: the slots of the last message's row that fields read, and its
    header.

    ``width``: the number of grouping fields, which precede the inputs of the aggregates in the values computed for a
    message.
    """

    __slots__ = ("_parts", "_stamps", "_waiting", "_width", "latest")

    def __init__(self, parts: list[Accumulator], width: int, latest: Latest | None = None) -> None:
        self.latest = Latest() if latest is None else latest
        self._parts = parts
        self._width = width
        self._waiting: Sequence[tuple[Any, ...]] = ()
        self._stamps: Sequence[Stamp] = ()

    def add(self, values: Sequence[tuple[Any, ...]], stamps: Sequence[Stamp]) -> None:
        """Add the values computed for messages: grouping fields, then inputs of the aggregates; not to ``latest``."""
        self._waiting = append_inputs(self._waiting, values)
        self._stamps = append_inputs(self._stamps, stamps)
        if len(self._waiting) > MAX_WAITING_MESSAGES:
            self._add_waiting()

    @property
    def parts(self) -> list[Accumulator]:
        """The accumulators of the aggregate calls."""
        if self._waiting:
            self._add_waiting()
        return self._parts

    def _add_waiting(self) -> None:
        made, stamps, self._waiting, self._stamps = self._waiting, self._stamps, (), ()
        if len(made) == 1:
            for part, value in zip(self._parts, made[0][self._width :], strict=True):
                # Aggregates ignore NULLs.
                if value is not None:
                    part.add((value,), stamps)
            return
        for number, part in enumerate(self._parts, self._width):
            inputs = [values[number] for values in made]
            places: Sequence[Stamp] = stamps if part.ordered else ()
            if None in inputs:
                if part.ordered:
                    places = [stamp for stamp, value in zip(stamps, inputs, strict=True) if value is not None]
                inputs = [value for value in inputs if value is not None]
            part.add(inputs, places)

    @property
    def size(self) -> int:
        """The number of messages of the group; a group without messages is removed."""
        return self.latest.size

    @property
    def stamp(self) -> Stamp:
        """The highest stamp of its messages, if none was removed."""
        return self.latest.stamp

    def find_stamp(self, rows: ContributionReader = iterate_no_rows) -> Stamp:
        """The highest stamp of its messages. ``rows`` are read only if a removal made it unknown."""
        self.find_latest_row(rows)
        return self.latest.stamp

    def find_latest_row(self, rows: ContributionReader) -> tuple[Row, Header]:
        """The kept row of its last message, and the header. ``rows`` as in :meth:`find_stamp`."""
        if not self.latest.known:
            self.latest.restore_latest((one.stamp, (one.row, one.header)) for one in rows(True))
        found: tuple[Row, Header] = self.latest.value
        return found

    def update(self, some: Sequence[Contribution], sign: int) -> None:
        """Add messages (``sign`` 1) or remove them (-1).

        Raises DamageError ``SOW-EXP-050`` if more is removed than there is: the state belongs to other messages, is
        invalid now, and must be rebuilt.
        """
        stamps: Sequence[Stamp] = [one.stamp for one in some]
        rows = [(one.row, one.header) for one in some]
        (self.latest.add if sign > 0 else self.latest.remove)(rows, stamps)
        for number, part in enumerate(self.parts):
            values = [one.inputs[number] for one in some]
            places = [stamp for stamp, value in zip(stamps, values, strict=True) if value is not None]
            values = [value for value in values if value is not None]
            (part.add if sign > 0 else part.remove)(values, places if part.ordered else ())

    def merge(self, other: Group) -> None:
        """Add the messages of another state of the same group."""
        self.latest.merge(other.latest)
        for mine, its in zip(self.parts, other.parts, strict=True):
            mine.merge(its)

    def compact(self) -> int:
        """Keep only what the results depend on; nothing can be removed afterwards. Returns the number of inputs that
        the accumulators then hold individually."""
        return sum(part.compact() for part in self.parts)
