"""``sowctl view refresh``: caches of views brought up to date."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.declarations import declare_option
from sowctl.cli.parsing.options import Columns, Format, Views

EXAMPLES = (
    "sowctl view refresh",
    "sowctl view refresh totals --fresh",
)


def run(
    invocation: Invocation,
    views: Views = None,
    fresh: Annotated[bool, declare_option("--fresh", help="Recompute everything, ignoring the caches.")] = False,
    format: Format = None,
    columns: Columns = None,
) -> int:
    """Bring the caches of views up to date, so that the next query of each has nothing to do.

    Without VIEW, all views are refreshed in configuration order. The output has the way of each refresh: used, caught
    up or computed; none if a view has no cache because none of its topics has a file. With --fresh, the caches of views
    that a view reads are recomputed, too.
    """
    from sowctl.cli.io.output_sink import OutputChoice, Sink
    from sowctl.engine.verbs.view import refresh_view, select_views
    from sowctl.output.reports import as_dict

    sink = Sink(invocation, OutputChoice(format, columns=columns, facts=True))
    with invocation.open_instance() as instance:
        chosen = select_views(instance, views)
        sink.write_rows(as_dict(refresh_view(instance, view, fresh=fresh)) for view in chosen)
    return 0
