"""``sowctl upkeep list``: the actions of the configuration, and when they run."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import OutputChoice
from sowctl.declarations import declare_part

EXAMPLES = (
    "sowctl upkeep list",
    "sowctl upkeep list --format json",
)


class UpkeepListArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl upkeep list``."""

    output: Annotated[OutputChoice, declare_part("format", "columns")]


def run(invocation: Invocation, arguments: UpkeepListArguments) -> int:
    """List the Actions of the configuration: schedule, last run, next run, steps.

    The next run of an action that is due is the current time. Steps in brackets, and events that are not schedules,
    apply only to servers; sowctl upkeep run ignores them.
    """
    from sowctl.cli.commands.bodies.retention import ACTIONS_FIT, build_action_row, build_person_action_row
    from sowctl.cli.io.output_sink import Sink
    from sowctl.engine.maintenance.retention.actions import list_actions

    sink = Sink(invocation, arguments.output, facts=True)
    with invocation.open_instance() as instance:
        now = instance.now
        if sink.is_for_person and arguments.output.columns is None:
            sink.write_rows((build_person_action_row(action, now) for action in list_actions(instance)), ACTIONS_FIT)
        else:
            sink.write_rows(build_action_row(action, now) for action in list_actions(instance))
    return 0
