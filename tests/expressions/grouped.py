"""A projection over some messages at once, as the program makes it: added to groups, then the fields of each."""

from __future__ import annotations

from collections.abc import Sequence

from sowctl.expressions.environment import Environment, Header
from sowctl.expressions.rows.groups import Group
from sowctl.expressions.rows.projection import GroupKey, Projection
from sowctl.values.fields import Row, SlotValue


def project(
    program: Projection, rows: Sequence[Row], env: Environment, headers: Sequence[Header] | None = None
) -> list[list[SlotValue]]:
    """The fields of all groups, in the order in which the groups were first seen."""
    groups: dict[GroupKey, Group] = {}
    program.add_messages(groups, rows, env, headers)
    return [program.compute_fields(group, env) for group in groups.values()]
