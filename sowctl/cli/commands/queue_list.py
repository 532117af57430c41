"""``sowctl queue list``: list the queues."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import OutputChoice
from sowctl.declarations import declare_part
from sowctl.errors import SowError

EXAMPLES = (
    "sowctl queue list",
    "sowctl queue list --json",
)


class QueueListArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl queue list``."""

    output: Annotated[OutputChoice, declare_part("format", "columns")]


def run(invocation: Invocation, arguments: QueueListArguments) -> int:
    """List the queues of the configuration with the number of messages per state, the age of the oldest message, and
    the workers.

    The state of each queue is first brought up to date with the journal, and leases of terminated workers are returned.
    If a queue cannot be read, the others are still listed; the exit status is that of the first such error.
    """
    from sowctl.cli.commands.bodies.queue import QUEUES_FIT, build_info_row, build_person_row
    from sowctl.cli.io.output_sink import Sink
    from sowctl.engine.verbs.queue import list_queues

    sink = Sink(invocation, arguments.output, facts=True)
    problems: list[SowError] = []
    with invocation.open_instance() as instance:
        found = list_queues(instance, problems)
    if sink.is_for_person and arguments.output.columns is None:
        sink.write_rows(map(build_person_row, found), QUEUES_FIT)
    else:
        sink.write_rows(
            build_info_row(info, brief=sink.format == "table" and arguments.output.columns is None) for info in found
        )
    for problem in problems[1:]:
        invocation.warn(problem.message, code=problem.code, place=problem.place, hint=problem.hint)
    if problems:
        raise problems[0]
    return 0
