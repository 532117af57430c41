"""``sowctl delete``: delete records."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import MessageType, Numbers, ReadTargets, Regex, Strict, Summary, Yes
from sowctl.declarations import declare_option, declare_part
from sowctl.engine.options import DeleteOptions, QueryOptions
from sowctl.errors import UsageError
from sowctl.output.display import escape_line

EXAMPLES = (
    "sowctl delete orders --filter \"/status = 'cancelled'\" --dry-run",
    "sowctl delete orders --sow-key 12915563182432364013 --yes",
    "sowctl delete orders --data done.ndjson --yes",
    "sowctl delete --regex '^(orders|quotes)$' --filter '1 = 1' --dry-run --format json",
)


class DeleteArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl delete``."""

    targets: ReadTargets
    delete: Annotated[DeleteOptions, declare_part("filter", "keys", "sow_keys", "dry_run")]
    data: Annotated[
        str | None,
        declare_option(
            "--data",
            help="Delete the records with the keys of the messages in this file; - reads standard input.",
            metavar="FILE",
        ),
    ] = None
    regex: Regex = False
    message_type: MessageType = None
    yes: Yes = False
    strict: Strict = False
    summary: Summary = None
    format: Numbers = None


def run(invocation: Invocation, arguments: DeleteArguments) -> int:
    """Delete the records selected by a filter, by keys or by --data. Exactly one of them is required.

    The deletions are written to the journal in one group: all of them or none. On a terminal, the command shows the
    number of records and asks for confirmation; otherwise --yes is required. If a field of the filter occurs in no
    record (in large stores: in none of the first 10,000), a note is printed before anything is deleted; with --strict,
    nothing is deleted.

    The report has the number of records examined, matched and deleted for each topic; for several topics, as with
    --regex, also the total. A regular expression selects the logical topics of a Pattern topic whose names match, or
    all of them if it matches the Name of the Pattern topic.
    """
    wanted, dry_run = arguments.delete, arguments.delete.dry_run
    keys = wanted.sow_keys if wanted.sow_keys is not None else wanted.keys
    if sum(given is not None for given in (wanted.filter, keys, arguments.data)) != 1:
        raise UsageError(
            "SOW-CLI-014",
            "give exactly one of --filter, --key (or --sow-key) and --data",
            hint="to select all records, use --filter '1 = 1'",
        )
    from sowctl.cli.io.report_output import check_report_options, show_reports
    from sowctl.cli.io.sources import find_framing, find_kind, read_messages
    from sowctl.cli.lookup import apply_unknown, resolve_all_named_targets
    from sowctl.engine.verbs.delete import delete_records
    from sowctl.engine.verbs.query import report_unknown_fields

    check_report_options(arguments.summary, arguments.format)
    # Checked before anything is opened: without a way to confirm, the command ends immediately.
    ask = not dry_run and invocation.streams.must_confirm(yes=arguments.yes)
    messages: tuple[bytes, ...] | None = None

    def options(dry: bool) -> DeleteOptions:
        return replace(wanted, data=messages, dry_run=dry)

    with invocation.open_instance() as instance:
        targets = resolve_all_named_targets(instance, arguments.targets, arguments.message_type, regex=arguments.regex)
        if arguments.data is not None:
            messages = read_messages(
                invocation,
                arguments.data,
                find_framing(instance, arguments.targets[0], arguments.message_type),
                find_kind(instance, arguments.targets[0], arguments.message_type),
            )
        if wanted.filter is not None and wanted.filter.strip():
            named = apply_unknown(invocation, QueryOptions(filter=wanted.filter), None, strict=arguments.strict)
            report_unknown_fields(instance, targets, named)
        if ask:
            # The count is only for the question; the deletion matches again.
            plans = delete_records(instance, targets, options(True))
            counts = ", ".join(f"{plan.matched:,} of {escape_line(plan.topic)}" for plan in plans if plan.matched)
            if counts:
                invocation.streams.confirm(f"delete these records: {counts}")
            else:
                # Nothing to confirm. Records that match later must not be deleted without confirmation.
                invocation.note("no record matches: nothing was deleted")
                dry_run = True
        reports = delete_records(instance, targets, options(dry_run))
    show_reports(invocation, reports, arguments.summary, arguments.format)
    return 0
