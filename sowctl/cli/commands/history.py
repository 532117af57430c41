"""``sowctl history``: the versions of records."""

from __future__ import annotations

from itertools import chain
from typing import Annotated

from msgspec import Struct

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import FixNames, KeyOperands, KeysFrom, MessageType, OutputChoice, Target
from sowctl.declarations import declare_option
from sowctl.errors import UsageError
from sowctl.output.display import escape_line
from sowctl.output.options import TableFit

_TABLE_FIT = TableFit(spare=("sow_key", "until"), repeated=True)
EXAMPLES = (
    "sowctl history customers C0042",
    "sowctl history orders 10417 --journal",
    "sowctl history orders 10417 10418 --journal --meta",
    "sowctl history orders 10417 --journal --diff",
)


class HistoryArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl history``."""

    target: Target
    keys: KeyOperands = None
    keys_from: KeysFrom = None
    fields: Annotated[
        bool, declare_option("--fields", help="Treat every KEY as key-field values, never as a SOW key.")
    ] = False
    journal: Annotated[
        bool, declare_option("--journal", help="Print every entry in the journals, also for topics without History.")
    ] = False
    diff: Annotated[
        bool,
        declare_option("--diff", help="Print only the fields in which each version differs from the previous one."),
    ] = False
    message_type: MessageType = None
    fix_names: FixNames = False
    output: OutputChoice


def run(invocation: Invocation, arguments: HistoryArguments) -> int:
    """Print the versions of records, oldest first, in the order of the KEYs.

    Each version has its time of publication, the time until which it was current (empty if it still is), its txid, and
    whether it is a deletion, which has no message. For a topic with History, these are the retained versions within the
    History window, at least a Granularity apart; lossy means that versions between this one and the next were not
    retained. With --journal, all entries in the journals are printed; an expired record was current until its
    expiration. A version has the client that published it, if the journals still hold its entry and it has one. --meta
    adds the metadata of record envelopes. --keys-from reads any number of keys from a file, of which 10,000 are looked
    up at a time.

    With --diff, each version is a line with a mark: + new, ~ changed, with the changed fields below, = unchanged, -
    deleted, * first version still in the journals; with --format ndjson, one object per line. The exit status is 1 if a
    key has no versions.
    """
    from msgspec.structs import replace

    from sowctl.cli.commands.bodies.diff import show_versions
    from sowctl.cli.io.key_operands import MissingKeyNotes, read_keys
    from sowctl.cli.io.output_sink import Sink
    from sowctl.cli.lookup import resolve_one_target
    from sowctl.engine.verbs.history import SHORT_CLIENT_FIELDS, SHORT_METADATA_FIELDS, iterate_key_versions

    output = arguments.output
    plain = replace(output, format=None, meta=False, force=False)
    if arguments.diff and (output.format not in (None, "ndjson", "json") or plain != OutputChoice()):
        raise UsageError(
            "SOW-CLI-012",
            "--diff supports only the formats ndjson and json, and no options that change records",
            hint="remove these options, or --diff",
        )
    keys = read_keys(invocation, arguments.keys or (), arguments.keys_from)
    missing = MissingKeyNotes(
        invocation, lambda key: f"{escape_line(arguments.target)}: key {escape_line(key)} is unknown"
    )
    choice = replace(output, meta=True)
    sink = None if arguments.diff else Sink(invocation, choice, front=None if output.meta else SHORT_METADATA_FIELDS)
    with invocation.open_instance(arguments.target, fix_names=arguments.fix_names) as instance:
        where = resolve_one_target(instance, arguments.target, arguments.message_type)
        batches = iterate_key_versions(
            instance,
            where,
            keys,
            fields=arguments.fields,
            journal=arguments.journal,
            note_missing=missing.note,
        )
        if sink is not None and (output.meta or output.columns or output.template):
            sink.write(batches, fit=_TABLE_FIT)
            return missing.finish()
        first = next(batches, None)
        named = first is not None and any(record.client is not None for record in first.records)
        names = SHORT_CLIENT_FIELDS if named else SHORT_METADATA_FIELDS
        # A user who requested one record knows its key.
        known = (
            sink is not None and sink.is_for_person and arguments.keys_from is None and len(arguments.keys or ()) == 1
        )
        shown = (
            replace(batch, shown=names[1:] if known else names)
            for batch in chain(() if first is None else (first,), batches)
        )
        if sink is None:
            show_versions(invocation, shown, output.format)
        else:
            if named:
                sink.choose_front(SHORT_CLIENT_FIELDS)
            sink.write(shown, fit=_TABLE_FIT)
    return missing.finish()
