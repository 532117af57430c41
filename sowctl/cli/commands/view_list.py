"""``sowctl view list``: the views and their caches."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import OutputChoice, Views
from sowctl.declarations import declare_part

EXAMPLES = (
    "sowctl view list",
    "sowctl view list totals --format json",
)


class ViewListArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl view list``."""

    views: Views = None
    output: Annotated[OutputChoice, declare_part("format", "columns")]


def run(invocation: Invocation, arguments: ViewListArguments) -> int:
    """List views with their sources, the number of cached messages, and the number of records changed since.

    The column next is what the next read of the view does: use the cache as it is, catch up with the changes, or
    compute the view. The lag is the number of changed records; it is empty if the sources cannot tell. Listing a view
    does not refresh it.
    """
    from sowctl.cli.commands.bodies.view import VIEWS_FIT, build_info_row, build_person_row
    from sowctl.cli.io.output_sink import Sink
    from sowctl.engine.verbs.view import build_view_info, select_views

    sink = Sink(invocation, arguments.output, facts=True)
    with invocation.open_instance() as instance:
        found = [build_view_info(instance, view) for view in select_views(instance, arguments.views)]
        now = instance.now
    if sink.is_for_person and arguments.output.columns is None:
        sink.write_rows((build_person_row(one, now) for one in found), VIEWS_FIT)
    else:
        sink.write_rows(
            build_info_row(one, brief=sink.format == "table" and arguments.output.columns is None) for one in found
        )
    return 0
