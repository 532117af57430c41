"""``sowctl export``: write records of topics to files."""

from __future__ import annotations

import time
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from sowctl.cli.context import Invocation
from sowctl.cli.parsing.options import At, LiteralTopic, MessageType, Meta, Strict, Summary, Target
from sowctl.cli.parsing.place_options import PlaceOptions
from sowctl.declarations import Argument, declare_option, declare_part
from sowctl.engine.options import QueryOptions, SubscribeOptions
from sowctl.engine.reports import ExportReport
from sowctl.errors import InputError, UsageError
from sowctl.output.display import escape_line

EXAMPLES = (
    "sowctl export orders orders.parquet",
    "sowctl export orders ibm.csv.gz \"/symbol = 'IBM'\" --order-by '/price DESC'",
    "sowctl export '.*' all.sqlite",
    "sowctl export '.*' lake/ --format parquet --at midnight",
    "sowctl export orders ten.sqlite --at 2026-01-05T10:00:00Z --meta",
    "sowctl export orders changes.ndjson --changes --since 1200",
    "sowctl export orders changes.parquet --changes --store etl.bookmarks --client etl --commit",
)


class ExportArguments(Struct, frozen=True, kw_only=True):
    """Options and operands of ``sowctl export``."""

    target: Target
    file: Annotated[
        str,
        Argument(
            "FILE",
            "Output file, whose extension selects the format, or a directory, for a file per topic.",
            complete="file",
        ),
    ]
    query: Annotated[
        QueryOptions, declare_part("filter", "order_by", "top_n", "skip_n", "sow_keys", "keys", "select", "fresh")
    ]
    at: At = None
    message_type: MessageType = None
    literal_topic: LiteralTopic = False
    meta: Meta = False
    file_format: Annotated[
        str | None,
        declare_option(
            "--format",
            "-F",
            help="Extension of the files in a directory, for example csv.gz. Default: ndjson.",
            metavar="EXT",
        ),
    ] = None
    add: Annotated[
        bool, declare_option("--add", help="Add tables to an existing .sqlite or .duckdb file; other tables stay.")
    ] = False
    strict: Strict = False
    summary: Summary = None
    overwrite: Annotated[
        bool, declare_option("--overwrite", "--force", help="Replace existing files, or with --add tables.")
    ] = False
    changes: Annotated[
        bool, declare_option("--changes", help="Write inserts, updates and deletions instead of records.")
    ] = False
    start: Annotated[SubscribeOptions, declare_part("bookmark", "bookmark_not_found")]
    place: Annotated[PlaceOptions, declare_part("store", "store_config", "client", "sub_id", "commit")]


