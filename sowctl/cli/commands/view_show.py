"""``sowctl view show``: one view, its definition and its cache."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.declarations import Argument, declare_option
from sowctl.cli.parsing.options import MessageType

EXAMPLES = (
    "sowctl view show totals",
    "sowctl view show totals --format json",
)


def run(
    invocation: Invocation,
    view: Annotated[str, Argument("VIEW", "Name of a view.", complete="view")],
    message_type: MessageType = None,
    format: Annotated[str, declare_option("--format", "-F", help="Output format.", choices=("text", "json"))] = "text",
) -> int:
    """Print the definition of a view, its sources, the next action on its cache and the reason, rows, age and costs.

    Costs are CPU seconds of the last complete computation and of the last incremental update.
    """
    from sowctl.cli.commands.bodies.view import format_view
    from sowctl.cli.io.output_sink import show_list
    from sowctl.engine.verbs.view import build_view_definition, build_view_info, select_views

    with invocation.open_instance() as instance:
        (found,) = select_views(instance, [view], message_type)
        text = format_view(
            build_view_info(instance, found), build_view_definition(found), invocation.clock(), as_json=format == "json"
        )
    if format == "json":
        invocation.streams.stdout.write(text.encode() + b"\n")
    else:
        show_list(invocation, text.split("\n"))
    return 0
