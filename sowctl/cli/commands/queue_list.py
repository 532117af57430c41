"""``sowctl queue list``: all queues."""

from __future__ import annotations

from sowctl.cli.context import Invocation
from sowctl.cli.words.options import Columns, Format
from sowctl.errors import SowError

EXAMPLES = (
    "sowctl queue list",
    "sowctl queue list --json",
)


def run(invocation: Invocation, format: Format = None, columns: Columns = None) -> int:
    """List the queues of the configuration: how many messages are in which state, how old the oldest is, and what
    works on them.

    The state of each queue is brought up to the end of the journal first, and leases of workers that have ended return.
    A queue that cannot be read does not keep the others from being listed; the status is that of the first such error.
    """
    from sowctl.cli.commands.bodies.queue import info_row
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.engine.verbs.queue import list_queues

    sink = Sink(invocation, Choice(format, columns=columns))
    problems: list[SowError] = []
    with invocation.open_instance() as instance:
        found = list_queues(instance, problems)
    sink.write_rows(info_row(info, brief=sink.format == "table") for info in found)
    for problem in problems[1:]:
        invocation.warn(problem.message, code=problem.code, place=problem.place, hint=problem.hint)
    if problems:
        raise problems[0]
    return 0