def run(invocation: Invocation, arguments: ExportArguments) -> int:
    """Write the records of a topic, a .sow file, or all topics whose names match a pattern, to files.

    The extension of FILE selects the format: .parquet, .arrow (or .feather; .arrows is the stream format), .csv, .tsv,
    .ndjson (or .jsonl), .json, .msgpack, .sqlite (or .db), .duckdb. For text formats, an additional .gz or .zst
    compresses the file. The file is written atomically. An existing file is replaced only with --overwrite. Parquet,
    Arrow and SQLite require the extra arrow, DuckDB the extra sql.

    .sqlite and .duckdb have a table for each topic, with its name; with --add, the tables are added to an existing
    database in one transaction. If FILE is a directory or ends in /, each topic is written to a file NAME.EXT in it;
    {topic} in FILE stands for NAME. In file names, / and % are written as %2F and %25; if several topics have one
    name, the message type is added. The files of several topics appear together, after the last one is complete: if
    a topic cannot be written, there are no new files, and none is replaced; with --add to a file per topic, each
    database is changed by itself. SQLite reserves table names that begin with sqlite_. Other files hold several topics
    only where records or columns tell them apart. With --at, all topics are as of the same instant; without, each is
    read when its turn comes.

    Parquet, Arrow and SQLite have a column for every top-level member of the messages, in order of first appearance,
    with the types described under MESSAGES in sowctl-spark(7): 64-bit integers if they hold every value, otherwise
    doubles, otherwise decimals, otherwise text. A column with both text and numbers is text; no value becomes null.
    --meta adds the columns _sow_key, _txid, _timestamp, _expiration, _topic and others; several topics can be written
    to one table only with --meta. SQLite stores decimals and times as text, and structs and arrays as JSON; a table has
    at most 2,000 columns, whose names must differ in more than case. For the conversion of each type, including NaN,
    see sowctl-types(7).

    With --meta, .ndjson and .json have envelopes for publish: of a pattern, views, conflated topics and queues, which
    follow from other topics, are left out with a note.

    csv and tsv have a column for every member of any record, with numbers as originally written. A member that is
    called like a column of --meta, or whose name begins with /, has one more / in the header, which publish removes.
    If a message has duplicate members, columns have the first value, as filters do; ndjson and json keep both. publish
    reads all of these files again, except .duckdb; fields of fix, nvfix and bflat that are repeated need --type
    NAME=json in csv and tsv. Messages of composite-global, protobuf, struct and binary cannot be made of fields: only
    --meta keeps them, in .ndjson, .json and .msgpack.

    With --changes, the rows are the changes of one topic after the position --since (default: all that the journal
    has), in the order of the journal. Each has metadata; change_type is insert, update_preimage (the record before an
    update), update_postimage (the record after it) or delete. A deleted or expired record is a delete with its last
    message, and the reason deleted or expired; an expiration has no entry, so no txid and no bookmark. Applied to the
    records at the position, the rows give the records of now. A filter applies to the record of each row: a preimage
    without a postimage has left the result. If older journals were removed, their changes are missing, with a note; a
    record before a change may be unknown: its row is written without a message, whatever the filter. A position that is
    not in the journals is an error, so that no changes are skipped; --bookmark-not-found epoch starts at the oldest
    entry instead, and now at the end. The report names the position for the next --since; --store with --commit keeps
    it in a bookmark store, once the file is complete. publish does not read files of changes. Expirations since the
    last entry of the topic before the position may be in the file of the last run, too.
    """
    from contextlib import closing

    from sowctl.cli.lookup import apply_unknown
    from sowctl.cli.parsing.option_values import parse_at_option
    from sowctl.engine.api.export_file import (
        ExportOptions,
        export_targets,
        is_database,
        is_directory,
        select_exported,
    )
    from sowctl.engine.topics.targets import resolve_targets, select_publishable_targets
    from sowctl.engine.verbs.query import start_query
    from sowctl.output.exports import Export, can_publish, find_file_format, refuse_mixed_topics
    from sowctl.output_file import FORCE_HINT, open_whole_file, refuse_existing
    from sowctl.remote.place import require_local_path

    path = require_local_path(arguments.file, "sowctl pipeline export TOPIC --output URL writes to a URL")
    _check_position_options(arguments)
    if arguments.changes:
        refuse_existing(path, force=arguments.overwrite)
        from sowctl.cli.commands.bodies.export_changes import export_changes
        from sowctl.cli.commands.bodies.subscribe import FollowedTopics

        return export_changes(
            invocation,
            arguments.file,
            FollowedTopics((arguments.target,), arguments.message_type, arguments.literal_topic, arguments.strict),
            arguments.query,
            arguments.start,
            arguments.place,
            overwrite=arguments.overwrite,
            summary=arguments.summary,
        )
    apart = is_directory(arguments.file)
    if not apart and not arguments.add:
        refuse_existing(path, force=arguments.overwrite)
    if arguments.add and not is_database(path):
        raise UsageError("SOW-EXC-010", "--add requires a file that ends in .sqlite or .duckdb")
    if arguments.file_format is not None and not apart:
        raise UsageError("SOW-EXC-010", "--format requires a directory: the end of the file name selects the format")
    when = parse_at_option(invocation, arguments.at)
    asked = replace(arguments.query, at=when.time, by_time=arguments.meta, counted=False)
    asked = apply_unknown(invocation, asked, None, strict=arguments.strict)
    started = time.monotonic()
    with invocation.open_instance(arguments.target) as instance:
        targets = resolve_targets(
            instance, arguments.target, arguments.message_type, literal=arguments.literal_topic, derived=True
        )
        targets = select_exported(instance, targets, when.resolve_time(instance))
        ending = find_file_format(arguments.file).ending
        if ending is not None and can_publish(ending.format, meta=arguments.meta):
            targets = select_publishable_targets(instance, targets)
        labels = [one.topic.label for one in targets if one.topic is not None]
        # A single topic is written without copying the whole database.
        if apart or (is_database(path) and (len(targets) > 1 or arguments.add or path.suffix == ".duckdb")):
            asked = replace(asked, at=when.resolve_time(instance))
            writing = ExportOptions(arguments.meta, arguments.overwrite, arguments.add, FORCE_HINT)
            instance = replace(instance, seam=invocation.seam)
            if apart and not arguments.add:
                # For the message of an error or an interrupt.
                invocation.durable = "no files were written"
            reports = export_targets(instance, targets, arguments.file, asked, writing, arguments.file_format)
            invocation.durable = None
            return _print_reports(invocation, arguments, labels, reports, time.monotonic() - started)
        writer = Export(arguments.file, labels[0] if len(labels) == 1 else "records", meta=arguments.meta)
        if writer.is_table and not arguments.meta:
            refuse_mixed_topics(targets, arguments.file)
        asked = replace(asked, at=when.resolve_time(instance))
        with (
            closing(start_query(instance, targets, asked)) as result,
            open_whole_file(path, force=arguments.overwrite, seam=invocation.seam) as stream,
        ):
            written = writer.write(result, stream)
    size = path.stat().st_size
    report = ExportReport(arguments.file, written.records, size, written.notes, warnings=written.warnings)
    return _print_reports(invocation, arguments, labels, [report], time.monotonic() - started)


