"""``sowctl export``: records of topics into a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import At, LiteralTopic, MessageType, Meta, Strict, Summary, Target
from sowctl.declarations import Argument, declare_option, declare_part
from sowctl.engine.options import QueryOptions
from sowctl.output.display import escape_line
from sowctl.values.display import format_count

EXAMPLES = (
    "sowctl export orders orders.parquet",
    "sowctl export orders ibm.csv.gz \"/symbol = 'IBM'\" --order-by '/price DESC'",
    "sowctl export orders ten.sqlite --at 2026-01-05T10:00:00Z --meta",
)


class ExportArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl export``."""

    target: Target
    file: Annotated[str, Argument("FILE", "Output file; its extension selects the format.", complete="file")]
    query: Annotated[
        QueryOptions, declare_part("filter", "order_by", "top_n", "skip_n", "sow_keys", "keys", "select", "fresh")
    ]
    at: At = None
    message_type: MessageType = None
    literal_topic: LiteralTopic = False
    meta: Meta = False
    strict: Strict = False
    summary: Summary = None
    overwrite: Annotated[bool, declare_option("--overwrite", "--force", help="Replace an existing file.")] = False


def run(invocation: Invocation, arguments: ExportArguments) -> int:
    """Write the records of a topic, a .sow file, or all topics whose names match a pattern, to one file.

    The extension of FILE selects the format: .parquet, .arrow (or .feather; .arrows is the stream format), .csv, .tsv,
    .ndjson (or .jsonl), .json, .msgpack, .sqlite (or .db). For text formats, an additional .gz or .zst
    compresses the file. The file is written atomically. An existing file is replaced only with --overwrite. Parquet,
    Arrow and SQLite require the extra arrow.

    Parquet, Arrow and SQLite have a column for every top-level member of the messages, in order of first appearance,
    with the types described under MESSAGES in sowctl-spark(7): 64-bit integers if they hold every value, otherwise
    doubles, otherwise decimals, otherwise text. A column with both text and numbers is text; no value becomes null.
    --meta adds the columns _sow_key, _txid, _timestamp, _expiration, _topic and others; several topics can be written
    to one table only with --meta. SQLite stores decimals and times as text, and structs and arrays as JSON; its table
    has the name of the topic and at most 2,000 columns, whose names must differ in more than case. For the conversion
    of each type, including NaN, see sowctl-types(7).

    csv and tsv have a column for every member of any record, with numbers as originally written. If a message has
    duplicate members, csv and tsv use the first value, as filters do; Parquet, Arrow and SQLite use the last; ndjson
    and json keep both. publish --from reads .ndjson, .csv, .tsv, .parquet and Arrow files, but not .json and .sqlite.
    """
    from contextlib import closing

    from sowctl.cli.io.report_output import show_words
    from sowctl.cli.lookup import apply_unknown
    from sowctl.cli.parsing.option_values import parse_at_option
    from sowctl.engine.topics.targets import resolve_targets
    from sowctl.engine.verbs.query import start_query
    from sowctl.output.exports import Export, refuse_mixed_topics
    from sowctl.output_file import open_whole_file, refuse_existing
    from sowctl.values.display import format_bytes, format_duration

    path = Path(arguments.file)
    refuse_existing(path, force=arguments.overwrite)
    when = parse_at_option(invocation, arguments.at)
    asked = replace(arguments.query, at=when.time, by_time=arguments.meta, counted=False)
    asked = apply_unknown(invocation, asked, None, strict=arguments.strict)
    started = time.monotonic()
    with invocation.open_instance(arguments.target) as instance:
        targets = resolve_targets(
            instance, arguments.target, arguments.message_type, literal=arguments.literal_topic, derived=True
        )
        labels = [one.topic.label for one in targets if one.topic is not None]
        writer = Export(arguments.file, labels[0] if len(labels) == 1 else "records", meta=arguments.meta)
        if writer.is_table and not arguments.meta:
            refuse_mixed_topics(targets, arguments.file)
        asked = replace(asked, at=when.resolve_time(instance))
        with (
            closing(start_query(instance, targets, asked)) as result,
            open_whole_file(path, force=arguments.overwrite, seam=invocation.seam) as stream,
        ):
            written = writer.write(result, stream)
    for note in written.notes:
        invocation.note(note)
    seconds, size = time.monotonic() - started, path.stat().st_size
    words = f"{escape_line(arguments.file)}: {format_count(written.records, 'record')}, {format_bytes(size)}"
    row = {"file": arguments.file, "topics": labels, "records": written.records, "bytes": size}
    row |= {"seconds": round(seconds, 6)}
    show_words(invocation, f"{words} in {format_duration(seconds)}", row, arguments.summary)
    return 0
