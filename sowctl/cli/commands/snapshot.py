"""``sowctl snapshot``: write the state of a topic at an earlier time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Struct
from msgspec.structs import replace

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import FixNames, Force, MessageType, OutputChoice, Summary, Target
from sowctl.declarations import DOCUMENT, declare_option, declare_part
from sowctl.engine.options import Filter
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.options import QueryOptions

EXAMPLES = (
    "sowctl snapshot orders --at 2026-01-05T10:00:00Z > ten.ndjson",
    "sowctl snapshot orders \"/symbol = 'IBM'\" --at 10:00 --format csv",
    "sowctl snapshot orders --at -1h --output hour-ago.sow",
    "sowctl snapshot '.*' --at midnight --to midnight",
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
    to: Annotated[
        str | None,
        declare_option(
            "--to",
            help="Write a new store NAME.TYPE.sow into DIR for each topic that TARGET matches, all as of one instant.",
            metavar="DIR",
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

    With --to, each topic that TARGET matches is written to a store of its own, all as of the same instant. In
    their names, / and % are written as %2F and %25. Of several topics, views and other derived topics are left out:
    they follow from the others. Existing files are replaced only with --force; if one topic cannot be read or
    another program uses one of the files, no new file is left and none is replaced. For other formats, see
    sowctl-export(1).
    """
    from contextlib import closing

    from sowctl.cli.io.output_sink import Sink
    from sowctl.cli.io.report_output import show_report
    from sowctl.cli.lookup import apply_unknown, resolve_one_target
    from sowctl.cli.parsing.option_values import parse_at_option
    from sowctl.engine.options import QueryOptions
    from sowctl.engine.verbs.query import start_query
    from sowctl.engine.verbs.snapshot import write_snapshot
    from sowctl.output_file import refuse_existing
    from sowctl.remote.place import require_local_path

    when = parse_at_option(invocation, arguments.at)
    if arguments.to is not None:
        return _write_directory(invocation, arguments, arguments.to)
    # Only a file that ends in .sow becomes a store; any other holds records in a format.
    if arguments.output is None or not arguments.output.endswith(".sow"):
        sink = Sink(invocation, replace(arguments.records, path=arguments.output, force=arguments.force))

        def asked(instance: Instance) -> QueryOptions:
            # In the order of updates, so that envelopes can be published again.
            found = QueryOptions(
                filter=arguments.filter, at=when.resolve_time(instance), by_time=arguments.records.meta
            )
            return apply_unknown(invocation, found, arguments.records.columns, strict=False)

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
    # Before the instance is opened: an existing file is rejected at once.
    output = require_local_path(arguments.output)
    refuse_existing(output, force=arguments.force)
    with invocation.open_instance(arguments.target) as instance:
        where = resolve_one_target(instance, arguments.target, arguments.message_type)
        report = write_snapshot(
            instance,
            where,
            when.resolve_time(instance),
            output,
            filter=arguments.filter,
            force=arguments.force,
        )
    # A store has no format, so the flag --json refers to the report.
    summary = "json" if arguments.summary is None and arguments.records.format == "json" else arguments.summary
    show_report(invocation, report, summary)
    return 0


def _write_directory(invocation: Invocation, arguments: SnapshotArguments, directory: str) -> int:
    """Write a store for each topic. Raises UsageError ``SOW-CLI-012`` for options of a single output."""
    from sowctl.cli.io.report_output import show_reports
    from sowctl.cli.parsing.option_values import parse_at_option
    from sowctl.engine.topics.targets import resolve_targets
    from sowctl.engine.verbs.snapshot import write_snapshots
    from sowctl.remote.place import require_local_path

    as_json = arguments.records.format == "json"
    if (
        arguments.output is not None
        or replace(arguments.records, format=None) != OutputChoice()
        or not (as_json or arguments.records.format is None)
    ):
        raise UsageError(
            "SOW-CLI-012",
            "--to writes stores, so it cannot be combined with --output and options of other formats",
            hint="for other formats, use sowctl export TARGET DIR/ --at WHEN --format FORMAT",
        )
    when = parse_at_option(invocation, arguments.at)
    with invocation.open_instance(arguments.target) as instance:
        targets = resolve_targets(instance, arguments.target, arguments.message_type, derived=True)
        if len(targets) > 1:
            targets = [one for one in targets if one.topic is not None and one.topic.derived is None]
        reports = write_snapshots(
            instance,
            targets,
            when.resolve_time(instance),
            require_local_path(directory),
            filter=arguments.filter,
            force=arguments.force,
        )
    show_reports(invocation, reports, DOCUMENT if as_json and arguments.summary is None else arguments.summary, None)
    return 0
