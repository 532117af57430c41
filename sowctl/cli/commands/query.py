"""``sowctl query``: the records of topics."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.declare import Argument, option
from sowctl.cli.options import (
    At,
    Columns,
    Delimiter,
    Filter,
    FixNames,
    Force,
    Format,
    Lengths,
    LiteralTopic,
    MessageType,
    Meta,
    Null,
    Output,
    SowKeys,
    Target,
    Template,
)
from sowctl.errors import UsageError

EXAMPLES = (
    "sowctl query orders",
    "sowctl query orders \"/symbol = 'IBM' AND /qty > 500\" -o '/price DESC' -n 3",
    "sowctl query orders --at 2026-01-05T10:00:00Z --format csv --output ten.csv",
    "sowctl query '^orders' --count",
    "sowctl query orders --projection 'SUM(/qty) AS /sum, /symbol' --grouping /symbol",
    "sowctl query orders '/qty > 500' --explain",
)


def run(
    invocation: Invocation,
    target: Target,
    expression: Annotated[str | None, Argument("FILTER", "same as --filter")] = None,
    filter: Filter = None,
    order_by: Annotated[
        str | None, option("--order-by", "-o", help="such as '/price DESC, /id'; default key order", metavar="LIST")
    ] = None,
    top_n: Annotated[
        int | None, option("--top-n", "-n", help="at most so many records", metavar="COUNT", minimum=0)
    ] = None,
    skip_n: Annotated[
        int | None, option("--skip-n", help="leave out so many first", metavar="COUNT", minimum=0)
    ] = None,
    sow_key: SowKeys = None,
    at: At = None,
    select: Annotated[
        str | None, option("--select", help="fields to print, such as '-/,+/id,+/price'", metavar="LIST")
    ] = None,
    message_type: MessageType = None,
    literal_topic: LiteralTopic = False,
    count: Annotated[bool, option("--count", help="print only how many records there are")] = False,
    statistics: Annotated[
        bool, option("--statistics", help="say how many records were examined, matched and returned")
    ] = False,
    batch_size: Annotated[
        int,
        option("--batch-size", help="records read at a time", metavar="COUNT", minimum=1, maximum=10_000),
    ] = 1_000,
    sort_memory: Annotated[
        str, option("--sort-memory", help="memory for sorting before files are used", metavar="SIZE")
    ] = "64MB",
    projection: Annotated[
        str | None,
        option("--projection", help="fields of one message per group, such as 'SUM(/qty) AS /sum'", metavar="LIST"),
    ] = None,
    grouping: Annotated[
        str | None, option("--grouping", help="fields that make a group, such as '/region'", metavar="LIST")
    ] = None,
    after_key: Annotated[
        str | None, option("--after-key", help="go on after this SOW key, in key order", metavar="KEY")
    ] = None,
    options: Annotated[
        str | None, option("--options", help="option text, such as 'top_n=10,select=[-/,+/id]'", metavar="TEXT")
    ] = None,
    explain: Annotated[bool, option("--explain", help="print how the records would be found")] = False,
    analyze: Annotated[
        bool, option("--analyze", help="with --explain, run the query and print counts and time, too")
    ] = False,
    no_index: Annotated[bool, option("--no-index", help="use and build no memo indexes")] = False,
    jobs: Annotated[
        int | None, option("--jobs", "-j", help="processes that may read a large store", metavar="COUNT", minimum=1)
    ] = None,
    exit_status: Annotated[bool, option("--exit-status", help="end with status 1 if nothing is found")] = False,
    format: Format = None,
    meta: Meta = False,
    columns: Columns = None,
    fix_names: FixNames = False,
    delimiter: Delimiter = None,
    null: Null = False,
    length_prefix: Lengths = False,
    template: Template = None,
    output: Output = None,
    force: Force = False,
) -> int:
    """Print the records of a topic, a .sow file, or all topics whose names match a pattern.

    A record whose lifetime is over at the clock is not printed. The filter language is described in
    sowctl-expressions(7).
    """
    from contextlib import closing
    from dataclasses import replace

    from sowctl.cli.emit import Choice, Sink
    from sowctl.cli.reporting import show_statistics
    from sowctl.cli.when import instant, size
    from sowctl.engine.options import QueryOptions
    from sowctl.engine.optiontext import with_option_text
    from sowctl.engine.query import query
    from sowctl.engine.targets import resolve

    if filter is not None and expression is not None:
        raise UsageError("SOW-CLI-013", "the filter is given twice", hint="give FILTER or --filter, not both")
    if analyze and not explain:
        raise UsageError("SOW-CLI-031", "--analyze goes with --explain", hint="add --explain")
    asked = QueryOptions(
        filter=filter if filter is not None else expression,
        order_by=order_by,
        top_n=top_n,
        skip_n=skip_n,
        sow_keys=tuple(sow_key) if sow_key else None,
        at=instant(invocation, at),
        select=select,
        batch_size=batch_size,
        sort_memory=size("--sort-memory", sort_memory) or 0,
        by_time=meta and after_key is None,
        projection=projection,
        grouping=grouping,
        after_key=after_key,
        jobs=jobs,
    )
    if no_index:
        asked = replace(asked, index_from=None)
    if options is not None:
        asked = with_option_text(asked, options)
    if explain:
        from sowctl.cli.planning import show_plans

        with invocation.open_instance(target) as instance:
            targets = resolve(instance, target, message_type, literal=literal_topic)
            return show_plans(invocation, instance, targets, asked, analyze=analyze, format=format)
    sink = Sink(invocation, Choice(format, meta, columns, delimiter, null, length_prefix, template, output, force))
    with (
        invocation.open_instance(target, fix_names=fix_names) as instance,
        closing(query(instance, resolve(instance, target, message_type, literal=literal_topic), asked)) as result,
    ):
        if count:
            total = result.count()
            invocation.streams.stdout.write(b"%d\n" % total)
        else:
            sink.write(result)
            total = sum(numbers.returned for numbers in result.statistics)
    if statistics:
        show_statistics(invocation, result.statistics)
    return 1 if exit_status and not total else 0
