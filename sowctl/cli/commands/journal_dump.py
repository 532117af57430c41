"""``sowctl journal dump``: what the log says."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import FixNames, JournalPlace, OfPublisher, OutputChoice, Txids
from sowctl.declarations import declare_option, declare_part
from sowctl.errors import UsageError

EXAMPLES = (
    "sowctl journal dump --topic orders --from -15m",
    "sowctl journal dump --key 12915563182432364013",
    "sowctl journal dump -l 1000:1010 --no-data",
)


class JournalDumpArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl journal dump``."""

    directory: JournalPlace = None
    topic: Annotated[str | None, declare_option("--topic", help="Only entries of this topic.", metavar="NAME")] = None
    keys: Annotated[
        list[str] | None,
        declare_option("--key", help="Only entries with this SOW key. May be repeated.", metavar="KEY"),
    ] = None
    client: OfPublisher = None
    first: Annotated[
        str | None, declare_option("--from", help="Start at this time, txid or bookmark.", metavar="WHEN")
    ] = None
    last: Annotated[str | None, declare_option("--to", help="End at this time, txid or bookmark.", metavar="WHEN")] = (
        None
    )
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
    --from and --to accept both. A queue acknowledgement has the bookmark of its message as message_bookmark. The output
    is valid input for publish --framing envelope, except for queue entries. A torn end of the journal is skipped and
    reported; if acknowledged entries are missing there, the command exits with status 5 after the last readable entry.
    """
    from sowctl.cli.parsing.option_values import parse_position, parse_range

    txids, entries = parse_range("--txid", arguments.txid), parse_range("--limit", arguments.limit, only="last")
    from sowctl.cli.io.output_sink import Sink
    from sowctl.cli.io.rows import skip_entries
    from sowctl.engine.topics.targets import split_target
    from sowctl.engine.verbs.journal import EntryFilter, dump_entries
    from sowctl.remote.place import parse_place

    opening, closing = parse_position(invocation, arguments.first), parse_position(invocation, arguments.last)
    sink = Sink(
        invocation,
        replace(arguments.output, meta=True),
    )
    name, message_type = split_target(arguments.topic) if arguments.topic is not None else (None, None)
    where = None if arguments.directory is None else parse_place(arguments.directory)
    with invocation.open_instance(fix_names=arguments.fix_names) as instance:
        begin, end = opening.resolve(instance, arguments.directory), closing.resolve(instance, arguments.directory)
        wanted = EntryFilter(
            topic=name,
            message_type=message_type,
            keys=frozenset(map(_parse_key, arguments.keys)) if arguments.keys else None,
            client=arguments.client,
            from_time=begin.time,
            to_time=end.time,
            from_txid=max((txids[0] if txids else 0), begin.txid or 0) or None,
            to_txid=min((bound for bound in (txids and txids[1], end.txid) if bound is not None), default=None),
            limit=entries[1] if entries else None,
        )
        batches = dump_entries(instance, wanted, data=not arguments.no_data, directory=where)
        sink.write(skip_entries(batches, skip=entries[0] - 1 if entries else 0))
    return 0


def _parse_key(text: str) -> int:
    from sowctl.identity.keys import parse_sow_key

    key = parse_sow_key(text)
    if key is None:
        raise UsageError(
            "SOW-CLI-025", f"--key {text!r} is not a SOW key", hint="sowctl query TOPIC --meta shows SOW keys"
        )
    return int.from_bytes(key, "big")
