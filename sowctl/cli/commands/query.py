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

    from sowctl.cli.emit import Choice, Sink
    from sowctl.cli.reporting import show_statistics
    from sowctl.cli.when import instant, size
    from sowctl.engine.options import QueryOptions
    from sowctl.engine.query import query
    from sowctl.engine.targets import resolve

    if filter is not None and expression is not None:
        raise UsageError("SOW-CLI-013", "the filter is given twice", hint="give FILTER or --filter, not both")
    choice = Choice(format, meta, columns, delimiter, null, length_prefix, template, output, force)
    sink = Sink(invocation, choice)
    options = QueryOptions(
        filter=filter if filter is not None else expression,
        order_by=order_by,
        top_n=top_n,
        skip_n=skip_n,
        sow_keys=tuple(sow_key) if sow_key else None,
        at=instant(invocation, at),
        select=select,
        batch_size=batch_size,
        sort_memory=size("--sort-memory", sort_memory) or 0,
        by_time=meta,
    )
    with (
        invocation.open_instance(target, fix_names=fix_names) as instance,
        closing(query(instance, resolve(instance, target, message_type, literal=literal_topic), options)) as result,
    ):
        if count:
            total = sum(len(batch.records) for batch in result)
            invocation.streams.stdout.write(b"%d\n" % total)
        else:
            sink.write(result)
    if statistics:
        show_statistics(invocation, result.statistics)
    return 0
