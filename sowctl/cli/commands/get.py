"""``sowctl get``: single records by key."""

from __future__ import annotations

from typing import Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.declare import Argument
from sowctl.cli.options import (
    At,
    Columns,
    Delimiter,
    Force,
    Format,
    Lengths,
    MessageType,
    Meta,
    Null,
    Output,
    Target,
    Template,
)
from sowctl.output.display import display

EXAMPLES = (
    "sowctl get orders 10417",
    "sowctl get orders 10417 10418 --meta",
    "sowctl get quotes IBM --at -15m",
)


def run(
    invocation: Invocation,
    target: Target,
    keys: Annotated[list[str], Argument("KEY", "SOW keys, or the values of the key fields joined by commas")],
    at: At = None,
    message_type: MessageType = None,
    format: Format = None,
    meta: Meta = False,
    columns: Columns = None,
    delimiter: Delimiter = None,
    null: Null = False,
    length_prefix: Lengths = False,
    template: Template = None,
    output: Output = None,
    force: Force = False,
) -> int:
    """Print records by SOW key or by the values of their key fields, in the order asked for.

    Ends with status 1 where a key has no record; the others are printed.
    """
    from sowctl.cli.emit import Choice, Sink
    from sowctl.engine.get import get

    sink = Sink(invocation, Choice(format, meta, columns, delimiter, null, length_prefix, template, output, force))
    with invocation.open_instance(target) as instance:
        result = get(instance, target, keys, at=at, message_type=message_type)
        sink.write(result)
    for key in result.missing:
        invocation.note(f"{display(target)}: no record with key {display(key)}")
    return 1 if result.missing else 0
