"""``sowctl view check``: compare caches of views with their sources."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import OutputChoice, Views
from sowctl.declarations import declare_part

EXAMPLES = ("sowctl view check totals",)


class ViewCheckArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl view check``."""

    views: Views = None
    output: Annotated[OutputChoice, declare_part("format", "columns")]


def run(invocation: Invocation, arguments: ViewCheckArguments) -> int:
    """Recompute views from all records of their sources, and compare the result with what queries show.

    A stale cache is refreshed first, as by a query. missing counts messages that should be in the view but are not,
    surplus those that should not be, and different those with the same key but other content. The exit status is 1 if
    there are any; 'sowctl view refresh --fresh' corrects them.
    """
    from sowctl.cli.io.output_sink import Sink
    from sowctl.engine.verbs.view import check_view, select_views
    from sowctl.output.reports import as_dict

    sink = Sink(invocation, arguments.output, facts=True)
    with invocation.open_instance() as instance:
        found = [check_view(instance, view) for view in select_views(instance, arguments.views)]
    sink.write_rows(as_dict(one) | {"state": "sound" if one.is_sound else "differs"} for one in found)
    return 0 if all(one.is_sound for one in found) else 1
