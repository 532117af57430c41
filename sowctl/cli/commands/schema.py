"""``sowctl schema``: the paths and types of the messages of a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Struct
from msgspec.structs import replace

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import OutputChoice, ReadTargets, RecordChoice, Sample
from sowctl.declarations import declare_option, declare_part
from sowctl.errors import UsageError

if TYPE_CHECKING:
    from sowctl.cli.commands.bodies.inspection import Ask
    from sowctl.engine.profile.sample import SampleShare
    from sowctl.engine.verbs.inspect.schema import SchemaReport
    from sowctl.messages.base import MessageType as Kind

NARROW_COLUMNS = 80
"""Width of a terminal in columns below which examples are omitted."""
EXAMPLES = (
    "sowctl schema orders",
    "sowctl schema customers --at 2026-01-05T10:00:00Z --json",
    "sowctl schema orders \"/status = 'filled'\" --sample 10%",
    "sowctl schema customers --json-schema",
    "sowctl schema orders --ddl",
)


class SchemaArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl schema``."""

    targets: ReadTargets
    records: RecordChoice
    sample: Sample = None
    json_schema: Annotated[
        bool, declare_option("--json-schema", help="Print a JSON Schema that matches all messages.")
    ] = False
    ddl: Annotated[
        bool, declare_option("--ddl", help="Print the fields as a Spark schema, for the option payloadSchema.")
    ] = False
    output: Annotated[OutputChoice, declare_part("format", "columns", "path", "force")]


def run(invocation: Invocation, arguments: SchemaArguments) -> int:
    """Print the paths of messages with types, NULL and missing counts, distinct values and examples.

    The schema is inferred from the messages. [*] stands for the elements of an array; filters omit it. A number without
    decimal point and exponent is an integer if it fits into 64 bits, and a number otherwise. If a path has several
    types, each is printed with its count. null counts NULL and empty strings, which filters treat as NULL; missing
    counts the parent objects that lack the member.

    All records are read; --sample reads only those with the lowest hashes of their keys, which are the same in every
    run. Distinct values are counted exactly up to 500,000 for all paths together; beyond that, the paths with the most
    values are estimated (HyperLogLog, standard error 1.6 %), which is marked with ~ and distinct_error. At most 10,000
    paths are reported.

    --ddl prints a line per topic for the option payloadSchema of sowctl-spark(7): types are wide enough for all values,
    and STRING for mixed types.
    """
    from sowctl.cli.commands.bodies.inspection import (
        build_path_row,
        inspect_topics,
        note_coverage,
    )
    from sowctl.cli.io.output_sink import Sink
    from sowctl.engine.profile.jsonschema import build_json_schema as json_schema_of
    from sowctl.engine.profile.path_profile import MAX_PATHS
    from sowctl.engine.profile.sample import parse_sample

    if (arguments.json_schema or arguments.ddl) and (
        arguments.output.format is not None
        or arguments.output.columns is not None
        or arguments.json_schema is arguments.ddl
    ):
        name = "--json-schema" if arguments.json_schema else "--ddl"
        raise UsageError("SOW-CLI-012", f"{name} is itself an output format", hint="remove --format")
    share = parse_sample(arguments.sample)
    chosen = "ndjson" if arguments.json_schema or arguments.ddl else arguments.output.format
    sink = Sink(
        invocation,
        replace(arguments.output, format=chosen),
        facts=True,
    )
    if arguments.ddl:
        lines = inspect_topics(
            invocation, arguments.targets, arguments.records, lambda ask, topic, kind: _declare_fields(ask, kind, share)
        )
        sink.write_text("".join(line + "\n" for line in lines))
        return 0
    reports = inspect_topics(
        invocation, arguments.targets, arguments.records, lambda ask, topic, kind: _read_schema(ask, topic, kind, share)
    )
    for report in reports:
        note_coverage(invocation, report)
        if report.left_out:
            invocation.warn(f"{report.topic}: more than {MAX_PATHS:,} paths; later ones are not included")
    if arguments.json_schema:
        documents = [json_schema_of(report.root, report.topic) for report in reports]
        sink.write_rows(documents)
        return 0
    brief = sink.format == "table"
    terminal = sink.options.terminal
    # The paths are essential: on a narrow terminal, examples would take up their space.
    left_out = {"examples"} if brief and terminal is not None and terminal.columns < NARROW_COLUMNS else set()
    several = len(reports) > 1
    for_each = (
        ({"topic": report.topic} if several and brief else {}) | build_path_row(report, facts, brief=brief)
        for report in reports
        for facts in report.paths
    )
    sink.write_rows({name: value for name, value in row.items() if name not in left_out} for row in for_each)
    return 0


def _declare_fields(ask: Ask, kind: Kind, share: SampleShare) -> str:
    from sowctl.engine.verbs.inspect.schema import format_spark_schema

    with ask() as batches:
        return format_spark_schema(batches, kind, share)


def _read_schema(ask: Ask, topic: str, kind: Kind, share: SampleShare) -> SchemaReport:
    from sowctl.engine.verbs.inspect.schema import profile_schema

    with ask() as batches:
        return profile_schema(batches, topic, kind, share)
