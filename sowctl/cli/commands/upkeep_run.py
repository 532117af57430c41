"""``sowctl upkeep run``: run due actions of the configuration."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import OutputChoice
from sowctl.declarations import declare_part
from sowctl.engine.options import DryRun

EXAMPLES = (
    "sowctl upkeep run --dry-run",
    "sowctl upkeep run --now 2026-01-06T03:00:00Z",
    "sowctl upkeep run --quiet --format json",
)


class UpkeepRunArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl upkeep run``."""

    dry_run: DryRun = False
    output: Annotated[OutputChoice, declare_part("format", "columns")]


def run(invocation: Invocation, arguments: UpkeepRunArguments) -> int:
    """Run the Actions of the configuration that concern files and are due.

    Run by cron, for example with the line */10 * * * * sowctl upkeep run --quiet --config /etc/shop.xml, the command
    replaces the scheduled maintenance of a server: it archives and removes journals and deletes records. An action is
    due if a scheduled time has passed since its last run; several missed times cause one run, and an action that has
    never run is due. Actions that apply only to servers, such as minidumps and statistics, are listed and skipped. For
    the recorded state, see sow-upkeep(5).

    The result of each step is printed. The exit status is 0, or that of the first step that failed: the others still
    run, and the action remains due. The command does not ask for confirmation: the configuration defines what to
    remove.
    """
    from sowctl.cli.commands.bodies.retention import RecordDeleter, build_step_row
    from sowctl.cli.io.output_sink import Sink
    from sowctl.engine.maintenance.retention.actions import run_actions as run_actions

    sink = Sink(invocation, arguments.output, facts=True)
    failed = []
    with invocation.open_instance() as instance:
        reports = []
        for report in run_actions(instance, RecordDeleter(), dry_run=arguments.dry_run):
            reports.append(report)
            for note in report.did.notes if report.error is None else ():
                invocation.note(f"{report.name}, {report.step}: {note}")
            if report.error is not None:
                failed.append(report.error)
                error = report.error
                words = f"{report.name}, {report.step}: {error.message}"
                invocation.warn(words, code=error.code, place=error.place, hint=error.hint)
        sink.write_rows(map(build_step_row, reports))
        if not reports:
            invocation.note("no action is due")
    return failed[0].exit_status if failed else 0
