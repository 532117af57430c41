"""``sowctl store repair``: repair damaged stores."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import OutputChoice, Summary, Targets, Yes
from sowctl.declarations import declare_option, declare_part
from sowctl.engine.options import DryRun

EXAMPLES = (
    "sowctl store repair orders --dry-run",
    "sowctl store repair orders --yes --format csv",
)


class StoreRepairArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl store repair``."""

    targets: Targets = None
    earlier: Annotated[
        bool, declare_option("--earlier", help="Use the state before the last transaction if only that is readable.")
    ] = False
    dry_run: DryRun = False
    yes: Yes = False
    summary: Summary = None
    output: Annotated[OutputChoice, declare_part("format")]


def run(invocation: Invocation, arguments: StoreRepairArguments) -> int:
    """Save all intact records of damaged stores, restore the others from the journal as far as possible, and list them.

    A new file replaces the store; the damaged one is kept as NAME.damaged-1. Each affected record is listed as
    restored, with the txid of its journal entry; lost, with the key in the file if readable and the first and last key
    possible; or removed, if it was still in the file but had been deleted according to the journal. Deleted records are
    never restored. Undamaged stores are left unchanged.

    Readers can continue meanwhile; writers wait. On a terminal, the command asks for confirmation; otherwise --yes is
    required, or --dry-run to show what would be done. Without TARGET, all topics with a store are examined. The exit
    status is 5 if a record is lost.
    """
    from sowctl.cli.io.output_sink import Sink
    from sowctl.cli.io.report_output import show_report
    from sowctl.engine.topics.targets import Target, resolve_targets
    from sowctl.engine.verbs.upkeep.repair import repair_stores
    from sowctl.output.reports import as_dict

    if not arguments.dry_run and invocation.streams.must_confirm(yes=arguments.yes):
        invocation.streams.confirm("replace damaged stores with repaired ones (the damaged files are kept beside them)")
    sink = Sink(invocation, arguments.output)
    status = 0
    with invocation.open_instance(*(arguments.targets or ())) as instance:
        chosen = [target for text in arguments.targets or () for target in resolve_targets(instance, text)]
        if not arguments.targets:
            chosen = [Target(topic=topic) for topic in instance.topics]
        done = list(repair_stores(instance, chosen, earlier=arguments.earlier, dry_run=arguments.dry_run))
    sink.write_rows(as_dict(item) for one in done for item in one.items())
    for one in done:
        show_report(invocation, one.report, arguments.summary)
        status = 5 if not one.report.complete else status
    if not done:
        invocation.note("no store to repair")
    return status
