"""``sowctl blame``: who set which field of a record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import Argument, option
from sowctl.cli.words.options import At, Columns, FixNames, Force, Format, MessageType, NoHeaders, Output, Target
from sowctl.output.display import display
from sowctl.values.times import format_time

if TYPE_CHECKING:
    from sowctl.engine.verbs.looking.blame import Blame

EXAMPLES = (
    "sowctl blame orders 10417",
    "sowctl blame customers C0042 --at 2026-01-05T10:00:00Z --format csv",
)


def run(
    invocation: Invocation,
    target: Target,
    keys: Annotated[list[str], Argument("KEY", "SOW keys, or comma-separated values of the key fields.")],
    fields: Annotated[
        bool, option("--fields", help="Treat every KEY as key-field values, never as a SOW key.")
    ] = False,
    at: At = None,
    message_type: MessageType = None,
    format: Format = None,
    columns: Columns = None,
    fix_names: FixNames = False,
    no_headers: NoHeaders = False,
    output: Output = None,
    force: Force = False,
) -> int:
    """Print the entry that last changed each field of a record: its time, txid and publisher.

    Each leaf field is a row; items of an array of objects are separate rows, other arrays are one value. An entry that
    repeats a value does not count as a change. A delta counts as the message that results from the merge. A deletion or
    an expiration starts over. The information comes from the journal; for topics without a journal, from the retained
    versions, which have no publishers. If earlier entries or versions are no longer available, earlier is true: the
    value may be older. A record with more than 500,000 members and objects is refused. The exit status is 1 if a key
    has no record.
    """
    from sowctl.cli.io.emit import MAX_ROWS_TOGETHER, Choice, Sink
    from sowctl.cli.lookup import one
    from sowctl.cli.words.when import moment
    from sowctl.engine.verbs.looking.blame import blame

    sink = Sink(
        invocation, Choice(format, columns=columns, output=output, force=force, no_headers=no_headers, facts=True)
    )
    when = moment(invocation, at)
    with invocation.open_instance(target, fix_names=fix_names) as instance:
        found = blame(instance, one(instance, target, message_type), keys, fields=fields, at=when.of(instance))
    brief = sink.format == "table" and columns is None
    rows = (row for record in found for row in _rows(record, brief=brief, several=len(found) > 1))
    sink.write_rows(rows, together=MAX_ROWS_TOGETHER)
    for record in found:
        _note_missing(invocation, target, record)
    return 1 if any(not record.fields for record in found) else 0


def _rows(record: Blame, *, brief: bool, several: bool) -> Iterator[bytes]:
    """Rows as JSON, whose numbers have their own digits; ``brief``: what fits a line, for people."""
    from sowctl.output.members import dump
    from sowctl.values.differences import path_text

    named = any(origin.version.client is not None for origin in record.fields)
    doubtful = any(origin.earlier for origin in record.fields)
    front = dump({"key": record.text})[:-1] + "," if several or not brief else "{"
    # Many fields have one origin: its facts are written once, and not again for each field.
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
            end = ends[mark] = dump(facts)[1:]
        row = f'{front}"field":{dump(path_text(origin.path))},"value":{dump(origin.value)},{end}'
        yield row.encode("utf-8", "surrogatepass")


def _note_missing(invocation: Invocation, target: str, record: Blame) -> None:
    if record.fields:
        return
    last = record.last
    place = f"{display(target)}: "
    if last is None:
        invocation.note(f"{place}key {display(record.text)} is unknown")
        return
    by = f" by {display(last.client)}" if last.client is not None else ""
    if record.gone == "expired":
        invocation.note(f"{place}{display(record.text)} expired at {format_time(last.expiration)}")
    elif record.gone is not None:
        when = f"at {format_time(last.timestamp)}, txid {last.txid}{by}"
        invocation.note(f"{place}{display(record.text)} was deleted {when}")
