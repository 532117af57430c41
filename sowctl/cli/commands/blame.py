"""``sowctl blame``: the publisher of each field of a record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import At, FixNames, MessageType, OutputChoice, Target
from sowctl.declarations import Argument, declare_option, declare_part
from sowctl.output.display import escape_line
from sowctl.values.times import format_time

if TYPE_CHECKING:
    from sowctl.engine.verbs.inspect.blame import Blame

EXAMPLES = (
    "sowctl blame orders 10417",
    "sowctl blame customers C0042 --at 2026-01-05T10:00:00Z --format csv",
)


class BlameArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl blame``."""

    target: Target
    keys: Annotated[list[str], Argument("KEY", "SOW keys, or comma-separated values of the key fields.")]
    fields: Annotated[
        bool, declare_option("--fields", help="Treat every KEY as key-field values, never as a SOW key.")
    ] = False
    at: At = None
    message_type: MessageType = None
    fix_names: FixNames = False
    output: Annotated[OutputChoice, declare_part("format", "columns", "no_headers", "path", "force")]


def run(invocation: Invocation, arguments: BlameArguments) -> int:
    """Print the entry that last changed each field of a record: its time, txid and publisher.

    Each leaf field is a row; items of an array of objects are separate rows, other arrays are one value. An entry that
    repeats a value does not count as a change. A delta counts as the message that results from the merge. A deletion or
    an expiration starts over. The information comes from the journal; for topics without a journal, from the retained
    versions, which have no publishers. If earlier entries or versions are no longer available, earlier is true: the
    value may be older. A record with more than 500,000 members and objects is refused. The exit status is 1 if a key
    has no record.
    """
    from sowctl.cli.io.output_sink import MAX_ROWS_TOGETHER, Sink
    from sowctl.cli.lookup import resolve_one_target
    from sowctl.cli.parsing.option_values import parse_at_option
    from sowctl.engine.verbs.inspect.blame import find_origins

    sink = Sink(
        invocation,
        arguments.output,
        facts=True,
    )
    when = parse_at_option(invocation, arguments.at)
    with invocation.open_instance(arguments.target, fix_names=arguments.fix_names) as instance:
        found = find_origins(
            instance,
            resolve_one_target(instance, arguments.target, arguments.message_type),
            arguments.keys,
            fields=arguments.fields,
            at=when.resolve_time(instance),
        )
    brief = sink.format == "table" and arguments.output.columns is None
    rows = (row for record in found for row in _build_rows(record, brief=brief, several=len(found) > 1))
    sink.write_rows(rows, together=MAX_ROWS_TOGETHER)
    for record in found:
        _note_missing(invocation, arguments.target, record)
    return 1 if any(not record.fields for record in found) else 0


def _build_rows(record: Blame, *, brief: bool, several: bool) -> Iterator[bytes]:
    """Rows as JSON, which preserves the digits of numbers; ``brief``: the columns that fit a line, for people."""
    from sowctl.output.members import dump_json
    from sowctl.values.differences import format_path

    named = any(origin.version.client is not None for origin in record.fields)
    doubtful = any(origin.earlier for origin in record.fields)
    front = dump_json({"key": record.text})[:-1] + "," if several or not brief else "{"
    # Many fields have the same origin: its facts are encoded once.
    ends: dict[tuple[int, bool], str] = {}
    for origin in record.fields:
        mark = id(origin.version), origin.earlier
        end = ends.get(mark)
        if end is None:
            version = origin.version
            facts: dict[str, Any] = {"timestamp": format_time(version.timestamp), "txid": version.txid}
            if named or not brief:
                facts["client"] = version.client
            if not brief:
                facts |= {"sow_key": str(version.sow_key), "bookmark": version.bookmark}
                facts |= {"correlation_id": version.correlation_id}
            if doubtful or not brief:
                facts["earlier"] = origin.earlier
            end = ends[mark] = dump_json(facts)[1:]
        row = f'{front}"field":{dump_json(format_path(origin.path))},"value":{dump_json(origin.value)},{end}'
        yield row.encode("utf-8", "surrogatepass")


def _note_missing(invocation: Invocation, target: str, record: Blame) -> None:
    if record.fields:
        return
    last = record.last
    place = f"{escape_line(target)}: "
    if last is None:
        invocation.note(f"{place}key {escape_line(record.text)} is unknown")
        return
    by = f" by {escape_line(last.client)}" if last.client is not None else ""
    if record.gone == "expired":
        invocation.note(f"{place}{escape_line(record.text)} expired at {format_time(last.expiration)}")
    elif record.gone is not None:
        when = f"at {format_time(last.timestamp)}, txid {last.txid}{by}"
        invocation.note(f"{place}{escape_line(record.text)} was deleted {when}")
