"""``sowctl journal tail``: print the last entries, and follow new ones."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import FixNames, OutputChoice, StreamJson, Topics, choose_stream_output
from sowctl.declarations import declare_option, declare_part
from sowctl.errors import UsageError

EXAMPLES = (
    "sowctl journal tail",
    "sowctl journal tail -n 3 orders quotes --no-data",
    "sowctl journal tail -f orders",
)
_COLLECTING_FORMATS = ("table", "json")
"""Formats that are written only when all records are known."""


class JournalTailArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl journal tail``."""

    topic_names: Topics = None
    number: Annotated[
        int,
        declare_option(
            "--number", "-n", help="Number of entries to print, counted from the end.", metavar="N", minimum=0
        ),
    ] = 10
    follow: Annotated[bool, declare_option("--follow", "-f", help="Keep printing new entries as they are written.")] = (
        False
    )
    no_data: Annotated[bool, declare_option("--no-data", help="Omit the payloads.")] = False
    fix_names: FixNames = False
    json: StreamJson = False
    output: Annotated[OutputChoice, declare_part("format", "columns", "no_headers")]


def run(invocation: Invocation, arguments: JournalTailArguments) -> int:
    """Print the last entries of the journal, of all topics or of some, as envelopes in journal order.

    With --follow, the command keeps printing entries as they are acknowledged, until it is interrupted; journal files
    may be rotated or moved meanwhile. The entries of a group are printed once the group is complete.
    """
    output = choose_stream_output(arguments.output, json=arguments.json, follow=arguments.follow)
    if arguments.follow and output.format in _COLLECTING_FORMATS:
        raise UsageError(
            "SOW-CLI-012",
            f"--follow and --format {output.format} exclude each other",
            hint="use for example --format ndjson",
        )
    from sowctl.cli.io.output_sink import Sink
    from sowctl.engine.verbs.upkeep.journal_tail import follow_journal, read_journal_tail

    streams = invocation.streams
    chosen = (output.format or "ndjson") if arguments.follow else output.format
    sink = Sink(invocation, replace(output, format=chosen, meta=True))
    with invocation.open_instance(fix_names=arguments.fix_names) as instance:
        if arguments.follow:
            # The output of a separate process may be a pipe whose reader closes it while nothing is written.
            descriptor = streams.stdout.fileno() if invocation.own_process else None
            sink.write(
                follow_journal(
                    instance,
                    arguments.topic_names or (),
                    arguments.number,
                    data=not arguments.no_data,
                    output=descriptor,
                    waiting=streams.stdout.flush,
                )
            )
        else:
            sink.write(
                read_journal_tail(instance, arguments.topic_names or (), arguments.number, data=not arguments.no_data)
            )
    return 0
