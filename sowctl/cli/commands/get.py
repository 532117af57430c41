"""``sowctl get``: single records by key."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import At, FixNames, KeyOperands, KeysFrom, MessageType, OutputChoice, Target
from sowctl.declarations import declare_option
from sowctl.output.display import escape_line

EXAMPLES = (
    "sowctl get orders 10417",
    "sowctl get orders 10417 10418 --meta",
    "tail -n +2 fills.csv | cut -d, -f1 | sowctl get orders --keys-from -",
    "sowctl get quotes IBM --at -15m",
)
COMMON_OPTIONS = ("at", "fields", "format", "columns", "meta", "message_type", "path")


class GetArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl get``."""

    target: Target
    keys: KeyOperands = None
    keys_from: KeysFrom = None
    fields: Annotated[
        bool, declare_option("--fields", help="Treat every KEY as key-field values, never as a SOW key.")
    ] = False
    at: At = None
    message_type: MessageType = None
    fix_names: FixNames = False
    output: OutputChoice


def run(invocation: Invocation, arguments: GetArguments) -> int:
    """Print records by SOW key or by the values of their key fields, in the order of the KEYs.

    Each KEY is looked up as a SOW key first, then as the values of the key fields. Several key fields are separated by
    commas. --keys-from reads any number of keys from a file; all records are from one state. The exit status is 1 if a
    key has no record; the other records are printed.

    --at prints the record as of a time. If the topic has a History, the record may lack the changes of up to one
    Granularity before that time.
    """
    from sowctl.cli.io.key_operands import MissingKeyNotes, read_keys
    from sowctl.cli.io.output_sink import Sink
    from sowctl.cli.lookup import resolve_one_target
    from sowctl.cli.parsing.option_values import parse_at_option
    from sowctl.engine.verbs.get import get_records, iterate_key_records

    when = parse_at_option(invocation, arguments.at)
    sink = Sink(invocation, arguments.output)
    keys = read_keys(invocation, arguments.keys or (), arguments.keys_from)
    missing = MissingKeyNotes(
        invocation, lambda key: f"{escape_line(arguments.target)}: no record with key {escape_line(key)}"
    )
    with invocation.open_instance(arguments.target, fix_names=arguments.fix_names) as instance:
        where = resolve_one_target(instance, arguments.target, arguments.message_type)
        at = when.resolve_time(instance)
        if arguments.keys_from is None:
            batch, absent = get_records(instance, where, list(keys), fields=arguments.fields, at=at)
            sink.write_single_batch(batch)
            for key in absent:
                missing.note(key)
        else:
            sink.write(
                iterate_key_records(instance, where, keys, fields=arguments.fields, at=at, note_missing=missing.note)
            )
        # A view is not computed again for this check.
        if arguments.output.columns is not None and (where.topic is None or where.topic.derived is None):
            from sowctl.cli.lookup import apply_unknown
            from sowctl.engine.options import QueryOptions
            from sowctl.engine.verbs.query import report_unknown_fields

            named = QueryOptions(at=at)
            report_unknown_fields(
                instance, [where], apply_unknown(invocation, named, arguments.output.columns, strict=False)
            )
    status = missing.finish()
    if status and where.topic is not None and where.topic.key_generator is not None:
        invocation.note(
            f"SOW keys of {escape_line(arguments.target)} come from a key generator; query --meta prints them"
        )
    return status
