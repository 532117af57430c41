"""``sowctl view refresh``: caches of views brought up to date."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import option
from sowctl.cli.words.options import Columns, Format, Views

EXAMPLES = (
    "sowctl view refresh",
    "sowctl view refresh totals --fresh",
)


def run(
    invocation: Invocation,
    views: Views = None,
    fresh: Annotated[bool, option("--fresh", help="Recompute everything, ignoring the caches.")] = False,
    format: Format = None,
    columns: Columns = None,
) -> int:
    """Bring the caches of views up to date, so that the next query of each has nothing to do.

    Without VIEW, all views are refreshed in configuration order. The output has the way of each refresh: used, caught
    up or computed; none if a view has no cache because none of its topics has a file. With --fresh, the caches of views
    that a view reads are recomputed, too.
    """
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.engine.verbs.view import refresh, views_of
    from sowctl.output.reports import as_dict

    sink = Sink(invocation, Choice(format, columns=columns, facts=True))
    with invocation.open_instance() as instance:
        chosen = views_of(instance, views)
        sink.write_rows(as_dict(refresh(instance, view, fresh=fresh)) for view in chosen)
    return 0
