"""Output of the commands on views."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sowctl.output.display import escape_line
from sowctl.output.options import TableFit
from sowctl.output.reports import as_dict
from sowctl.values.display import format_ago, format_bytes, format_count, format_duration
from sowctl.values.times import format_time

if TYPE_CHECKING:
    from sowctl.engine.verbs.view import ViewDefinition, ViewInfo


def build_info_row(one: ViewInfo, *, brief: bool) -> dict[str, Any]:
    """All facts of a view; ``brief``: the columns that fit a line, for people."""
    refreshed = None if one.refreshed is None else format_time(one.refreshed)
    if not brief:
        made = None if one.made is None else format_time(one.made)
        return as_dict(one) | {"made": made, "refreshed": refreshed}
    return {
        "view": one.view,
        "type": one.message_type,
        "sources": ", ".join(one.sources),
        "next": one.next,
        "lag": one.lag,
        "records": one.records,
        "size": format_bytes(one.bytes),
        "refreshed": refreshed,
    }


VIEWS_FIT = TableFit(spare=("type", "refreshed", "size"), figures=("size",))
"""Columns of a view for people that a narrow terminal may drop."""


def build_person_row(one: ViewInfo, now: int) -> dict[str, Any]:
    """The brief row of a view for a terminal: the age of its last refresh."""
    age = None if one.refreshed is None else format_ago((now - one.refreshed) / 1e6)
    return build_info_row(one, brief=True) | {"refreshed": age}


def format_view(one: ViewInfo, definition: ViewDefinition, now: int, *, as_json: bool) -> str:
    """A view in full: an object, or lines for people."""
    if as_json:
        return json.dumps(build_info_row(one, brief=False) | {"definition": as_dict(definition)}, ensure_ascii=False)
    lines = [f"{one.view} ({one.message_type}), keys under {definition.key_domain}"]
    lines += [f"  source      {source}" for source in one.sources]
    lines += [f"  join        {join}" for join in definition.joins]
    if definition.joins and definition.nulls_match:
        lines.append("  nulls       match")
    if definition.filter is not None:
        lines.append(f"  filter      {definition.filter}")
    lines += [f"  field       {field}" for field in definition.projection]
    lines += [f"  grouping    {field}" for field in definition.grouping]
    lines += [f"  hash index  {', '.join(index)}" for index in definition.hash_indexes]
    lag = "" if one.lag is None else f", {format_count(one.lag, 'changed record')}"
    lines.append(f"  next        {one.next}: {one.why}{lag}")
    if one.refreshed is not None and one.made is not None and one.full_seconds is not None:
        columns = "" if one.column_bytes is None else f", columns {format_bytes(one.column_bytes)}"
        lines.append(
            f"  cache       {format_count(one.records, 'message')}, {format_bytes(one.bytes)}{columns}, {one.path}"
        )
        lines.append(f"  refreshed   {format_time(one.refreshed)}, {format_ago((now - one.refreshed) / 1e6)}")
        lines.append(f"  computed    {format_time(one.made)}, in {format_duration(one.full_seconds)}")
    if one.change_seconds is not None:
        lines.append(
            f"  caught up   with {format_count(one.changes, 'changed record')}, {format_count(one.groups, 'group')}"
            f" computed in {format_duration(one.change_seconds)}"
        )
    return "\n".join(escape_line(line) for line in lines)
