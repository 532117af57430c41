"""``sowctl export``: records of topics into a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from msgspec.structs import replace

from sowctl.cli.context import Invocation
from sowctl.cli.words import queryoptions as asking
from sowctl.cli.words.declare import Argument, option
from sowctl.cli.words.options import At, Filter, LiteralTopic, MessageType, Meta, SowKeys, Target
from sowctl.errors import UsageError
from sowctl.output.display import display

EXAMPLES = (
    "sowctl export orders orders.parquet",
    "sowctl export orders ibm.csv.gz \"/symbol = 'IBM'\" --order-by '/price DESC'",
    "sowctl export orders ten.sqlite --at 2026-01-05T10:00:00Z --meta",
)


def run(
    invocation: Invocation,
    target: Target,
    file: Annotated[str, Argument("FILE", "where to; its ending says the format", complete="file")],
    expression: Annotated[str | None, Argument("FILTER", "same as --filter")] = None,
    filter: Filter = None,
    order_by: asking.OrderBy = None,
    top_n: asking.TopN = None,
    skip_n: asking.SkipN = None,
    sow_key: SowKeys = None,
    at: At = None,
    select: asking.Select = None,
    message_type: MessageType = None,
    literal_topic: LiteralTopic = False,
    meta: Meta = False,
    fresh: asking.Fresh = False,
    strict: asking.Strict = False,
    overwrite: Annotated[bool, option("--overwrite", "--force", help="replace an existing file")] = False,
) -> int:
    """Write the records of a topic, a .sow file, or all topics whose names match a pattern, into one file.

    The ending of FILE says the format: .parquet, .arrow (or .feather; .arrows is the stream), .csv, .tsv, .ndjson (or
    .jsonl), .json, .sqlite (or .db); behind the names of texts .gz or .zst packs them. The file appears whole or not at
    all. An existing one is replaced with --overwrite alone. Parquet, Arrow and SQLite need the extra arrow.

    Parquet, Arrow and SQLite have a column for every first-level member of the messages, in the order in which they
    are first seen, typed as sowctl-spark(7) says under MESSAGES: 64-bit numbers where these hold every value, else
    doubles, else decimals, else texts. A text where others have a number makes the column a text; nothing becomes null.
    With --meta there are the columns _sow_key, _txid, _timestamp, _expiration, _topic and others, too; several topics
    go into one table with --meta only. In SQLite decimals and times are texts, structs and arrays JSON; its table has
    the topic's name, 2,000 columns at most, and none that differ in capitals alone. sowctl-types(7) says what every
    kind of value becomes, NaN among them.

    csv and tsv have the members of all records, numbers as they were written. Of a member that is given twice, csv and
    tsv have the first value, as filters have; Parquet, Arrow and SQLite have the last; the lines of ndjson and json
    have both. publish --from reads back .ndjson, .csv, .tsv, .parquet and the files of Arrow, not .json and .sqlite.
    """
    from contextlib import closing

    from sowctl.cli.io.outfile import refuse_existing, whole_file
    from sowctl.cli.words.when import moment, sow_keys
    from sowctl.engine.options import QueryOptions
    from sowctl.engine.topics.targets import resolve
    from sowctl.engine.verbs.query import query
    from sowctl.output.exports import Export, refuse_mixed_topics

    if filter is not None and expression is not None:
        raise UsageError("SOW-CLI-013", "the filter is given twice", hint="give FILTER or --filter, not both")
    path = Path(file)
    refuse_existing(path, force=overwrite)
    when = moment(invocation, at)
    asked = QueryOptions(
        filter=filter if filter is not None else expression,
        order_by=order_by,
        top_n=top_n,
        skip_n=skip_n,
        sow_keys=sow_keys(sow_key) or None,
        at=when.time,
        select=select,
        by_time=meta,
        counted=False,
        fresh=fresh,
    )
    asked = asking.with_unknown(invocation, asked, None, strict=strict)
    started = time.monotonic()
    with invocation.open_instance(target) as instance:
        targets = resolve(instance, target, message_type, literal=literal_topic, derived=True)
        topics = [one.topic.label for one in targets if one.topic is not None]
        writer = Export(file, topics[0] if len(topics) == 1 else "records", meta=meta)
        if writer.is_table and not meta:
            refuse_mixed_topics(targets, file)
        asked = replace(asked, at=when.of(instance))
        with (
            closing(query(instance, targets, asked)) as result,
            whole_file(path, force=overwrite, seam=invocation.seam) as stream,
        ):
            written = writer.write(result, stream)
    for note in written.notes:
        invocation.note(note)
    seconds = time.monotonic() - started
    invocation.note(f"{display(file)}: {written.records:,} records, {path.stat().st_size:,} bytes, in {seconds:.1f} s")
    return 0
