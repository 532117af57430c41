"""``sowctl query``: the records of topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct
from msgspec.structs import replace

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import (
    Analyze,
    At,
    Count,
    ExitStatus,
    Explain,
    FixNames,
    Follow,
    LiteralTopic,
    MessageType,
    NoIndex,
    OptionText,
    OutputChoice,
    ReadTargets,
    Statistics,
    StreamJson,
    Strict,
    choose_stream_output,
)
from sowctl.declarations import declare_part
from sowctl.engine.options import QueryOptions
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.cli.io.output_sink import Sink
    from sowctl.engine.instance import Instance
    from sowctl.engine.topics.targets import Target as ResolvedTarget

EXAMPLES = (
    "sowctl query orders",
    "sowctl query orders \"/symbol = 'IBM' AND /qty > 500\" -o '/price DESC' -n 3",
    "sowctl query orders --at 2026-01-05T10:00:00Z --format csv --output ten.csv",
    "sowctl query orders customers \"/region = 'EMEA'\"",
    "sowctl query '^orders' --count",
    "sowctl query totals --fresh",
    "sowctl query orders --projection 'SUM(/qty) AS /sum, /symbol' --grouping /symbol",
    "sowctl query orders '/qty > 500' --explain",
)
COMMON_OPTIONS = ("filter", "order_by", "top_n", "at", "columns", "grouping", "projection", "format")


class QueryArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl query``."""

    targets: ReadTargets
    query: Annotated[
        QueryOptions,
        declare_part(
            "filter",
            "order_by",
            "top_n",
            "skip_n",
            "sow_keys",
            "keys",
            "select",
            "projection",
            "grouping",
            "after_key",
            "fresh",
            "batch_size",
            "sort_memory",
            "jobs",
        ),
    ]
    at: At = None
    message_type: MessageType = None
    literal_topic: LiteralTopic = False
    options: OptionText = None
    count: Count = False
    statistics: Statistics = False
    explain: Explain = False
    analyze: Analyze = False
    no_index: NoIndex = False
    strict: Strict = False
    exit_status: ExitStatus = False
    follow: Follow = False
    json: StreamJson = False
    fix_names: FixNames = False
    output: OutputChoice


