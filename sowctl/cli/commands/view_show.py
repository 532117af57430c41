"""``sowctl view show``: one view, its definition and its cache."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import MessageType
from sowctl.declarations import Argument, declare_option

EXAMPLES = (
    "sowctl view show totals",
    "sowctl view show totals --format json",
)


class ViewShowArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl view show``."""

    view: Annotated[str, Argument("VIEW", "Name of a view.", complete="view")]
    message_type: MessageType = None
    format: Annotated[str, declare_option("--format", "-F", help="Output format.", choices=("text", "json"))] = "text"


def run(invocation: Invocation, arguments: ViewShowArguments) -> int:
    """Print the definition of a view, its sources, the next action on its cache and the reason, sizes, age and costs.

    Costs are CPU seconds of the last complete computation and of the last refresh.
    """
    from sowctl.cli.commands.bodies.view import format_view
    from sowctl.cli.io.output_sink import show_list
    from sowctl.engine.verbs.view import build_view_definition, build_view_info, select_views

    with invocation.open_instance() as instance:
        (found,) = select_views(instance, [arguments.view], arguments.message_type)
        text = format_view(
            build_view_info(instance, found),
            build_view_definition(found),
            invocation.clock(),
            as_json=arguments.format == "json",
        )
    if arguments.format == "json":
        invocation.streams.stdout.write(text.encode() + b"\n")
    else:
        show_list(invocation, text.split("\n"))
    return 0
