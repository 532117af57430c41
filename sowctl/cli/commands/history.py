"""``sowctl history``: the versions of records."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words.declare import Argument, option
from sowctl.cli.words.options import (
    Columns,
    Delimiter,
    FixNames,
    Force,
    Format,
    Lengths,
    MessageType,
    Meta,
    NoHeaders,
    Null,
    Output,
    Target,
    Template,
)
from sowctl.errors import UsageError
from sowctl.output.display import display

EXAMPLES = (
    "sowctl history customers C0042",
    "sowctl history orders 10417 --journal",
    "sowctl history orders 10417 10418 --journal --meta",
    "sowctl history orders 10417 --journal --diff",
)


def run(
    invocation: Invocation,
    target: Target,
    keys: Annotated[list[str], Argument("KEY", "SOW keys, or the values of the key fields joined by commas")],
    fields: Annotated[bool, option("--fields", help="KEYs are never SOW keys, always key-field values")] = False,
    journal: Annotated[
        bool, option("--journal", help="every entry that the journals hold, also for topics without History")
    ] = False,
    diff: Annotated[
        bool, option("--diff", help="each version beside the one before it: only the fields that differ")
    ] = False,
    message_type: MessageType = None,
    format: Format = None,
    meta: Meta = False,
    columns: Columns = None,
    fix_names: FixNames = False,
    delimiter: Delimiter = None,
    null: Null = False,
    length_prefix: Lengths = False,
    template: Template = None,
    no_headers: NoHeaders = False,
    output: Output = None,
    force: Force = False,
) -> int:
    """Print the versions of records, key after key as asked for, oldest first.

    Each version says when it was published, until when it was current (nothing: it still is), its txid and whether it
    is a deletion, which has no message. A topic with History shows what it retains within its window; lossy means that
    versions between this one and the next were not retained. With --journal the journals answer, with all that they
    hold; a record that expired was current until its stamp. --meta adds what envelopes of records have. With --diff
    the versions are lines with marks: + the record is new, ~ changed, with its fields below, = repeated as it was,
    - deleted, * the first that the journals still hold; with --format ndjson one object a line. Ends with status 1
    where nothing is known of a key.
    """
    from msgspec.structs import replace

    from sowctl.cli.commands.bodies.diff import show_versions
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.cli.lookup import one
    from sowctl.engine.verbs.history import SHORT, versions

    choice = Choice(format, True, columns, delimiter, null, length_prefix, template, output, force, no_headers)
    if diff and (
        format not in (None, "ndjson", "json")
        or any((columns, delimiter, null, length_prefix, template, output, no_headers))
    ):
        raise UsageError(
            "SOW-CLI-012",
            "--diff excludes other formats than ndjson and json, and options that shape records",
            hint="leave them out, or leave out --diff",
        )
    sink = None if diff else Sink(invocation, choice, front=None if meta else SHORT)
    with invocation.open_instance(target, fix_names=fix_names) as instance:
        batch, missing = versions(instance, one(instance, target, message_type), keys, fields=fields, journal=journal)
        if not (meta or columns or template):
            batch = replace(batch, shown=SHORT)
        if sink is None:
            show_versions(invocation, batch, format)
        else:
            sink.write([batch])
    for key in missing:
        invocation.note(f"{display(target)}: nothing is known of key {display(key)}")
    return 1 if missing else 0
