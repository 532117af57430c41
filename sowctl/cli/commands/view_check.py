"""``sowctl view check``: caches of views against their sources."""

from __future__ import annotations

from sowctl.cli.context import Invocation
from sowctl.cli.words.options import Columns, Format, Views

EXAMPLES = ("sowctl view check totals",)


def run(invocation: Invocation, views: Views = None, format: Format = None, columns: Columns = None) -> int:
    """Recompute views from all records of their sources, and compare the result with what queries show.

    A stale cache is refreshed first, as by a query. missing counts messages that should be in the view but are not,
    surplus those that should not be, and different those with the same key but other content. The exit status is 1 if
    there are any; 'sowctl view refresh --fresh' corrects them.
    """
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.engine.verbs.view import check, views_of
    from sowctl.output.reports import as_dict

    sink = Sink(invocation, Choice(format, columns=columns, facts=True))
    with invocation.open_instance() as instance:
        found = [check(instance, view) for view in views_of(instance, views)]
    sink.write_rows(as_dict(one) | {"state": "sound" if one.sound else "differs"} for one in found)
    return 0 if all(one.sound for one in found) else 1
