"""Groups of a projection from which messages can be taken back, for what reports each change as it comes.

These are aggregated subscriptions, and the replay of a view's history for conflated topics. Groups that outgrow memory,
and those of the parts of a Spark job, are packed as such states and added up.

A message is read into a :class:`Contribution`; a group adds contributions and gives them back, in any order. What is
left answers as :meth:`Projection.compute_fields` does over the messages that are left, in the order of their stamps: a
law of the tests. A contribution must be given back as it was added, stamp included, so whoever keeps groups keeps the
contributions too (:meth:`RetractableProjection.encode_contribution`,
:meth:`RetractableProjection.decode_contribution`): by source record to find the old one, and by group and stamp for the
few questions that counts cannot answer (:data:`ContributionReader`).

Two states of one group add up (:meth:`RetractableGroup.merge`): parts of a job each make some, and nothing is read
twice.

State of a group, msgpack: ``[latest, state per aggregate call ...]`` with the states of ``sums`` and ``countedinputs``,
and ``latest`` as that of ANY with ``[row, header or nil]`` as its value: the slots that the fields read from the last
message, and its header where they ask for one. :data:`STATE_VERSION` counts its versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec.structs import astuple

from sowctl.expressions.environment import NO_HEADER, Environment, Header
from sowctl.expressions.rows.aggregates import join_distinct_texts
from sowctl.expressions.rows.countedinputs import (
    CountedDistinct,
    CountedInputs,
    InputReader,
    LatestInput,
    Stamp,
    iterate_no_rows,
)
from sowctl.expressions.rows.slotcodec import decode_slots, decode_strings, encode_slots
from sowctl.expressions.rows.sums import SUM_STATES, Count, Sum
from sowctl.values.fields import Number, Row, Scalar, SlotValue
from sowctl.values.scalars import to_text

if TYPE_CHECKING:
    from sowctl.expressions.rows.projection import GroupKey, GroupState, Projection

STATE_VERSION = 2
"""Version of the states: another one holds other things, and is made anew from the sources."""


class Contribution(NamedTuple):
    """The contribution of one message to its group: stamp, input per aggregate (NULL too), kept slots, header.

    The stamp is the message's place in the order of updates, and no other message of the group has it: (txid, time)
    and the keys of the source records, for instance.
    """

    stamp: Stamp
    inputs: tuple[Scalar, ...]
    row: Row
    header: Header | None


ContributionReader: TypeAlias = Callable[[bool], Iterable[Contribution]]
"""The contributions that a group still has, ascending by stamp; descending for True. Mostly the first one is enough."""
_AggregateState: TypeAlias = Count | Sum | CountedInputs | LatestInput


_STATE_FACTORIES: dict[str, Callable[[Sequence[Any]], _AggregateState]] = {
    **SUM_STATES,
    "COUNT_DISTINCT": CountedDistinct,
    "ANY": LatestInput,
    # These keep the same and differ in what is asked of it.
    **dict.fromkeys(("MIN", "MAX", "UNIQUE", "GROUP_CONCAT"), CountedInputs),
}
"""The state of an aggregate call from the bytes of :meth:`RetractableProjection.encode_group`, or of no input."""


_NONE_TYPE = type(None)
_NUMBER_TYPES = frozenset((int, float, bool, Number))


class RetractableGroup:
    """The state of one group: its latest message, and a state per aggregate call."""

    __slots__ = ("latest", "parts")

    def __init__(self, latest: LatestInput, parts: list[_AggregateState]) -> None:
        self.latest = latest
        self.parts = parts

    @property
    def size(self) -> int:
        """The number of messages of the group; one without any vanishes."""
        return self.latest.size

    def find_stamp(self, rows: ContributionReader = iterate_no_rows) -> Stamp:
        """The highest stamp of its messages."""
        self._find_latest_row(rows)
        return self.latest.stamp

    def _find_latest_row(self, rows: ContributionReader) -> None:
        if not self.latest.known:
            self.latest.restore_latest((one.stamp, _build_latest(one)) for one in rows(True))

    def update(self, some: Sequence[Contribution], sign: int) -> None:
        """Add messages (``sign`` 1) or take them back (-1).

        Raises DamageError ``SOW-EXP-050`` where more is taken than there is: the state belongs to other messages, is
        spoilt now, and has to be made anew.
        """
        stamps = [one.stamp for one in some]
        self.latest.update([_build_latest(one) for one in some], stamps, sign)
        for number, part in enumerate(self.parts):
            values = [one.inputs[number] for one in some]
            places: Sequence[Stamp] = stamps
            # Aggregates ignore NULLs.
            if _NONE_TYPE in set(map(type, values)):
                places = [stamp for stamp, value in zip(stamps, values, strict=True) if value is not None]
                values = [value for value in values if value is not None]
            _change_state(part, values, places, sign)

    def add_group(self, state: GroupState, projection: Projection, *, for_good: bool = False) -> None:
        """Add the messages of a group that was made forward, with unique stamps.

        ``for_good``: nothing will be taken back, so that of MIN and MAX no more is kept than what answers. It is to be
        said of a group that was made on columns, which keeps no more inputs than the result depends on.
        """
        kept = tuple(decode_strings(tuple([state.row[place] for place in projection.keeps])))
        size = state.size
        header = None if state.header is NO_HEADER else list(astuple(state.header))
        other = LatestInput((size, state.stamp, True, [list(kept), header]))
        self.latest.merge(other)
        for number, (call, part) in enumerate(zip(projection.aggregates, self.parts, strict=True)):
            known = state.sums.get(number)
            if known is not None:
                part.merge(known)  # type: ignore[arg-type]  # states of one aggregate call are of one class
            values = decode_strings(tuple(state.inputs[number]))
            stamps: Sequence[Stamp] = state.stamps.get(number, ())
            if for_good and call.name in ("MIN", "MAX"):
                places = _find_extremes(values, call.name == "MAX")  # type: ignore[arg-type]  # no lists among them
                values, stamps = [values[place] for place in places], [stamps[place] for place in places]
            _change_state(part, values, stamps or [()] * len(values), 1)  # type: ignore[arg-type]  # no lists among them

    def merge(self, other: RetractableGroup) -> None:
        """Add the messages of another state of the same group."""
        self.latest.merge(other.latest)
        for mine, its in zip(self.parts, other.parts, strict=True):
            mine.merge(its)  # type: ignore[arg-type]  # states of one aggregate call are of one class


def _find_extremes(values: Sequence[Scalar], greatest: bool) -> Sequence[int]:
    """The places of the values that may be the least or greatest of a set; all, where they are not all numbers."""
    if not _NUMBER_TYPES.issuperset(map(type, values)) or not values:
        return range(len(values))
    numbers: list[Any] = [value.value if type(value) is Number else value for value in values]
    strange = next((place for place, number in enumerate(numbers) if number != number), None)
    if strange is not None:
        # One NaN decides the answer.
        return (strange,)
    best = max(numbers) if greatest else min(numbers)
    return [place for place, number in enumerate(numbers) if number == best]


def _build_latest(one: Contribution) -> list[Any]:
    return [list(one.row), None if one.header is None else list(astuple(one.header))]


def _change_state(part: _AggregateState, values: list[Scalar], stamps: Sequence[Stamp], sign: int) -> None:
    if not values:
        return
    if isinstance(part, CountedInputs | LatestInput):
        part.update(values, stamps, sign)
    else:
        part.update(values, sign)


class RetractableProjection:
    """A projection whose groups take messages and give them back."""

    def __init__(self, projection: Projection) -> None:
        self.projection = projection
        self._names = [call.name for call in projection.aggregates]

    def compute_contributions(
        self,
        rows: Sequence[Row],
        stamps: Sequence[Stamp],
        env: Environment,
        headers: Sequence[Header] | None = None,
    ) -> tuple[list[GroupKey], list[Contribution]]:
        """The group's key and the contribution of each message. Raises LimitError as
        :meth:`Projection.add_messages`.
        """
        width, keeps = self.projection.width, self.projection.keeps
        keys: list[GroupKey] = []
        found = []
        wanted = headers if headers is not None and self.projection.uses_header else [None] * len(rows)
        for values, row, stamp, header in zip(
            self.projection.compute_inputs(rows, env, headers), rows, stamps, wanted, strict=True
        ):
            keys.append(tuple(map(to_text, values[:width])))
            kept = tuple(decode_strings(tuple([row[place] for place in keeps])))
            found.append(Contribution(stamp, tuple(decode_strings(values[width:])), kept, header))  # type: ignore[arg-type]  # loops append scalars
        return keys, found

    def build_empty_group(self) -> RetractableGroup:
        """A group without messages."""
        return self._restore_group(())

    def _restore_group(self, state: Sequence[Any]) -> RetractableGroup:
        latest, *states = state or [()] * (len(self._names) + 1)
        parts = [_STATE_FACTORIES[name](state) for name, state in zip(self._names, states, strict=True)]
        return RetractableGroup(LatestInput(latest), parts)

    def compute_fields(
        self, group: RetractableGroup, env: Environment, rows: ContributionReader = iterate_no_rows
    ) -> list[SlotValue]:
        """The values of a group's fields, in the order of the projection's destinations.

        ``rows`` are asked only for what a removal made unknown; the group then knows it again, so a state that is kept
        is best written after this. Raises DamageError ``SOW-EXP-050`` where they hold other messages than the group.
        """
        group._find_latest_row(rows)
        row, header = group.latest.value

        def results(delimiters: Sequence[SlotValue]) -> list[Scalar]:
            return [
                _state_result(name, part, delimiter, _remaining_inputs(rows, number))
                for number, (name, part, delimiter) in enumerate(zip(self._names, group.parts, delimiters, strict=True))
            ]

        return self.projection.compute_kept_fields(row, NO_HEADER if header is None else Header(*header), results, env)

    def encode_group(self, group: RetractableGroup) -> bytes:
        """The state of a group."""
        return encode_slots([group.latest.dump(), *(part.dump() for part in group.parts)])

    def decode_group(self, state: bytes | memoryview) -> RetractableGroup:
        """The group of a state that :meth:`encode_group` made for this projection."""
        return self._restore_group(decode_slots(state))

    @staticmethod
    def encode_contribution(contribution: Contribution) -> bytes:
        """A contribution as msgpack: ``[stamp, inputs, row, header or nil]``."""
        return encode_slots([contribution.stamp, contribution.inputs, *_build_latest(contribution)])

    @staticmethod
    def decode_contribution(data: bytes | memoryview) -> Contribution:
        """The contribution of :meth:`encode_contribution`."""
        stamp, inputs, row, header = decode_slots(data)
        return Contribution(tuple(stamp), tuple(inputs), tuple(row), None if header is None else Header(*header))


def _remaining_inputs(rows: ContributionReader, number: int) -> InputReader:
    return lambda descending: ((one.stamp, one.inputs[number]) for one in rows(descending))


def _state_result(name: str, part: _AggregateState, delimiter: SlotValue, inputs: InputReader) -> Scalar:
    if isinstance(part, LatestInput):
        return part.compute_result(inputs)
    if not isinstance(part, CountedInputs) or isinstance(part, CountedDistinct):
        return part.compute_result()
    if name == "UNIQUE":
        return part.find_unique(inputs)
    if name == "GROUP_CONCAT":
        return join_distinct_texts(part.list_distinct(inputs), to_text(delimiter))
    return part.find_extreme(name == "MAX", inputs)
