"""Groups of a view: grouping of rows, and the messages of groups.

A message is built by the same projection as in an aggregated query. Its SOW key is computed from the grouping texts in
the view's key domain; its txid and time are those of the latest row (``behaviour`` 5.1, 11.50).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sowctl.engine.search.matcher import evaluate_records
from sowctl.engine.views.definition import Program
from sowctl.engine.views.joins import JoinedRow
from sowctl.identity.keys import digest_check, digest_key
from sowctl.store.codec import encode_record

if TYPE_CHECKING:
    from sowctl.expressions.environment import Header
    from sowctl.expressions.rows.projection import GroupedRows
    from sowctl.values.fields import SlotValue


def group_rows(program: Program, rows: Sequence[JoinedRow], stamps: Sequence[tuple[Any, ...]]) -> GroupedRows:
    """Return rows with ``stamps`` and the group of each. Evaluation errors name the first record of the row. Raises
    LimitError ``SOW-EXP-030``."""
    values, asked = [row.values for row in rows], build_headers(program, rows)

    def group(part: slice) -> GroupedRows:
        headers = asked and asked[part]
        return program.projection.group_messages(values[part], program.environment, headers, stamps[part])

    return evaluate_records(group, [row.key for row in rows], program.query.sources[0].name)


def build_headers(program: Program, rows: Iterable[JoinedRow]) -> list[Header] | None:
    """Return the headers of rows, None if the projection reads no headers."""
    return [row.header for row in rows if row.header is not None] if program.projection.uses_header else None


def encode_message(program: Program, digest: bytes, fields: Sequence[SlotValue], stamp: Sequence[Any]) -> bytes:
    """Encode the stored value of a message with these fields; ``stamp`` begins with txid and time."""
    payload = program.kind.build_message(list(zip(program.projection.destinations, fields, strict=True)))
    return encode_record(digest_key(digest), digest_check(digest), stamp[0], stamp[1], 0, 0, payload)
