"""``sowctl journal search``: find entries by metadata and content."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import (
    FixNames,
    JournalOperands,
    OfPublisher,
    OutputChoice,
    Since,
    Strict,
    Summary,
    TopicNames,
    Txids,
    Until,
)
from sowctl.declarations import declare_option, declare_part
from sowctl.engine.options import Filter, SowKeys

EXAMPLES = (
    "sowctl journal search --key 10417",
    "sowctl journal search orders --client order-gateway --since -15m",
    "sowctl journal search --filter \"/status = 'cancelled'\" --no-data --limit 5",
    "sowctl journal search --regex '\"qty\":[0-9]{4}' --count",
)


class JournalSearchArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl journal search``."""

    operands: JournalOperands = None
    topic: TopicNames = None
    key: Annotated[
        list[str] | None,
        declare_option(
            "--key", help="Only entries with this key: the text of the key field, or a publisher's key.", metavar="KEY"
        ),
    ] = None
    sow_keys: SowKeys = None
    client: OfPublisher = None
    operation: Annotated[
        list[str] | None,
        declare_option(
            "--operation", help="Only entries with this operation: publish, delete, ack, ...", metavar="WORD"
        ),
    ] = None
    since: Since = None
    until: Until = None
    txid: Txids = None
    filter: Filter = None
    regex: Annotated[
        str | None,
        declare_option(
            "--regex", help="Only entries whose payload contains a match of this pattern.", metavar="PATTERN"
        ),
    ] = None
    limit: Annotated[
        int | None, declare_option("--limit", "-l", help="Print only the first N entries.", metavar="N", minimum=1)
    ] = None
    count: Annotated[bool, declare_option("--count", help="Print only the number of entries.")] = False
    no_data: Annotated[bool, declare_option("--no-data", help="Omit the payloads.")] = False
    strict: Strict = False
    fix_names: FixNames = False
    summary: Summary = None
    output: Annotated[OutputChoice, declare_part("format", "columns", "no_headers", "path", "force")]


def run(invocation: Invocation, arguments: JournalSearchArguments) -> int:
    """Search the journal for entries without reading all of it.

    All conditions must hold; of repeated keys, topics or operations, any one. Blocks are skipped by their times,
    topics, publishers and keys; payloads are read only if --filter, --regex or the output needs them. The result is
    that of sowctl journal dump with the same conditions.

    A filter is evaluated against each message as it was written. Messages that are invalid for their type match no
    filter; their number is reported. Deletions have no message and match neither --filter nor --regex. The pattern is a
    PCRE2 pattern over the bytes of the payload; start it with (?i) to ignore case. If a filter finds nothing and names
    a field that occurs in no record, a note is printed; with --strict, this is an error.
    """
    from sowctl.cli.io.output_sink import Sink
    from sowctl.cli.io.report_output import show_words
    from sowctl.cli.lookup import apply_unknown, explain_missing_topic, split_journal_operands
    from sowctl.cli.parsing.option_values import parse_position, parse_range
    from sowctl.engine.options import QueryOptions
    from sowctl.engine.search.filter_notes import note_filter
    from sowctl.engine.topics.patterns import has_records
    from sowctl.engine.topics.targets import Target, split_target
    from sowctl.engine.verbs.query import report_unknown_fields
    from sowctl.engine.verbs.upkeep.journal_search import SearchOptions, search_journal
    from sowctl.output.reports import as_dict
    from sowctl.remote.place import parse_place
    from sowctl.values.display import format_count

    topic_names, directory = split_journal_operands(arguments.operands, arguments.topic)
    where = None if directory is None else parse_place(directory)
    txids = parse_range("--txid", arguments.txid)
    opening, closing = parse_position(invocation, arguments.since), parse_position(invocation, arguments.until)
    sink = Sink(
        invocation,
        replace(arguments.output, meta=True),
    )
    with invocation.open_instance(fix_names=arguments.fix_names) as instance:
        begin, end = opening.resolve(instance, directory), closing.resolve(instance, directory)
        options = SearchOptions(
            topic_names=topic_names,
            keys=tuple(arguments.key or ()),
            sow_keys=arguments.sow_keys or (),
            client=arguments.client,
            operations=tuple(arguments.operation or ()),
            from_time=begin.time,
            to_time=end.time,
            from_txid=max((txids[0] if txids else 0), begin.txid or 0) or None,
            to_txid=min((bound for bound in (txids and txids[1], end.txid) if bound is not None), default=None),
            filter=arguments.filter,
            pattern=arguments.regex,
            limit=arguments.limit,
        )
        note_filter(instance, arguments.filter)
        found = search_journal(instance, options, data=not (arguments.no_data or arguments.count), directory=where)
        # The user may have given the text to search for instead of a topic.
        with explain_missing_topic("--regex PATTERN searches for text, --key KEY finds a record"):
            if arguments.count:
                number = sum(len(batch.records) for batch in found)
                invocation.streams.stdout.write(b"%d\n" % number)
            else:
                sink.write(found)
        # Entries may have fields that no present record has, so the note is printed only if no entry matched.
        if arguments.filter is not None and arguments.filter.strip() and not found.report.matched and directory is None:
            names = {split_target(text)[0] for text in topic_names}
            stored = [one for one in instance.topics if one.file is not None and has_records(instance, one)]
            targets = [Target(topic=one) for one in stored if not names or one.name in names]
            if targets:
                fields = QueryOptions(filter=arguments.filter)
                report_unknown_fields(
                    instance, targets, apply_unknown(invocation, fields, None, strict=arguments.strict)
                )
    if found.report.unreadable:
        invocation.warn(f"{format_count(found.report.unreadable, 'invalid message')} cannot match the filter")
    show_words(invocation, found.coverage, as_dict(found.report), arguments.summary)
    return 0
