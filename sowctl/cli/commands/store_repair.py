"""``sowctl store repair``: damaged stores made sound."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import option
from sowctl.cli.words.options import DryRun, Format, Summary, Targets, Yes

EXAMPLES = (
    "sowctl store repair orders --dry-run",
    "sowctl store repair orders --yes --format csv",
)


def run(
    invocation: Invocation,
    targets: Targets = None,
    earlier: Annotated[
        bool, option("--earlier", help="take the state before the last transaction where only that can be read")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    format: Format = None,
    summary: Summary = None,
) -> int:
    """Save every sound record of damaged stores, restore from the journal what it has of the others, and list these.

    A new file takes the store's place; the damaged one stays beside it as NAME.damaged-1. What the store lacked is
    listed: restored, with the txid of the entry in the journal; lost, with its key where that is known, else with
    the keys between which it was; or removed, where the file still had what the journal knows to be deleted. Records
    that were deleted never come back. A store in which nothing is damaged is left as it is.

    Readers may go on meanwhile; writers wait. On a terminal the command asks first; without one it needs --yes, or
    --dry-run to see what would be done. Without TARGET all topics that have a store are looked at. Ends with status 5
    where something is lost.
    """
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.cli.io.reporting import show_report
    from sowctl.engine.topics.targets import Target, resolve
    from sowctl.engine.verbs.upkeep.repair import repair
    from sowctl.output.reports import as_dict

    if not dry_run and invocation.streams.must_ask(yes=yes):
        invocation.streams.confirm("put repaired files in the place of damaged stores (these are kept beside them)")
    sink = Sink(invocation, Choice(format))
    status = 0
    with invocation.open_instance(*(targets or ())) as instance:
        chosen = [target for text in targets or () for target in resolve(instance, text)]
        if not targets:
            chosen = [Target(topic=topic) for topic in instance.topics]
        done = list(repair(instance, chosen, earlier=earlier, dry_run=dry_run))
    sink.write_rows(as_dict(item) for one in done for item in one.items())
    for one in done:
        show_report(invocation, one.report, summary)
        status = 5 if not one.report.complete else status
    if not done:
        invocation.note("there is no store to repair")
    return status