def run(invocation: Invocation, arguments: QueryArguments) -> int:
    """Print the records of topics, .sow files, or all topics whose names match a pattern.

    The last of several operands is the filter if it has a blank, a slash, a quote, a comparison or a bracket; names
    with such characters are given first or as a pattern, or the filter with --filter.

    Expired records are not printed. Records are ordered by SOW key; with --meta, by time of last update. With
    --after-key (0 for the first page) they are ordered by SOW key even with --meta. For the filter language, see
    sowctl-expressions(7).

    --at prints the state as of a time (UTC if it names no time zone), a bookmark or a txid (a bare number, or txid:N).
    A bookmark or txid is the state after its entry: with all entries of the journal up to this txid, whatever their
    times, and no others. EPOCH or 0 is the oldest available state, 0|1| the current one. Times may be words such as
    today, yesterday, 10:00 or -15m; see INSTANTS in sowctl-messages(7). If a topic has a History, its Granularity makes
    states as of a time coarser: they may lack the changes of up to one Granularity before it.

    The records of a pattern with --meta, as ndjson or json, can be published into another instance: views, conflated
    topics and queues, which follow from other topics, are left out with a note.

    --projection requires --grouping; an empty one, --grouping '', computes one message from all matching records. With
    --follow, the command keeps printing new matching messages; see sowctl subscribe for more options. A note is printed
    for a field that occurs in no record; in large stores, in none of the first 10,000 records.

    If a message has duplicate members, filters, columns and sowctl sql use the first value; ndjson and json print both.
    """
    from contextlib import closing

    from sowctl.cli.lookup import apply_unknown, resolve_read_targets
    from sowctl.cli.parsing.option_values import parse_at_option, refuse_file_order
    from sowctl.engine.topics.targets import select_publishable_targets
    from sowctl.engine.verbs.query import start_query

    if arguments.analyze and not arguments.explain:
        raise UsageError("SOW-CLI-031", "--analyze requires --explain", hint="add --explain")
    names, asked = arguments.targets, arguments.query
    refuse_file_order(asked.order_by)
    output = choose_stream_output(arguments.output, json=arguments.json, follow=arguments.follow)
    asked = replace(
        asked,
        # With metadata, records are ordered by update, unless pages are read by key (behaviour 3.1).
        by_time=output.meta and asked.after_key is None,
        counted=arguments.statistics or bool(arguments.count and output.format),
        index_from=None if arguments.no_index else asked.index_from,
    )
    at, literal = arguments.at, arguments.literal_topic
    if arguments.options is not None:
        asked, at, literal = _apply_option_string(invocation, asked, arguments.options, at, literal)
    when = parse_at_option(invocation, at)
    asked = apply_unknown(invocation, replace(asked, at=when.time), output.columns, strict=arguments.strict)
    if arguments.follow:
        invocation.endless = True
        from sowctl.cli.commands.bodies.subscribe import follow_query

        shaping = (at, arguments.count, arguments.statistics, arguments.explain, arguments.strict)
        is_shaped = any(shaping) or output not in (OutputChoice(), OutputChoice(format="ndjson"))
        return follow_query(invocation, names, arguments.message_type, asked, is_shaped=is_shaped, literal=literal)
    sink = None
    if output.path is not None if arguments.explain else not arguments.count or output != OutputChoice():
        from sowctl.cli.io.output_sink import Sink

        # Created before a store is opened, so that invalid options fail early.
        sink = Sink(invocation, output)
    to_file = sink if sink is not None and sink.path is not None else None
    row_format = output.format
    if to_file is not None and output.format is None and (arguments.count or arguments.explain):
        row_format = to_file.named_format
        asked = replace(asked, counted=arguments.statistics or bool(arguments.count and row_format))
    if arguments.explain:
        if to_file is not None and row_format not in (None, "json", "ndjson"):
            raise UsageError(
                "SOW-OUT-012",
                f"--explain cannot be used with format {row_format}",
                hint="write to a file whose name ends in .txt, .json or .ndjson",
            )
        with invocation.open_instance(*names) as instance:
            targets = resolve_read_targets(instance, names, arguments.message_type, literal=literal)
            asked = replace(asked, at=when.resolve_time(instance))
            return _show_plans(
                invocation,
                instance,
                targets,
                asked,
                analyze=arguments.analyze,
                format=row_format,
                sink=to_file,
                document=arguments.json,
            )
    with invocation.open_instance(*names, fix_names=arguments.fix_names) as instance:
        targets = resolve_read_targets(instance, names, arguments.message_type, literal=literal)
        # Topics that are named individually are all included.
        if len(names) == 1 and sink is not None and not arguments.count and sink.writes_envelopes:
            targets = select_publishable_targets(instance, targets)
        asked = replace(asked, at=when.resolve_time(instance))
        with closing(start_query(instance, targets, asked)) as result:
            if arguments.count or sink is None:
                total = result.count_records()
            else:
                sink.write(result, targets)
                total = sum(numbers.returned for numbers in result.statistics)
                if not total and sink.is_for_person:
                    invocation.note("no record matches" if asked.filter else "no records")
    if arguments.count and row_format is None:
        if to_file is not None:
            to_file.write_text(f"{total}\n")
        else:
            invocation.streams.stdout.write(b"%d\n" % total)
    if arguments.statistics or (arguments.count and row_format is not None):
        from sowctl.cli.io.report_output import show_statistics

        show_statistics(
            invocation,
            result.statistics,
            row_format if arguments.count else None,
            said=arguments.statistics,
            sink=to_file,
        )
    return 1 if arguments.exit_status and not total else 0


def _show_plans(
    invocation: Invocation,
    instance: Instance,
    targets: Sequence[ResolvedTarget],
    options: QueryOptions,
    *,
    analyze: bool,
    format: str | None,
    sink: Sink | None,
    document: bool,
) -> int:
    """Print the plan of each topic: text, or an object per line with the formats json and ndjson.

    ``sink``: the file to write to instead of standard output. ``document``: the objects are elements of one array.
    """
    import json

    from sowctl.engine.verbs.explain import explain_query, format_plan
    from sowctl.engine.verbs.query import start_query
    from sowctl.output.display import escape_lines

    lines: list[str] = []
    for plan in explain_query(lambda: start_query(instance, targets, options), analyze=analyze):
        if format in ("json", "ndjson"):
            line = json.dumps(plan.build_facts(), ensure_ascii=False)
        else:
            line = escape_lines("\n".join(format_plan(plan)))
        if sink is None and not document:
            invocation.streams.stdout.write(line.encode() + b"\n")
        else:
            lines.append(line)
    text = "[" + ",\n".join(lines) + "]\n" if document else "".join(line + "\n" for line in lines)
    if sink is not None:
        sink.write_text(text)
    elif document:
        invocation.streams.stdout.write(text.encode())
    return 0


def _apply_option_string(
    invocation: Invocation, asked: QueryOptions, text: str, at: str | None, literal: bool
) -> tuple[QueryOptions, str | None, bool]:
    """Apply ``--options`` to the query, ``--at`` and ``--literal-topic``; print notes on options without effect.

    Raises UsageError ``SOW-CLI-013`` for two instants, ``SOW-QRY-017``.
    """
    from sowctl.engine.search.optiontext import apply_option_text

    told = apply_option_text(asked, text)
    if told.bookmark is not None and at is not None:
        raise UsageError("SOW-CLI-013", "the past is asked for twice", hint="give --at or the option bookmark")
    for note in told.notes:
        invocation.note(note)
    return told.options, told.bookmark or at, told.literal or literal
