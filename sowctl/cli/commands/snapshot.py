"""``sowctl snapshot``: the state at an earlier time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Struct
from msgspec.structs import replace

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import FixNames, Force, MessageType, OutputChoice, Summary, Target
from sowctl.declarations import declare_option, declare_part
from sowctl.engine.options import Filter

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import QueryOptions

EXAMPLES = (
    "sowctl snapshot orders --at 2026-01-05T10:00:00Z > ten.ndjson",
    "sowctl snapshot orders \"/symbol = 'IBM'\" --at 10:00 --format csv",
    "sowctl snapshot orders --at -1h --output hour-ago.sow",
)


class SnapshotArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl snapshot``."""

    target: Target
    filter: Filter = None
    at: Annotated[str, declare_option("--at", help="Time, bookmark or txid of the state.", metavar="WHEN")]
    output: Annotated[
        str | None,
        declare_option(
            "--output",
            help="Output file; a new store if FILE ends in .sow, otherwise in the format of --format or of the ending.",
            metavar="FILE",
        ),
    ] = None
    force: Force = False
    message_type: MessageType = None
    records: Annotated[OutputChoice, declare_part("format", "meta", "columns", "no_headers")]
    fix_names: FixNames = False
    summary: Summary = None


def run(invocation: Invocation, arguments: SnapshotArguments) -> int:
    """Write the state of a topic as of a time, or after the entry of a bookmark or txid.

    The state comes from the history in the store if that reaches far enough, otherwise from the journals. An error
    names the earliest available instant. If the topic has a History, the state may lack the changes of up to one
    Granularity before the time. A new .sow file can be queried by its path without a configuration.
    """
    from contextlib import closing
    from pathlib import Path

    from sowctl.cli.io.output_sink import Sink
    from sowctl.cli.io.report_output import show_report
    from sowctl.cli.lookup import resolve_one_target
    from sowctl.cli.parsing.option_values import parse_at_option
    from sowctl.engine.options import QueryOptions
    from sowctl.engine.verbs.query import start_query
    from sowctl.engine.verbs.snapshot import write_snapshot
    from sowctl.output_file import refuse_existing

    when = parse_at_option(invocation, arguments.at)
    # Only a file that ends in .sow becomes a store; anything else is records in a format.
    if arguments.output is None or not arguments.output.endswith(".sow"):
        sink = Sink(invocation, replace(arguments.records, path=arguments.output, force=arguments.force))

        def asked(instance: Instance) -> QueryOptions:
            # In the order of updates, so that envelopes can be published again.
            return QueryOptions(filter=arguments.filter, at=when.resolve_time(instance), by_time=arguments.records.meta)

        with (
            invocation.open_instance(arguments.target, fix_names=arguments.fix_names) as instance,
            closing(
                start_query(
                    instance, [resolve_one_target(instance, arguments.target, arguments.message_type)], asked(instance)
                )
            ) as result,
        ):
            written = sink.write(result)
        sink.note_file(written)
        return 0
    # Before the instance is opened: a file that exists is refused at once.
    refuse_existing(Path(arguments.output), force=arguments.force)
    with invocation.open_instance(arguments.target) as instance:
        where = resolve_one_target(instance, arguments.target, arguments.message_type)
        report = write_snapshot(
            instance,
            where,
            when.resolve_time(instance),
            Path(arguments.output),
            filter=arguments.filter,
            force=arguments.force,
        )
    # A store has no format, so the flag --json is about the report.
    summary = "json" if arguments.summary is None and arguments.records.format == "json" else arguments.summary
    show_report(invocation, report, summary)
    return 0
