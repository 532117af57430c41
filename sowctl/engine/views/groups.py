"""Groups of a view: from rows to the messages that the view shows, one for each group.

A message is made by the same projection as that of an aggregated query. Its SOW key is that of the grouping texts under
the view's key domain, its txid and time are those of the latest row (``behaviour`` 5.1, 11.50).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sowctl.engine.search.group_accumulator import iterate_group_messages
from sowctl.engine.search.matcher import evaluate_records
from sowctl.engine.views.definition import Program
from sowctl.engine.views.joins import JoinedRow
from sowctl.identity.keys import build_batch_digester, digest_check, digest_key
from sowctl.store.codec import encode_record

if TYPE_CHECKING:
    from sowctl.engine.sources.source import Pairs
    from sowctl.expressions.environment import Header
    from sowctl.expressions.rows.groups import Group
    from sowctl.expressions.rows.projection import GroupKey
    from sowctl.values.fields import SlotValue


class ViewGroups:
    """Groups that rows are added to, in memory."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._digester = build_batch_digester(program.query.key_domain, program.projection.width)
        self.groups: dict[GroupKey, Group] = {}

    def add(self, rows: Sequence[JoinedRow]) -> None:
        """Add rows; those of one group come in their order. Raises LimitError ``SOW-EXP-030``."""
        add_rows(self._program, self.groups, rows, [row.stamp for row in rows])

    def iterate_messages(self) -> Iterator[Pairs]:
        """Keys and stored values of the messages of the groups, in key order."""
        program = self._program
        return iterate_group_messages(
            program.projection, program.environment, program.kind, self._digester, self.groups
        )


def add_rows(
    program: Program, groups: dict[GroupKey, Group], rows: Sequence[JoinedRow], stamps: Sequence[tuple[Any, ...]]
) -> None:
    """Add rows with these stamps to groups; an error of evaluation names the first record of the row."""
    values, asked = [row.values for row in rows], build_headers(program, rows)

    def add(part: slice) -> None:
        program.projection.add_messages(groups, values[part], program.environment, asked and asked[part], stamps[part])

    evaluate_records(add, [row.key for row in rows], program.query.sources[0].name)


def build_headers(program: Program, rows: Iterable[JoinedRow]) -> list[Header] | None:
    """The headers of rows, where the projection asks for any."""
    return [row.header for row in rows if row.header is not None] if program.projection.uses_header else None


def encode_message(program: Program, digest: bytes, fields: Sequence[SlotValue], stamp: Sequence[Any]) -> bytes:
    """The stored value of a message with these fields; ``stamp`` begins with txid and time."""
    payload = program.kind.build_message(list(zip(program.projection.destinations, fields, strict=True)))
    return encode_record(digest_key(digest), digest_check(digest), stamp[0], stamp[1], 0, 0, payload)
