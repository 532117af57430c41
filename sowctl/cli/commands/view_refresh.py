"""``sowctl view refresh``: bring caches of views up to date."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import OutputChoice, Views
from sowctl.declarations import declare_option, declare_part

EXAMPLES = (
    "sowctl view refresh",
    "sowctl view refresh totals --fresh",
)


class ViewRefreshArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl view refresh``."""

    views: Views = None
    fresh: Annotated[bool, declare_option("--fresh", help="Recompute everything, ignoring the caches.")] = False
    output: Annotated[OutputChoice, declare_part("format", "columns")]


def run(invocation: Invocation, arguments: ViewRefreshArguments) -> int:
    """Bring the caches of views up to date, so that the next queries need no refresh.

    Without VIEW, all views are refreshed in configuration order. The output has the way of each refresh: used, caught
    up or computed; none if a view has no cache because none of its topics has a file. With --fresh, the caches of views
    that a view reads are recomputed, too.
    """
    from sowctl.cli.io.output_sink import Sink
    from sowctl.engine.verbs.view import refresh_view, select_views
    from sowctl.output.reports import as_dict

    sink = Sink(invocation, arguments.output, facts=True)
    with invocation.open_instance() as instance:
        chosen = select_views(instance, arguments.views)
        sink.write_rows(as_dict(refresh_view(instance, view, fresh=arguments.fresh)) for view in chosen)
    return 0
