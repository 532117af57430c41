"""``sowctl view check``: caches of views against their sources."""

from __future__ import annotations

from sowctl.cli.context import Invocation
from sowctl.cli.words.options import Columns, Format, Views

EXAMPLES = ("sowctl view check totals",)


def run(invocation: Invocation, views: Views = None, format: Format = None, columns: Columns = None) -> int:
    """Compute views from all records of their sources, and compare that with what a query shows.

    A cache that is behind is brought up to date first, as by a query. Missing are messages that the sources make and
    the view does not show, surplus those that it shows alone; different are those of one key that are not the same.
    Ends with status 1 where there is any; 'sowctl view refresh --fresh' puts it right.
    """
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.engine.verbs.view import check, views_of
    from sowctl.output.reports import as_dict

    sink = Sink(invocation, Choice(format, columns=columns))
    with invocation.open_instance() as instance:
        found = [check(instance, view) for view in views_of(instance, views)]
    sink.write_rows(as_dict(one) | {"state": "sound" if one.sound else "differs"} for one in found)
    return 0 if all(one.sound for one in found) else 1
