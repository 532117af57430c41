"""``sowctl snapshot``: the state at an earlier time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import option
from sowctl.cli.words.options import Columns, FixNames, Force, Format, MessageType, Meta, NoHeaders, Summary, Target

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import QueryOptions

EXAMPLES = (
    "sowctl snapshot orders --at 2026-01-05T10:00:00Z > ten.ndjson",
    "sowctl snapshot orders --at -1h --output hour-ago.sow",
)


def run(
    invocation: Invocation,
    target: Target,
    at: Annotated[str, option("--at", help="Time, bookmark or txid of the state.", metavar="WHEN")],
    output: Annotated[
        str | None,
        option(
            "--output",
            help="Output file; a new store if FILE ends in .sow, otherwise in the format of --format or of the ending.",
            metavar="FILE",
        ),
    ] = None,
    force: Force = False,
    message_type: MessageType = None,
    format: Format = None,
    meta: Meta = False,
    columns: Columns = None,
    no_headers: NoHeaders = False,
    fix_names: FixNames = False,
    summary: Summary = None,
) -> int:
    """Write the state of a topic as of a time, a bookmark or a txid; for the last two, as of the time of that entry.

    The state comes from the history in the store if that reaches far enough, otherwise from the journals. An error
    names the earliest available instant. A new .sow file can be queried by its path without a configuration.
    """
    from contextlib import closing
    from pathlib import Path

    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.cli.io.outfile import refuse_existing
    from sowctl.cli.io.reporting import show_report
    from sowctl.cli.lookup import one
    from sowctl.cli.words.when import moment
    from sowctl.engine.options import QueryOptions
    from sowctl.engine.verbs.query import query
    from sowctl.engine.verbs.snapshot import snapshot_file

    when = moment(invocation, at)
    # Only a file that ends in .sow becomes a store; anything else is records in a format.
    if output is None or not output.endswith(".sow"):
        sink = Sink(invocation, Choice(format, meta, columns, output=output, force=force, no_headers=no_headers))

        def asked(instance: Instance) -> QueryOptions:
            # In the order of updates, so that envelopes can be published again.
            return QueryOptions(at=when.of(instance), by_time=meta)

        with (
            invocation.open_instance(target, fix_names=fix_names) as instance,
            closing(query(instance, [one(instance, target, message_type)], asked(instance))) as result,
        ):
            sink.write(result)
        return 0
    # Before the instance is opened: a file that exists is refused at once.
    refuse_existing(Path(output), force=force)
    with invocation.open_instance(target) as instance:
        where = one(instance, target, message_type)
        report = snapshot_file(instance, where, when.of(instance), Path(output), force=force)
    show_report(invocation, report, summary)
    return 0
