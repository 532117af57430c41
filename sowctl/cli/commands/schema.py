"""``sowctl schema``: what the messages of a topic consist of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from sowctl.cli.context import Invocation
from sowctl.cli.words import queryoptions as asking
from sowctl.cli.words.declare import Argument, option
from sowctl.cli.words.options import (
    At,
    Columns,
    Filter,
    FixNames,
    Force,
    Format,
    LiteralTopic,
    MessageType,
    Output,
    Sample,
    Target,
)
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.cli.commands.bodies.looking import Ask
    from sowctl.engine.profile.sample import SampleShare
    from sowctl.engine.verbs.looking.schema import SchemaReport
    from sowctl.messages.base import MessageType as Kind

NARROW = 80
"""Columns of a terminal below which there are no examples."""
EXAMPLES = (
    "sowctl schema orders",
    "sowctl schema customers --at 2026-01-05T10:00:00Z --json",
    "sowctl schema orders \"/status = 'filled'\" --sample 10%",
    "sowctl schema customers --json-schema",
    "sowctl schema orders --ddl",
)


def run(
    invocation: Invocation,
    target: Target,
    expression: Annotated[str | None, Argument("FILTER", "same as --filter")] = None,
    filter: Filter = None,
    sample: Sample = None,
    at: At = None,
    fresh: asking.Fresh = False,
    strict: asking.Strict = False,
    message_type: MessageType = None,
    literal_topic: LiteralTopic = False,
    json_schema: Annotated[
        bool, option("--json-schema", help="print a JSON Schema that all these messages satisfy")
    ] = (False),
    ddl: Annotated[bool, option("--ddl", help="print the fields as Spark declares them, for payloadSchema")] = False,
    format: Format = None,
    columns: Columns = None,
    fix_names: FixNames = False,
    output: Output = None,
    force: Force = False,
) -> int:
    """Print the paths that messages have: types, how often each is NULL or missing, distinct values, examples.

    Everything is found by reading messages: no schema is declared anywhere. [*] stands for the elements of an array;
    a filter leaves it out. A number without point and exponent is an integer where it fits 64 bits, every other one a
    number. Where a path has several types, each stands with its count. null counts NULL and empty texts, which filters
    take for NULL; missing counts the objects one level up that lack the member.

    All records are read. --sample takes as many as it says, those whose keys have the lowest hashes: the same ones in
    every run. Distinct values are counted exactly as long as those of all paths together are at most 500,000; then
    those of the paths with the most are estimated (HyperLogLog, standard error 1.6 %), which ~ and distinct_error say.
    Up to 10,000 paths are told apart.

    --ddl prints a line for each topic, which the option payloadSchema of sowctl-spark(7) takes: types as wide as all
    values, STRING where they are mixed.
    """
    from sowctl.cli.commands.bodies.looking import RecordOptions, looked_at, path_row, share_of, tell
    from sowctl.cli.io.emit import Choice, Sink
    from sowctl.engine.profile.jsonschema import json_schema as json_schema_of
    from sowctl.engine.profile.shape import MOST_PATHS

    if filter is not None and expression is not None:
        raise UsageError("SOW-CLI-013", "the filter is given twice", hint="give FILTER or --filter, not both")
    if (json_schema or ddl) and (format is not None or columns is not None or json_schema is ddl):
        name = "--json-schema" if json_schema else "--ddl"
        raise UsageError("SOW-CLI-012", f"{name} is a format of its own", hint="leave the other one out")
    share = share_of(sample)
    chosen = "ndjson" if json_schema or ddl else format
    sink = Sink(invocation, Choice(chosen, columns=columns, output=output, force=force))
    wanted = RecordOptions(
        target, filter or expression, at, message_type, literal_topic, fresh, fix_names, strict=strict
    )
    if ddl:
        lines = looked_at(invocation, wanted, lambda ask, topic, kind: _declared(ask, kind, share))
        sink.write_text("".join(line + "\n" for line in lines))
        return 0
    reports = looked_at(invocation, wanted, lambda ask, topic, kind: _read(ask, topic, kind, share))
    for report in reports:
        tell(invocation, report)
        if report.left_out:
            invocation.warn(f"{report.topic}: more than {MOST_PATHS:,} paths; those that came later are left out")
    if json_schema:
        documents = [json_schema_of(report.root, report.topic) for report in reports]
        sink.write_rows(documents)
        return 0
    brief = sink.format == "table"
    terminal = sink.options.terminal
    # The paths are what is asked for: on a narrow terminal examples would take their room.
    left_out = {"examples"} if brief and terminal is not None and terminal.columns < NARROW else set()
    several = len(reports) > 1
    for_each = (
        ({"topic": report.topic} if several and brief else {}) | path_row(report, facts, brief=brief)
        for report in reports
        for facts in report.paths
    )
    sink.write_rows({name: value for name, value in row.items() if name not in left_out} for row in for_each)
    return 0


def _declared(ask: Ask, kind: Kind, share: SampleShare) -> str:
    from sowctl.engine.verbs.looking.schema import declared

    with ask() as batches:
        return declared(batches, kind, share)


def _read(ask: Ask, topic: str, kind: Kind, share: SampleShare) -> SchemaReport:
    from sowctl.engine.verbs.looking.schema import schema

    with ask() as batches:
        return schema(batches, topic, kind, share)
