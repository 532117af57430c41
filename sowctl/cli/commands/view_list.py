"""``sowctl view list``: the views and their caches."""

from __future__ import annotations

from sowctl.cli.context import Invocation
from sowctl.cli.words.options import Columns, Format, Views

EXAMPLES = (
    "sowctl view list",
    "sowctl view list totals --format json",
)


def run(invocation: Invocation, views: Views = None, format: Format = None, columns: Columns = None) -> int:
    """List views with their sources, the messages in their caches, and how many records have changed since.

    Next is what a reader of the view does first: use the cache as it is, catch up with the changes, or compute the
    view. The lag is that number of changed records; it is empty where the sources cannot tell. Nothing is brought up
    to date by listing it.
    """
    from sowctl.cli.commands.bodies.view import info_row
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.engine.verbs.view import view_info, views_of

    sink = Sink(invocation, Choice(format, columns=columns))
    with invocation.open_instance() as instance:
        found = [view_info(instance, view) for view in views_of(instance, views)]
    sink.write_rows(info_row(one, brief=sink.format == "table") for one in found)
    return 0
