"""Groups from which messages can be removed, for aggregated subscriptions, and groups as bytes.

A message is converted to a :class:`Contribution`; a group adds contributions and removes them, in any order. The result
equals that of :meth:`Projection.compute_fields` over the remaining messages, in the order of their stamps; tests check
this law. A contribution must be removed exactly as it was added, stamp included, so code that stores groups also stores
the contributions (:meth:`RetractableProjection.encode_contribution`,
:meth:`RetractableProjection.decode_contribution`): by source record to find the old one, and by group and stamp for the
few questions that counts cannot answer (:data:`ContributionReader`).

State of a group, msgpack: ``[latest, state per aggregate call ...]`` with the states of
:mod:`sowctl.expressions.aggregates`, and ``latest`` like the state of ANY with ``[row, header or nil]`` as its value:
the slots that the fields read from the last message, and its header if they need it. States that Spark's tasks compute
for parts of a group can be merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import astuple

from sowctl.expressions.aggregates.accumulator import Stamp
from sowctl.expressions.aggregates.latest import Latest
from sowctl.expressions.environment import NO_HEADER, Environment, Header
from sowctl.expressions.rows.groups import Contribution, Group
from sowctl.expressions.rows.slotcodec import decode_slots, decode_strings, encode_slots
from sowctl.values.fields import Row
from sowctl.values.scalars import to_text

if TYPE_CHECKING:
    from sowctl.expressions.rows.projection import GroupKey, Projection


class RetractableProjection:
    """A projection that adds messages to groups and removes them individually."""

    def __init__(self, projection: Projection) -> None:
        self.projection = projection

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
        wanted = headers if headers is not None and self.projection.uses_header else [NO_HEADER] * len(rows)
        for values, row, stamp, header in zip(
            self.projection.compute_inputs(rows, env, headers), rows, stamps, wanted, strict=True
        ):
            keys.append(tuple(map(to_text, values[:width])))
            kept = tuple(decode_strings(tuple([row[place] for place in keeps])))
            found.append(Contribution(stamp, tuple(decode_strings(values[width:])), kept, header))  # type: ignore[arg-type]  # loops append scalars
        return keys, found

    def encode_group(self, group: Group) -> bytes:
        """The state of a group."""
        size, stamp, known, value = group.latest.dump()
        latest = [size, stamp, known, None if value is None else _dump_row(*value)]
        return encode_slots([latest, *(part.dump() for part in group.parts)])

    def decode_group(self, state: bytes | memoryview) -> Group:
        """The group of a state that :meth:`encode_group` created for this projection."""
        (size, stamp, known, value), *states = decode_slots(state)
        latest = Latest.load([size, stamp, known, None if value is None else _load_row(*value)])
        classes = self.projection.accumulators
        parts = [one.load(state) for one, state in zip(classes, states, strict=True)]
        return Group(parts, self.projection.width, latest)

    @staticmethod
    def encode_contribution(contribution: Contribution) -> bytes:
        """A contribution as msgpack: ``[stamp, inputs, row, header or nil]``."""
        stamp, inputs, row, header = contribution
        return encode_slots([stamp, inputs, *_dump_row(row, header)])

    @staticmethod
    def decode_contribution(data: bytes | memoryview) -> Contribution:
        """The contribution encoded by :meth:`encode_contribution`."""
        stamp, inputs, row, header = decode_slots(data)
        return Contribution(tuple(stamp), tuple(inputs), *_load_row(row, header))


def _dump_row(row: Row, header: Header) -> list[Any]:
    return [list(row), None if header is NO_HEADER else list(astuple(header))]


def _load_row(row: Sequence[Any], header: Sequence[Any] | None) -> tuple[Row, Header]:
    return tuple(row), NO_HEADER if header is None else Header(*header)
