"""``sowctl journal dump``: print journal entries."""

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
    TopicNames,
    Txids,
    Until,
)
from sowctl.declarations import declare_option, declare_part

EXAMPLES = (
    "sowctl journal dump orders --since -15m",
    "sowctl journal dump --sow-key 12915563182432364013",
    "sowctl journal dump -l 1000:1010 --no-data",
)


class JournalDumpArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl journal dump``."""

    operands: JournalOperands = None
    topic: TopicNames = None
    sow_keys: Annotated[
        tuple[str, ...] | None,
        declare_option(
            "--sow-key",
            help="Only entries with this SOW key, or a comma-separated list of keys. May be repeated.",
            metavar="KEY",
            unit="keys",
            old_names=("--key",),
        ),
    ] = None
    client: OfPublisher = None
    since: Since = None
    until: Until = None
    txid: Txids = None
    limit: Annotated[
        str | None,
        declare_option(
            "--limit", "-l", help="Print the first M entries, or entries N to M, counted from 1.", metavar="N:M"
        ),
    ] = None
    no_data: Annotated[bool, declare_option("--no-data", help="Omit the payloads.")] = False
    fix_names: FixNames = False
    output: Annotated[OutputChoice, declare_part("format", "columns", "no_headers", "path", "force")]


def run(invocation: Invocation, arguments: JournalDumpArguments) -> int:
    """Print journal entries in the order in which they were written, as envelopes.

    The command ends at the position that is the end of the journal when it starts, even if others keep writing. Every
    entry has a bookmark: that of its publisher, or otherwise that of the instance with the txid of the entry. --at,
    --since and --until accept both. A queue acknowledgement has the bookmark of its message as message_bookmark. The
    output is valid input for publish --framing envelope, except for queue entries. A torn end of the journal is skipped
    and reported; if acknowledged entries are missing there, the command exits with status 5 after the last readable
    entry.
    """
    from sowctl.cli.lookup import explain_missing_topic, split_journal_operands
    from sowctl.cli.parsing.option_values import parse_position, parse_range

    txids, entries = parse_range("--txid", arguments.txid), parse_range("--limit", arguments.limit, only="last")
    from sowctl.cli.io.output_sink import Sink
    from sowctl.cli.io.rows import skip_entries
    from sowctl.engine.verbs.journal import EntryFilter, dump_entries, parse_entry_keys
    from sowctl.remote.place import parse_place

    opening, closing = parse_position(invocation, arguments.since), parse_position(invocation, arguments.until)
    sink = Sink(
        invocation,
        replace(arguments.output, meta=True),
    )
    topic_names, directory = split_journal_operands(arguments.operands, arguments.topic)
    where = None if directory is None else parse_place(directory)
    with invocation.open_instance(fix_names=arguments.fix_names) as instance:
        begin, end = opening.resolve(instance, directory), closing.resolve(instance, directory)
        wanted = EntryFilter(
            topic_names=topic_names,
            keys=parse_entry_keys(instance, arguments.sow_keys, topic_names) if arguments.sow_keys else None,
            client=arguments.client,
            from_time=begin.time,
            to_time=end.time,
            from_txid=max((txids[0] if txids else 0), begin.txid or 0) or None,
            to_txid=min((bound for bound in (txids and txids[1], end.txid) if bound is not None), default=None),
            limit=entries[1] if entries else None,
        )
        batches = dump_entries(instance, wanted, data=not arguments.no_data, directory=where)
        with explain_missing_topic():
            sink.write(skip_entries(batches, skip=entries[0] - 1 if entries else 0))
    return 0