def _print_reports(
    invocation: Invocation, arguments: ExportArguments, labels: list[str], reports: list[ExportReport], seconds: float
) -> int:
    """Print the written files: a line for each, and a total if there are several."""
    from sowctl.cli.io.report_output import show_words
    from sowctl.output.replaced_bytes import REPLACED_CODE, REPLACED_HINT
    from sowctl.values.display import format_bytes, format_count, format_duration

    for note in dict.fromkeys(note for report in reports for note in report.notes):
        invocation.note(note)
    warnings = [warning for report in reports for warning in report.warnings]
    for warning in warnings:
        invocation.warn(warning, code=REPLACED_CODE, hint=REPLACED_HINT)
    records, size = sum(one.records for one in reports), sum(one.file_bytes for one in reports)
    lines = [
        f"{escape_line(one.path)}: {format_count(one.records, 'record')}, {format_bytes(one.file_bytes)}"
        for one in reports
    ]
    if len(reports) != 1:
        total = f"{format_count(records, 'record')}, {format_bytes(size)}"
        lines.append(f"{format_count(len(reports), 'file')}: {total}")
    row = {"file": arguments.file, "topics": labels, "records": records, "bytes": size, "seconds": round(seconds, 6)}
    show_words(invocation, "\n".join(lines) + f" in {format_duration(seconds)}", row, arguments.summary)
    return InputError.exit_status if warnings else 0


def _check_position_options(arguments: ExportArguments) -> None:
    """Reject options that require, or conflict with, --changes. Raises UsageError ``SOW-EXC-019``, ``SOW-CLI-033``."""
    query, start, place = arguments.query, arguments.start, arguments.place
    given: dict[str, object]
    if arguments.changes:
        given = {"--at": arguments.at, "--order-by": query.order_by, "--limit": query.top_n, "--offset": query.skip_n}
        given |= {"--fresh": query.fresh or None, "--add": arguments.add or None, "--format": arguments.file_format}
    else:
        given = {"--since": start.bookmark, "--bookmark-not-found": start.bookmark_not_found, "--store": place.store}
        given |= {"--store-config": place.store_config, "--client": place.client, "--sub-id": place.sub_id}
        given["--commit"] = place.commit or None
    found = next((name for name, value in given.items() if value is not None), None)
    if found is not None and arguments.changes:
        raise UsageError("SOW-EXC-019", f"{found} and --changes exclude each other", hint=f"remove {found}")
    if found is not None:
        hint = "add --changes; for the records of a past time, use --at"
        raise UsageError("SOW-CLI-033", f"{found} requires --changes", hint=hint)
