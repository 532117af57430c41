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
    fresh: Annotated[bool, option("--fresh", help="compute everything anew, whatever the caches hold")] = False,
    format: Format = None,
    columns: Columns = None,
) -> int:
    """Bring the caches of views up to date, so that the next query of each finds nothing to do.

    Without VIEW all of them, in the order of the configuration. The way is used, caught up or computed; none, where a
    view has no cache because none of its topics has a file. With --fresh a view that reads other views has their
    caches made anew, too.
    """
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.engine.verbs.view import refresh, views_of
    from sowctl.output.reports import as_dict

    sink = Sink(invocation, Choice(format, columns=columns))
    with invocation.open_instance() as instance:
        chosen = views_of(instance, views)
        sink.write_rows(as_dict(refresh(instance, view, fresh=fresh)) for view in chosen)
    return 0
