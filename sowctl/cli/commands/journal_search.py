"""``sowctl journal search``: entries by what they are and what they say."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words import queryoptions as asking
from sowctl.cli.words.declare import option
from sowctl.cli.words.options import (
    Columns,
    Filter,
    FixNames,
    Force,
    Format,
    JournalPlace,
    NoHeaders,
    Output,
    SowKeys,
    Summary,
)

EXAMPLES = (
    "sowctl journal search --key 10417",
    "sowctl journal search --topic orders --client order-gateway --since -15m",
    "sowctl journal search --filter \"/status = 'cancelled'\" --no-data --limit 5",
    "sowctl journal search --regex '\"qty\":[0-9]{4}' --count",
)


def run(
    invocation: Invocation,
    directory: JournalPlace = None,
    topic: Annotated[
        list[str] | None, option("--topic", help="only entries of this topic; may be repeated", metavar="NAME")
    ] = None,
    key: Annotated[
        list[str] | None,
        option("--key", help="only this key: the text of the key field, or a publisher's key", metavar="KEY"),
    ] = None,
    sow_key: SowKeys = None,
    client: Annotated[str | None, option("--client", help="only entries of this publisher", metavar="NAME")] = None,
    operation: Annotated[
        list[str] | None, option("--operation", help="only this: publish, delete, ack, ...", metavar="WORD")
    ] = None,
    since: Annotated[str | None, option("--since", help="begin at this time, txid or bookmark", metavar="WHEN")] = None,
    until: Annotated[str | None, option("--until", help="end at this time, txid or bookmark", metavar="WHEN")] = None,
    txid: Annotated[str | None, option("--txid", help="only these txids: N or N:M", metavar="RANGE")] = None,
    filter: Filter = None,
    regex: Annotated[
        str | None, option("--regex", help="only payloads in which this pattern is found", metavar="PATTERN")
    ] = None,
    limit: Annotated[int | None, option("--limit", "-l", help="the first N entries", metavar="N", minimum=1)] = None,
    count: Annotated[bool, option("--count", help="print how many there are instead")] = False,
    no_data: Annotated[bool, option("--no-data", help="leave out the payloads")] = False,
    strict: asking.Strict = False,
    format: Format = None,
    columns: Columns = None,
    no_headers: NoHeaders = False,
    fix_names: FixNames = False,
    output: Output = None,
    force: Force = False,
    summary: Summary = None,
) -> int:
    """Find entries of the journal without reading all of it.

    Everything that is given has to hold; of keys, topics and operations that are repeated any one. Blocks of entries
    are passed over by their times, their lists of topics and publishers, and their keys; payloads are read only where
    --filter, --regex or the output need them. The answer is that of sowctl journal dump with the same conditions.

    A filter sees each message by itself, as it was written. What cannot be read as a message of its type matches no
    filter; how many there were is said. Deletions have no message, so neither --filter nor --regex finds them. The
    pattern is one of PCRE2 over the bytes of the payload; (?i) in front makes it blind to case. Where a filter finds
    nothing and no record has a field of it, either, that is said; --strict makes it an error.
    """
    from pathlib import Path

    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.cli.io.reporting import show_words
    from sowctl.cli.words.when import numbers, position, sow_keys
    from sowctl.engine.options import QueryOptions
    from sowctl.engine.topics.patterns import has_records
    from sowctl.engine.topics.targets import Target, split_target
    from sowctl.engine.verbs.query import tell_unknown
    from sowctl.engine.verbs.upkeep.journal_search import SearchOptions, search
    from sowctl.errors import MissingError
    from sowctl.output.reports import as_dict
    from sowctl.remote.place import place_of

    where = None if directory is None else place_of(directory)
    if isinstance(where, Path) and not where.is_dir():
        raise MissingError(
            "SOW-JRN-001",
            f"{directory} is no directory, so that no journal is in it",
            place=directory,
            hint="--regex PATTERN finds words in messages, --filter EXPR values of their fields, --key KEY a record",
        )
    txids = numbers("--txid", txid)
    opening, closing = position(invocation, since), position(invocation, until)
    sink = Sink(
        invocation, Choice(format, meta=True, columns=columns, output=output, force=force, no_headers=no_headers)
    )
    with invocation.open_instance(fix_names=fix_names) as instance:
        begin, end = opening.found(instance, directory), closing.found(instance, directory)
        options = SearchOptions(
            topics=tuple(topic or ()),
            keys=tuple(key or ()),
            sow_keys=sow_keys(sow_key),
            client=client,
            operations=tuple(operation or ()),
            from_time=begin.time,
            to_time=end.time,
            from_txid=max((txids[0] if txids else 0), begin.txid or 0) or None,
            to_txid=min((bound for bound in (txids and txids[1], end.txid) if bound is not None), default=None),
            filter=filter,
            pattern=regex,
            limit=limit,
        )
        found = search(instance, options, data=not (no_data or count), directory=where)
        if count:
            number = sum(len(batch.records) for batch in found)
            invocation.streams.stdout.write(b"%d\n" % number)
        else:
            sink.write(found)
        # Entries may have fields that no record has any more, so it is told only where none was found.
        if filter is not None and filter.strip() and not found.report.matched and directory is None:
            names = {split_target(text)[0] for text in topic or ()}
            stored = [one for one in instance.topics if one.file is not None and has_records(instance, one)]
            targets = [Target(topic=one) for one in stored if not names or one.name in names]
            if targets:
                fields = QueryOptions(filter=filter)
                tell_unknown(instance, targets, asking.with_unknown(invocation, fields, None, strict=strict))
    if found.report.unreadable:
        invocation.warn(f"{found.report.unreadable:,} messages cannot be read, so that no filter is true of them")
    show_words(invocation, found.coverage, as_dict(found.report), summary)
    return 0
